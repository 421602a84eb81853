import Logging
import ReelCache
import ReelCore
import ReelFilesystem
import ReelThreads
import Synchronization

/// The filesystem of a catalogue: folders of its own, and below each source's folder the volume of that source.
///
/// Each source is a `Volume` with a transport, options, circuits, budgets and threads of its own, so that nothing of
/// one can hold up another; they share the cache and its cap. See the page Architecture.
package final class CatalogueVolume: MountedVolume {
    private struct State: Sendable {
        var folders = CatalogueFolders()
        /// The sources of the catalogue, and those that have left it while a file of theirs is open, by number.
        var sources: [UInt64: CatalogueSource] = [:]
        /// The sources of the catalogue, in its order.
        var order: [UInt64] = []
        /// Sources that have left the catalogue and have not ended yet, and what those that have ended counted.
        var leaving: [CatalogueSource] = []
        var left = VolumeStatus()
        var last: UInt64 = 0
        var socketPath: String?
        /// Sources whose end is under way.
        var ending = 0
    }

    package let prefetches = PrefetchJobs()
    private let shared: CatalogueServices
    private let state = Monitor(State())
    private let isEnding = Atomic(false)
    /// The date of the catalogue's folders, in seconds since 1970.
    private let mountedAt: Int64

    /// Shows the folders of all sources at once, and opens the sources in the background.
    package init(_ entries: [CatalogueEntry], store: Store, line: Line = Line(), logger: Logger) {
        shared = CatalogueServices(store, line, logger)
        mountedAt = store.setting("mounted").flatMap { decimal($0) } ?? wallClock()
        store.set("mounted", "\(mountedAt)")
        shared.listen { [weak self] in self?.opened($0) }
        replace(with: entries)
    }

    // MARK: The catalogue

    /// Shows these sources from now on. A source of which all is as before goes on; any other of before ends once no
    /// program has a file of it open.
    package func replace(with entries: [CatalogueEntry]) {
        let (before, after, new, gone) = state.withLock { state in
            let old = state.order.compactMap { state.sources[$0] }
            var folders = CatalogueFolders(state.folders)
            var order: [UInt64] = []
            var new: [CatalogueSource] = []
            for entry in entries {
                let path = entry.path.map { ExactText($0) }
                let known = old.first {
                    $0.entry.path.map { ExactText($0) } == path && $0.entry.fingerprint == entry.fingerprint
                }
                let source = known ?? make(entry, &state)
                guard let source else { continue }
                if known == nil { new.append(source) }
                order.append(source.number)
                folders.add(source.number, at: entry.path)
            }
            let before = state.folders
            (state.folders, state.order) = (folders, order)
            let gone = old.filter { !order.contains($0.number) }
            state.leaving += gone
            return (before, folders, new, gone)
        }
        for source in new { source.start() }
        for source in gone { retire(source) }
        tellKernel(before, after)
        // Until all that is new is open the tree is not whole.
        (new + gone).first?.entry.options.news?.trust()
    }

    /// nil if all numbers are in use.
    private func make(_ entry: CatalogueEntry, _ state: inout State) -> CatalogueSource? {
        guard state.sources.count < SourceNumber.most else { return nil }
        repeat { state.last = state.last % SourceNumber.most + 1 } while state.sources[state.last] != nil
        let source = CatalogueSource(state.last, entry, inode: CatalogueFolders.inode(of: entry.path), shared)
        state.sources[state.last] = source
        return source
    }

    /// Ends a source in the background, once it is not used.
    private func retire(_ source: CatalogueSource) {
        state.withLock { $0.ending += 1 }
        let end: @Sendable () -> Void = { [self] in
            // A film that plays on keeps the source, and fetches nothing else.
            source.volume?.keeper?.stop()
            source.endOnceUnused { [self] in isEnding.load(ordering: .relaxed) }
            let counters = source.counters
            state.withLock { state in
                if let counters { state.left.addCounters(of: counters) }
                state.leaving.removeAll { $0 === source }
                // The end of the mount ends the others.
                if !isEnding.load(ordering: .relaxed) { state.sources[source.number] = nil }
                state.ending -= 1
            }
        }
        if let thread = Thread("source-end", end) { thread.detach() } else { state.withLock { $0.ending -= 1 } }
    }

    private func tellKernel(_ before: CatalogueFolders, _ after: CatalogueFolders) {
        guard let kernel = shared.kernelCache else { return }
        for node in Set(before.all).union(after.all) {
            let (old, new) = (before[node]?.children ?? [], after[node]?.children ?? [])
            let changed = old.filter { !new.contains($0) } + new.filter { !old.contains($0) }
            for child in changed { kernel.forgetEntry(child.name, in: node) }
            if !changed.isEmpty { kernel.forgetDirectory(node) }
        }
    }

    /// Its folder was shown without knowing more of it than its name.
    private func opened(_ source: CatalogueSource) {
        shared.kernelCache?.forgetDirectory(sourceNode(rootNode, of: source.number))
        source.entry.options.news?.trust()
    }

    /// The sources of the catalogue, in its order.
    var sources: [CatalogueSource] {
        state.withLock(notifying: false) { state in state.order.compactMap { state.sources[$0] } }
    }

    /// The commands on the mount's cache.
    package var maintenance: any CacheCommands {
        CatalogueCommands(sources: sources, store: shared.store, gate: shared.gate)
    }

    // MARK: Mounting

    package func connect(_ cache: any KernelCache) {
        shared.connect(cache)
        for source in sources {
            if let volume = source.volume { shared.connectKernel(volume, source.number) }
        }
    }

    package func announce(socketPath path: String) { state.withLock { $0.socketPath = path } }

    package func shutdown() {
        prefetches.stop()
        isEnding.store(true, ordering: .relaxed)
        state.wait { $0.ending == 0 ? () : nil }
        let all = state.withLock { Array($0.sources.values) }
        shared.ticker.stop()
        for source in all { source.end() }
    }

    package var isTrusted: Bool { sources.allSatisfy { $0.volume?.isTrusted ?? false } }

    package func status() -> VolumeStatus {
        let (sources, leaving, left) = state.withLock(notifying: false) { state in
            (state.order.compactMap { state.sources[$0] }, state.leaving, state.left)
        }
        var status = catalogueStatus(sources, shared.store)
        for counters in [left] + leaving.compactMap(\.counters) { status.addCounters(of: counters) }
        status.prefetches = prefetches.all
        (status.isOffline, status.limitRate) = (line.isOffline, line.limit.schedule.text)
        return status
    }

    package var line: Line { shared.line }

    package func setOffline(_ isOffline: Bool) {
        guard line.setOffline(isOffline) else { return }
        for source in sources { source.volume?.offlineChanged() }
    }

    package var lastFailures: [RequestRecord] {
        let all = sources.flatMap { $0.volume?.lastFailures ?? [] }
        return Array(all.sorted { $0.when < $1.when }.suffix(LastFailures.most))
    }

    package func lineProgress() -> LineProgress {
        var progress = LineProgress()
        for source in sources { if let part = source.volume?.lineProgress() { progress += part } }
        return progress
    }

    // MARK: Finding

    private func folder(_ node: NodeID) -> CatalogueFolders.Folder? {
        state.withLock(notifying: false) { $0.folders[node] }
    }

    private func source(_ number: UInt64) -> CatalogueSource? {
        state.withLock(notifying: false) { $0.sources[number] }
    }

    /// Gives the volume of a node's source; `stale` where the catalogue no longer has it and no file of it is open.
    private func use<Value>(
        _ number: UInt64, opens: Bool = false, _ completion: @escaping Completion<Value>,
        _ body: @escaping @Sendable (CatalogueSource, Volume) -> Void
    ) {
        guard let source = source(number) else { return completion(.failure(.stale)) }
        source.use(opens: opens) { result in
            switch result {
            case .success(let volume): body(source, volume)
            case .failure(let error): completion(.failure(error))
            }
        }
    }

    private func attributes(_ inode: UInt64) -> Attributes {
        Attributes(inode: inode, isDirectory: true, length: 0, modified: mountedAt)
    }

    /// The entry of a folder's child, without waiting for its source.
    private func entry(_ child: CatalogueFolders.Child) -> Entry {
        Entry(node: child.node, attributes: attributes(of: child.node, child.inode))
    }

    private func attributes(of node: NodeID, _ inode: UInt64) -> Attributes {
        let (number, inner) = splitNode(node)
        var result = attributes(inode)
        guard number > 0, let volume = source(number)?.volume else { return result }
        if let node = volume.tree.nodes.peek(inner) { result = volume.tree.attributes(of: node) }
        return result
    }
}

