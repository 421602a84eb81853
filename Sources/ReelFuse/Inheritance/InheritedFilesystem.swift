import ReelCore
import ReelFilesystem

/// A filesystem under the numbers that the kernel has from an earlier process, besides its own.
///
/// A node of an earlier process is looked up by its path, and a handle opened again, before the first call that names
/// it; a file that is another version now is stale.
final class InheritedFilesystem: Filesystem {
    private let filesystem: any Filesystem
    let nodes: InheritedNodes
    /// By the kernel's numbers.
    let files: [UInt64: InheritedFile]
    let directories: [UInt64: InheritedDirectory]
    /// One of those that are open, by node: it proves the version.
    private let proofs: [NodeID: InheritedFile]

    init(_ filesystem: any Filesystem, _ inheritance: Inheritance, epoch: UInt64) {
        self.filesystem = filesystem
        nodes = InheritedNodes(inheritance.nodes, epoch: epoch)
        files = Dictionary(inheritance.files.map { ($0.number, InheritedFile($0)) }) { one, _ in one }
        proofs = Dictionary(files.values.map { ($0.inherited.node, $0) }) { one, _ in one }
        let opened = inheritance.directories.map { ($0.number, InheritedDirectory($0)) }
        directories = Dictionary(opened) { one, _ in one }
    }

    /// Opens all handles again, in the background. - Parameter opened: called for each file.
    func reopen(_ opened: @escaping @Sendable (InheritedFile, any FileHandle) -> Void) {
        for directory in directories.values { reopen(directory) { _ in } }
        for file in files.values {
            reopen(file) { if case .success(let handle) = $0 { opened(file, handle) } }
        }
    }

    // MARK: Numbers

    /// Gives the filesystem's number of a node of the kernel's.
    private func find(_ node: NodeID, _ completion: @escaping Completion<NodeID>) {
        switch nodes.place(of: node, completion) {
        case .found(let found): completion(.success(found))
        case .unknown: completion(.failure(.stale))
        case .waiting: break
        case .asked(let name, let parent):
            find(parent) { [self] parent in
                guard case .success(let parent) = parent else { return looked(node, parent) }
                filesystem.findAgain(name, in: parent) { [self] result in
                    switch result {
                    case .failure(let error): looked(node, .failure(error == .notFound ? .stale : error))
                    case .success(let entry): prove(node, entry)
                    }
                }
            }
        }
    }

    /// Whether the entry that a path leads to is still what the kernel has.
    private func prove(_ node: NodeID, _ entry: Entry) {
        guard let file = proofs[node] else {
            if nodes.place(of: node)?.isDirectory == entry.attributes.isDirectory {
                return looked(node, .success(entry.node))
            }
            filesystem.forget(entry.node, count: 1)
            return looked(node, .failure(.stale))
        }
        open(file, at: entry.node) { [self] result in
            switch result {
            case .success(let handle):
                if !file.reopened.opened(result) { filesystem.close(handle) }
                looked(node, .success(entry.node))
            case .failure(let error):
                filesystem.forget(entry.node, count: 1)
                looked(node, .failure(error))
            }
        }
    }

    private func looked(_ node: NodeID, _ result: Result<NodeID, VolumeError>) {
        let (waiting, result, surplus) = nodes.looked(node, result)
        if let surplus { filesystem.forget(surplus, count: 1) }
        for completion in waiting { completion(result) }
    }

    /// Opens a version; `stale` if the file is another one now. Without a length, a version cannot be distinguished
    /// from another body, which would go on in the middle of the first.
    private func open(_ file: InheritedFile, at node: NodeID, _ completion: @escaping Completion<any FileHandle>) {
        guard file.length != nil else { return completion(.failure(.stale)) }
        filesystem.reopen(node) { [self] result in
            guard case .success(let handle) = result,
                !Inheritance.Version(handle).agrees(with: file.inherited.version)
            else { return completion(result) }
            filesystem.close(handle)
            completion(.failure(.stale))
        }
    }

    private func reopen(_ file: InheritedFile, _ completion: @escaping Completion<any FileHandle>) {
        guard file.reopened.then(completion) else { return }
        find(file.inherited.node) { [self] node in
            // The proof of the node may have opened it.
            if file.reopened.handle != nil { return }
            switch node {
            case .failure(let error): _ = file.reopened.opened(.failure(error))
            case .success(let node):
                open(file, at: node) { [self] result in
                    if !file.reopened.opened(result), let handle = try? result.get() { filesystem.close(handle) }
                }
            }
        }
    }

    func reopen(_ directory: InheritedDirectory, _ completion: @escaping Completion<any DirectoryHandle>) {
        guard directory.reopened.then(completion) else { return }
        openDirectory(directory.node) { _ = directory.reopened.opened($0) }
    }

    // MARK: Names

    func lookup(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>) {
        at(parent, completion) { [self] found in
            let look: @Sendable () -> Void = { [self] in
                filesystem.lookup(name, in: found) { [self] result in completion(result.flatMap { tell($0) }) }
            }
            // First the one that the kernel has: it takes another number for another file.
            guard let missing = nodes.missing(name, in: parent) else { return look() }
            find(missing) { _ in look() }
        }
    }

    private func tell(_ entry: Entry) -> Result<Entry, VolumeError> {
        guard let number = nodes.tell(entry.node) else {
            filesystem.forget(entry.node, count: 1)
            return .failure(.failed)
        }
        var entry = entry
        entry.node = number
        return .success(entry)
    }

