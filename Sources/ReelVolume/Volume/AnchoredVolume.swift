import ReelCore
import ReelFilesystem
import ReelThreads

/// A filesystem with one more file in its root, without bytes, which is there only while the tree can be trusted: while
/// its origins answer, each listing is as new as it should be, and all sources of a catalogue are open.
///
/// Programs that delete from their database what they do not see look for such a file before they scan.
package final class AnchoredVolume: MountedVolume {
    private let volume: any MountedVolume
    private let name: String
    private let attributes: Attributes
    private let file = AnchorFile()
    private let state = Lock(State())

    private struct State {
        var kernel: (any KernelCache)?
        /// What the last look found, nil if there was none. Only a look changes it: if answers to the kernel did so
        /// too, the next look would see no change, and notify the kernel of none.
        var isThere: Bool?
    }

    /// Slot 0 of no generation of a `NodeTable`, and no folder of a catalogue.
    private static let node: NodeID = 1 << 32
    /// Behind the last item of any directory.
    private static let end = 1 << 62

    /// - Parameters:
    ///   - name: of the file; it hides an entry of this name.
    ///   - modified: its date, in seconds since 1970.
    package init(_ volume: any MountedVolume, name: String, modified: Int64) {
        self.volume = volume
        self.name = name
        attributes = Attributes(
            inode: inodeNumber(of: name, in: rootNode), isDirectory: false, length: 0, modified: modified)
    }

    /// Looks whether the file has come or gone, and notifies the kernel.
    package func check() {
        let isThere = volume.isTrusted
        let kernel = state.withLock { state in
            defer { state.isThere = isThere }
            return state.isThere == isThere ? nil : state.kernel
        }
        kernel?.forgetEntry(name, in: rootNode)
    }

    // MARK: The mount

    package var maintenance: any CacheCommands { volume.maintenance }
    package var prefetches: PrefetchJobs { volume.prefetches }
    package var line: Line { volume.line }
    package func setOffline(_ isOffline: Bool) {
        volume.setOffline(isOffline)
        check()
    }
    package var isTrusted: Bool { volume.isTrusted }
    package func connect(_ cache: any KernelCache) {
        state.withLock { $0.kernel = cache }
        volume.connect(cache)
    }
    package func announce(socketPath path: String) { volume.announce(socketPath: path) }
    package func status() -> VolumeStatus { volume.status() }
    package var lastFailures: [RequestRecord] { volume.lastFailures }
    package func lineProgress() -> LineProgress { volume.lineProgress() }
    package func shutdown() { volume.shutdown() }

    // MARK: The filesystem

    private func isAnchor(_ name: String, in parent: NodeID) -> Bool {
        parent == rootNode && ExactText(name) == ExactText(self.name)
    }

    package func lookup(
        _ name: String, in parent: NodeID, _ view: VolumeView, _ completion: @escaping Completion<Entry>
    ) {
        guard isAnchor(name, in: parent) else { return volume.lookup(name, in: parent, view, completion) }
        // The file says that the tree is whole, which such a view never is.
        if view == .cached { return completion(.failure(.notFound)) }
        let isThere = volume.isTrusted
        completion(isThere ? .success(Entry(node: Self.node, attributes: attributes)) : .failure(.notFound))
        // The kernel takes this answer for newer than a notice that a look gave it meanwhile.
        if volume.isTrusted != isThere { state.withLock { $0.kernel }?.forgetEntry(name, in: rootNode) }
    }

    package func findAgain(
        _ name: String, in parent: NodeID, _ view: VolumeView, _ completion: @escaping Completion<Entry>
    ) {
        guard isAnchor(name, in: parent) else { return volume.findAgain(name, in: parent, view, completion) }
        completion(view == .cached ? .failure(.notFound) : .success(Entry(node: Self.node, attributes: attributes)))
    }

    package func forget(_ node: NodeID, count: UInt64) {
        if node != Self.node { volume.forget(node, count: count) }
    }

    package func attributes(of node: NodeID, _ completion: @escaping Completion<Attributes>) {
        if node != Self.node { return volume.attributes(of: node, completion) }
        completion(.success(attributes))
    }

    package func place(of node: NodeID) -> NodePlace? {
        if node != Self.node { return volume.place(of: node) }
        return NodePlace(parent: rootNode, name: name, isDirectory: false)
    }

    package func readLink(_ node: NodeID, _ view: VolumeView, _ completion: @escaping Completion<String>) {
        node == Self.node ? completion(.failure(.unsupported)) : volume.readLink(node, view, completion)
    }

    package func open(
        _ node: NodeID, by thread: Int32?, _ view: VolumeView, _ completion: @escaping Completion<any FileHandle>
    ) {
        if node != Self.node { return volume.open(node, by: thread, view, completion) }
        completion(view == .cached ? .failure(.stale) : .success(file))
    }

    package func reopen(_ node: NodeID, _ completion: @escaping Completion<any FileHandle>) {
        if node != Self.node { return volume.reopen(node, completion) }
        completion(.success(file))
    }

    package func supersede(_ file: any FileHandle) {
        if file !== self.file { volume.supersede(file) }
    }

    package func close(_ file: any FileHandle) {
        if file !== self.file { volume.close(file) }
    }

    package func read(
        _ file: any FileHandle, offset: Int64, into buffer: UnsafeMutableRawBufferPointer, park: () -> any ParkedRead
    ) -> ReadAnswer {
        file === self.file ? .read(0) : volume.read(file, offset: offset, into: buffer, park: park)
    }

    package func lend(_ file: any FileHandle, _ range: ByteRange) -> LentBytes? {
        file === self.file ? nil : volume.lend(file, range)
    }

    package func abandon(_ read: any ParkedRead, of file: any FileHandle) {
        if file !== self.file { volume.abandon(read, of: file) }
    }

    package func openDirectory(
        _ node: NodeID, _ view: VolumeView, _ completion: @escaping Completion<any DirectoryHandle>
    ) {
        guard node == rootNode else { return volume.openDirectory(node, view, completion) }
        volume.openDirectory(node, view) { [self] result in
            completion(
                result.map { directory in
                    // Without the entry: the kernel would go on with it after the file has gone.
                    let item = DirectoryItem(
                        name: name, inode: attributes.inode, isDirectory: false, nextOffset: Self.end)
                    return AnchoredDirectory(directory, item, isThere: view == .whole && volume.isTrusted, volume)
                })
        }
    }

    package func capacity() -> Capacity { volume.capacity() }

    package func extendedAttribute(_ name: String, of node: NodeID) -> Result<[UInt8], VolumeError> {
        node == Self.node ? .failure(.noAttribute) : volume.extendedAttribute(name, of: node)
    }

    package func extendedAttributeNames(of node: NodeID) -> Result<[String], VolumeError> {
        node == Self.node ? .success([]) : volume.extendedAttributeNames(of: node)
    }
}

/// The open anchor, of which there is nothing to read.
private final class AnchorFile: FileHandle {
    let wantsDirectIO = false
    let length: Int64? = 0
}

/// A root with its anchor behind all other items, and without an entry of the anchor's name.
private final class AnchoredDirectory: DirectoryHandle {
    private let directory: any DirectoryHandle
    private let anchor: DirectoryItem
    private let isThere: Bool
    private let volume: any MountedVolume

    init(_ directory: any DirectoryHandle, _ anchor: DirectoryItem, isThere: Bool, _ volume: any MountedVolume) {
        self.directory = directory
        self.anchor = anchor
        self.isThere = isThere
        self.volume = volume
    }

    /// The anchor comes and goes between two looks.
    let isHeldByKernel = false

    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
        guard offset != anchor.nextOffset else { return }
        var isFull = false
        directory.items(from: offset, withAttributes: withAttributes) { item in
            guard ExactText(item.name) != ExactText(anchor.name) else {
                // The kernel does not get its reference.
                if let entry = item.entry { volume.forget(entry.node, count: 1) }
                return true
            }
            isFull = !add(item)
            return !isFull
        }
        if isThere, !isFull { _ = add(anchor) }
    }
}