extension CatalogueVolume {
    package func lookup(
        _ name: String, in parent: NodeID, _ view: VolumeView, _ completion: @escaping Completion<Entry>
    ) {
        find(name, in: parent, { $0.lookup(name, in: $1, view, $2) }, completion)
    }

    package func findAgain(
        _ name: String, in parent: NodeID, _ view: VolumeView, _ completion: @escaping Completion<Entry>
    ) {
        find(name, in: parent, { $0.findAgain(name, in: $1, view, $2) }, completion)
    }

    private func find(
        _ name: String, in parent: NodeID,
        _ find: @escaping @Sendable (Volume, NodeID, @escaping Completion<Entry>) -> Void,
        _ completion: @escaping Completion<Entry>
    ) {
        let (number, node) = splitNode(parent)
        if number > 0 {
            return use(number, completion) { _, volume in
                find(volume, node) { completion($0.map { $0.of(number) }) }
            }
        }
        guard name.utf8.count <= 255 else { return completion(.failure(.nameTooLong)) }
        guard let folder = folder(node) else { return completion(.failure(.stale)) }
        completion(folder[name].map { .success(entry($0)) } ?? .failure(.notFound))
    }

    package func forget(_ node: NodeID, count: UInt64) {
        let (number, inner) = splitNode(node)
        if number > 0 { source(number)?.volume?.forget(inner, count: count) }
    }