    func forget(_ node: NodeID, count: UInt64) {
        let (given, waiting) = nodes.forget(node, count)
        if let given { filesystem.forget(given.node, count: given.count) }
        for completion in waiting { completion(.failure(.stale)) }
    }

    func attributes(of node: NodeID, _ completion: @escaping Completion<Attributes>) {
        at(node, completion) { [self] in filesystem.attributes(of: $0, completion) }
    }

    func readLink(_ node: NodeID, _ completion: @escaping Completion<String>) {
        at(node, completion) { [self] in filesystem.readLink($0, completion) }
    }

    private func at<Value>(
        _ node: NodeID, _ completion: @escaping Completion<Value>, _ body: @escaping @Sendable (NodeID) -> Void
    ) {
        find(node) { result in
            switch result {
            case .success(let node): body(node)
            case .failure(let error): completion(.failure(error))
            }
        }
    }

    func extendedAttribute(_ name: String, of node: NodeID) -> Result<[UInt8], VolumeError> {
        nodes.known(node).map { filesystem.extendedAttribute(name, of: $0) } ?? .failure(.stale)
    }

    func extendedAttributeNames(of node: NodeID) -> Result<[String], VolumeError> {
        nodes.known(node).map { filesystem.extendedAttributeNames(of: $0) } ?? .failure(.stale)
    }

    func place(of node: NodeID) -> NodePlace? {
        if let place = nodes.place(of: node) { return place }
        guard let found = nodes.known(node), var place = filesystem.place(of: found),
            let parent = nodes.number(of: place.parent)
        else { return nil }
        place.parent = parent
        return place
    }

    func capacity() -> Capacity { filesystem.capacity() }

    // MARK: Handles

    func open(_ node: NodeID, by thread: Int32?, _ completion: @escaping Completion<any FileHandle>) {
        at(node, completion) { [self] in filesystem.open($0, by: thread, completion) }
    }

    func reopen(_ node: NodeID, _ completion: @escaping Completion<any FileHandle>) {
        at(node, completion) { [self] in filesystem.reopen($0, completion) }
    }

    func supersede(_ file: any FileHandle) { filesystem.supersede(file) }

    func close(_ file: any FileHandle) {
        guard let inherited = file as? InheritedFile else { return filesystem.close(file) }
        if let handle = inherited.reopened.close() { filesystem.close(handle) }
    }

    func read(
        _ file: any FileHandle, offset: Int64, into buffer: UnsafeMutableRawBufferPointer, park: () -> any ParkedRead
    ) -> ReadAnswer {
        guard let inherited = file as? InheritedFile else {
            return filesystem.read(file, offset: offset, into: buffer, park: park)
        }
        if let handle = inherited.reopened.handle {
            return filesystem.read(handle, offset: offset, into: buffer, park: park)
        }
        let (parked, count) = (park(), buffer.count)
        reopen(inherited) { [self] result in
            switch result {
            case .failure(let error): parked.fail(error)
            // One that was given up meanwhile would be fetched for nobody.
            case .success(let handle): if !parked.isAnswered { read(handle, offset, count, for: parked) }
            }
        }
        return .parked
    }

    private func read(_ handle: any FileHandle, _ offset: Int64, _ count: Int, for parked: any ParkedRead) {
        withUnsafeTemporaryAllocation(byteCount: count, alignment: 16) { buffer in
            switch filesystem.read(handle, offset: offset, into: buffer, park: { parked }) {
            case .read(let count): parked.succeed(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            case .failed(let error): parked.fail(error)
            case .parked: break
            }
        }
    }

    func lend(_ file: any FileHandle, _ range: ByteRange) -> LentBytes? {
        guard let inherited = file as? InheritedFile else { return filesystem.lend(file, range) }
        return inherited.reopened.handle.flatMap { filesystem.lend($0, range) }
    }

    func abandon(_ read: any ParkedRead, of file: any FileHandle) {
        guard let inherited = file as? InheritedFile else { return filesystem.abandon(read, of: file) }
        if let handle = inherited.reopened.handle { filesystem.abandon(read, of: handle) }
    }

    func openDirectory(_ node: NodeID, _ completion: @escaping Completion<any DirectoryHandle>) {
        at(node, completion) { [self] found in
            filesystem.openDirectory(found) { [self] result in
                completion(result.map { NumberedDirectory($0, node, nodes, filesystem) })
            }
        }
    }
}

/// Notifies the kernel of changes, in the kernel's own numbers.
final class InheritedKernelCache: KernelCache {
    private let cache: any KernelCache
    private let nodes: InheritedNodes

    init(_ cache: any KernelCache, _ nodes: InheritedNodes) { (self.cache, self.nodes) = (cache, nodes) }

    func forgetEntry(_ name: String, in parent: NodeID) {
        if let parent = nodes.number(of: parent) { cache.forgetEntry(name, in: parent) }
    }

    func forgetDirectory(_ node: NodeID) {
        if let node = nodes.number(of: node) { cache.forgetDirectory(node) }
    }

    var readsDataFiles: Bool { cache.readsDataFiles }
    func setScanned(_ isScanned: Bool) { cache.setScanned(isScanned) }

    func forgetPages(of node: NodeID, _ range: ByteRange) {
        if let node = nodes.number(of: node) { cache.forgetPages(of: node, range) }
    }
}