    package func attributes(of id: NodeID, _ completion: @escaping Completion<Attributes>) {
        let (number, node) = splitNode(id)
        if number == 0 {
            return completion(folder(node).map { .success(attributes($0.inode)) } ?? .failure(.stale))
        }
        guard let source = source(number) else { return completion(.failure(.stale)) }
        if node == rootNode { return completion(.success(attributes(of: id, source.inode))) }
        use(number, completion) { _, volume in volume.attributes(of: node, completion) }
    }

    package func place(of id: NodeID) -> NodePlace? {
        let (number, node) = splitNode(id)
        guard number > 0, node != rootNode else {
            return state.withLock(notifying: false) { $0.folders.place(of: id) }
        }
        guard var place = source(number)?.volume?.place(of: node) else { return nil }
        place.parent = sourceNode(place.parent, of: number)
        return place
    }

    package func readLink(_ id: NodeID, _ view: VolumeView, _ completion: @escaping Completion<String>) {
        let (number, node) = splitNode(id)
        guard number > 0 else { return completion(.failure(.unsupported)) }
        use(number, completion) { _, volume in volume.readLink(node, view, completion) }
    }

    package func open(
        _ id: NodeID, by thread: Int32?, _ view: VolumeView, _ completion: @escaping Completion<any FileHandle>
    ) {
        open(id, { $0.open($1, by: thread, view, $2) }, completion)
    }

    package func reopen(_ id: NodeID, _ completion: @escaping Completion<any FileHandle>) {
        open(id, { $0.reopen($1, $2) }, completion)
    }

    private func open(
        _ id: NodeID,
        _ open: @escaping @Sendable (Volume, NodeID, @escaping Completion<any FileHandle>) -> Void,
        _ completion: @escaping Completion<any FileHandle>
    ) {
        let (number, node) = splitNode(id)
        guard number > 0 else { return completion(.failure(.isDirectory)) }
        use(number, opens: true, completion) { source, volume in
            open(volume, node) { result in
                if case .failure = result { source.closed() }
                completion(result.map { CatalogueFile(source, volume, $0) })
            }
        }
    }

    package func supersede(_ file: any FileHandle) {
        let file = file as! CatalogueFile
        file.volume.supersede(file.file)
    }

    package func close(_ file: any FileHandle) {
        let file = file as! CatalogueFile
        file.volume.close(file.file)
        file.source.closed()
    }

    package func read(
        _ file: any FileHandle, offset: Int64, into buffer: UnsafeMutableRawBufferPointer, park: () -> any ParkedRead
    ) -> ReadAnswer {
        let file = file as! CatalogueFile
        return file.volume.read(file.file, offset: offset, into: buffer, park: park)
    }

    package func lend(_ file: any FileHandle, _ range: ByteRange) -> LentBytes? {
        let file = file as! CatalogueFile
        return file.volume.lend(file.file, range)
    }

    package func abandon(_ read: any ParkedRead, of file: any FileHandle) {
        let file = file as! CatalogueFile
        file.volume.abandon(read, of: file.file)
    }

    package func openDirectory(
        _ id: NodeID, _ view: VolumeView, _ completion: @escaping Completion<any DirectoryHandle>
    ) {
        let (number, node) = splitNode(id)
        if number == 0 {
            guard let folder = folder(node) else { return completion(.failure(.stale)) }
            let above = self.folder(folder.parent)?.inode ?? rootNode
            return completion(.success(CatalogueFolderSnapshot(folder, parentInode: above) { entry($0) }))
        }
        use(number, completion) { [self] _, volume in
            let parent = state.withLock(notifying: false) { state in
                state.folders.parent(of: number).flatMap { state.folders[$0]?.inode }
            }
            volume.openDirectory(node, view) { result in
                completion(
                    result.map { CatalogueSnapshot(number, $0, parentInode: node == rootNode ? parent : nil) })
            }
        }
    }

    package func capacity() -> Capacity {
        let usage = shared.store.usage
        return Capacity(total: usage.cap, used: usage.used)
    }

    package func extendedAttribute(_ name: String, of id: NodeID) -> Result<[UInt8], VolumeError> {
        let (number, node) = splitNode(id)
        if number > 0, let volume = source(number)?.volume { return volume.extendedAttribute(name, of: node) }
        guard name.hasPrefix("user.") else { return .failure(.unsupported) }
        guard name == "user.reelfs.socket", id == rootNode,
            let path = state.withLock(notifying: false, { $0.socketPath })
        else { return .failure(.noAttribute) }
        return .success(Array(path.utf8))
    }

    package func extendedAttributeNames(of id: NodeID) -> Result<[String], VolumeError> {
        let (number, node) = splitNode(id)
        if number > 0, let volume = source(number)?.volume { return volume.extendedAttributeNames(of: node) }
        let hasSocket = id == rootNode && state.withLock(notifying: false) { $0.socketPath != nil }
        return .success(hasSocket ? ["user.reelfs.socket"] : [])
    }
}
