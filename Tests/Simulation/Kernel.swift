import Glibc
import Logging
import ReelCore
import ReelFilesystem
import ReelThreads
import ReelVolume

@testable import ReelFuse

/// The kernel, in what it decides: which names and pages it keeps, which references it counts, and which calls wait
/// while one process takes a mount over from another. It calls the program's adapter, as libfuse does for it.
///
/// What is kept and for how long is that of Linux' fs/fuse/dir.c and fs/fuse/file.c, with whole pieces of 64 KiB in
/// place of pages.
final class Kernel: KernelCache {
    /// An open file of a program.
    struct Handle: Sendable {
        let number: UInt64
        let node: NodeID
        let isDirect: Bool
    }

    /// What a call came to, and how long the program that serves the mount took.
    struct Answer<Value: Sendable>: Sendable {
        var result: Result<Value, VolumeError>
        var time: Duration
    }

    fileprivate struct Place: Hashable {
        let parent: NodeID
        let name: [UInt8]

        init(_ name: String, in parent: NodeID) { (self.parent, self.name) = (parent, Array(name.utf8)) }
    }

    fileprivate struct Name {
        /// nil: there is no such name.
        var node: NodeID?
        var end: Duration
    }

    fileprivate struct Inode {
        var generation: UInt64 = 0
        /// The folder in which it was found last; a node that is used keeps the folders above it.
        var parent = rootNode
        var references: UInt64 = 0
        /// Calls and handles that have it.
        var uses = 0
        /// nil until one is known; so is the date.
        var length: Int64?
        var date: Int64?
        var pages: [Int64: [UInt8]] = [:]
        /// Pages that are read while others are dropped do not stay.
        var drops = 0
    }

    fileprivate struct State: Sendable {
        /// nil while no process serves the mount.
        var adapter: Adapter?
        var calls = 0
        var names: [Place: Name] = [:]
        var inodes: [NodeID: Inode] = [:]
    }

    static let piece: Int64 = 64 << 10
    private let findings: Findings
    private let state = Monitor(State())

    init(_ findings: Findings) { self.findings = findings }

    // MARK: Processes

    /// A process begins to serve the mount.
    func serve(_ volume: any MountedVolume, _ inheritance: Inheritance?) {
        let logger = Logger(label: "kernel") { _ in SwiftLogNoOpLogHandler() }
        let adapter = Adapter(
            filesystem: volume, ownership: Ownership(user: 0, group: 0),
            passthrough: Passthrough(depth: 0, calls: .kernel, logger: logger), inheritance: inheritance, logger: logger
        )
        volume.connect(adapter.inherited.map { InheritedKernelCache(self, $0.nodes) } ?? self)
        adapter.inherited?.reopen { _, _ in }
        state.withLock { $0.adapter = adapter }
    }

    /// Lets no further call through, waits for those that are under way, and gives what the next process takes over.
    func leave() -> Inheritance {
        let adapter = state.withLock { state in
            // The next process knows the dates by what is listed then.
            for node in state.inodes.keys { state.inodes[node]?.date = nil }
            return state.adapter.take()!
        }
        state.wait { $0.calls == 0 ? () : nil }
        return adapter.left()
    }

    /// Gives all references back that no program needs.
    func forgetAll() {
        guard let adapter = enter() else { return }
        defer { leaveCall() }
        let gone = state.withLock { state in
            let kept = state.used
            state.names = state.names.filter { $0.value.node.map(kept.contains) ?? false }
            let gone = state.inodes.filter { !kept.contains($0.key) }
            for node in gone.keys { state.inodes[node] = nil }
            return gone.map { ($0.key, $0.value.references) }
        }
        for (node, count) in gone.sorted(by: { $0.0 < $1.0 }) {
            adapter.holdings.remove(node, count)
            adapter.filesystem.forget(node, count: count)
        }
    }

    private func enter() -> Adapter? {
        state.wait(atMost: .seconds(120)) { state in
            guard let adapter = state.adapter else { return nil }
            state.calls += 1
            return adapter
        }
    }

    private func leaveCall() { state.withLock { $0.calls -= 1 } }

    // MARK: Calls

    /// One call, which waits for its answer.
    private func call<Value: Sendable>(
        _ start: (Adapter, @escaping Completion<Value>) -> Void
    ) -> Answer<Value> {
        guard let adapter = enter() else { return Answer(result: .failure(.interrupted), time: .zero) }
        defer { leaveCall() }
        let answer = Monitor<Answer<Value>?>(nil)
        let moment = now()
        start(adapter) { result in answer.withLock { $0 = Answer(result: result, time: now() - moment) } }
        return answer.wait(atMost: World.longest * 4) { $0 }
            ?? Answer(result: .failure(.interrupted), time: now() - moment)
    }

    /// Finds a name, which it may know. A success counts as a use of the node.
    /// - Parameter isNew: whatever it knows, it asks (LOOKUP_REVAL).
    func lookup(_ name: String, in parent: NodeID, isNew: Bool) -> Answer<NodeID> {
        let place = Place(name, in: parent)
        let moment = now()
        let known: Name? = state.withLock(notifying: false) { state in
            guard let known = state.names[place], !isNew, moment < known.end else { return nil }
            if let node = known.node { state.inodes[node]?.uses += 1 }
            return known
        }
        if let known { return Answer(result: known.node.map { .success($0) } ?? .failure(.notFound), time: .zero) }
        return call { adapter, completion in
            adapter.filesystem.lookup(name, in: parent) { [self] result in
                switch result {
                case .failure(.notFound):
                    let end = now() + KernelBelief.missing
                    state.withLock(notifying: false) { $0.names[place] = Name(node: nil, end: end) }
                    completion(.failure(.notFound))
                case .failure(let error): completion(.failure(error))
                case .success(let entry):
                    adapter.holdings.add(entry.node)
                    take(entry, adapter.generation(of: entry.node), name: place, isUsed: true)
                    completion(.success(entry.node))
                }
            }
        }
    }

    /// An answer names a node, with one reference.
    private func take(_ entry: Entry, _ generation: UInt64, name: Place, isUsed: Bool) {
        let end = now() + KernelBelief.known
        let change = state.withLock(notifying: false) { state -> String? in
            var inode = state.inodes[entry.node] ?? Inode(generation: generation)
            if inode.generation != generation { inode = Inode(generation: generation) }
            inode.references += 1
            inode.parent = name.parent
            if isUsed { inode.uses += 1 }
            state.names[name] = Name(node: entry.node, end: end)
            defer { state.inodes[entry.node] = inode }
            return Self.know(entry.attributes, &inode)
        }
        if let change { findings.find("node \(entry.node) had \(change)") }
    }

    /// - Returns: what a file's node has that it did not have before.
    private static func know(_ attributes: Attributes, _ inode: inout Inode) -> String? {
        guard !attributes.isDirectory, attributes.length > 0 else { return nil }
        let before = inode
        (inode.length, inode.date) = (attributes.length, attributes.modified)
        if let length = before.length, length != attributes.length {
            return "\(length) bytes, and now has \(attributes.length)"
        }
        if let date = before.date, date != attributes.modified {
            return "the date \(date), and now has \(attributes.modified)"
        }
        return nil
    }

    /// A program is done with a node that `lookup` gave.
    func release(_ node: NodeID) { state.withLock { $0.inodes[node]?.uses -= 1 } }

    /// A success counts as a use of the node, until `close`.
    func open(_ node: NodeID) -> Answer<Handle> {
        call { adapter, completion in
            adapter.filesystem.open(node, by: nil) { [self] result in
                completion(
                    result.map { file in
                        let box = FileBox(file)
                        let number = adapter.number(of: box)
                        adapter.holdings.add(file: number, node)
                        state.withLock(notifying: false) { state in
                            state.inodes[node]?.uses += 1
                            if file.wantsDirectIO { state.inodes[node]?.pages = [:] }
                        }
                        return Handle(number: number, node: node, isDirect: file.wantsDirectIO)
                    })
            }
        }
    }

    func close(_ handle: Handle) {
        guard let adapter = enter() else { return }
        defer { leaveCall() }
        adapter.holdings.remove(file: handle.number)
        if let box = adapter.file(handle.number) { adapter.filesystem.close(box.takeRetainedValue().handle) }
        release(handle.node)
    }

    /// The length as fstat(2) has it, nil if it is not known.
    func length(of handle: Handle) -> Int64? {
        let answer: Answer<Attributes> = call { $0.filesystem.attributes(of: handle.node, $1) }
        guard case .success(let attributes) = answer.result else { return nil }
        let change = state.withLock(notifying: false) { state -> String? in
            guard var inode = state.inodes[handle.node] else { return nil }
            defer { state.inodes[handle.node] = inode }
            return Self.know(attributes, &inode)
        }
        if let change { findings.find("open node \(handle.node) had \(change)") }
        return attributes.length > 0 ? attributes.length : nil
    }

    /// Reads from the pages that it has, or asks.
    func read(_ handle: Handle, _ offset: Int64, _ count: Int) -> Answer<[UInt8]> {
        if let bytes = kept(handle, offset, count) { return Answer(result: .success(bytes), time: .zero) }
        let drops = state.withLock(notifying: false) { $0.inodes[handle.node]?.drops }
        let answer: Answer<[UInt8]> = call { adapter, completion in
            guard let box = adapter.file(handle.number) else { return completion(.failure(.stale)) }
            let file = box.takeUnretainedValue().handle
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 1)
            defer { buffer.deallocate() }
            switch adapter.filesystem.read(
                file, offset: offset, into: buffer, park: { WaitingRead(completion: completion) })
            {
            case .read(let count): completion(.success(Array(buffer[..<count])))
            case .failed(let error): completion(.failure(error))
            case .parked: break
            }
        }
        if case .success(let bytes) = answer.result, !handle.isDirect {
            state.withLock(notifying: false) { state in
                if state.inodes[handle.node]?.drops == drops { state.inodes[handle.node]?.keep(bytes, at: offset) }
            }
        }
        return answer
    }

    /// Reads as the HTTP server does, from a file that the cache lends.
    /// - Parameter pause: before the bytes are read.
    /// - Returns: nil where it lends none.
    func readLent(_ handle: Handle, _ range: ByteRange, pause: () -> Void) -> [UInt8]? {
        guard let adapter = enter() else { return nil }
        defer { leaveCall() }
        guard let file = adapter.file(handle.number)?.takeUnretainedValue().handle,
            let lent = adapter.filesystem.lend(file, range)
        else { return nil }
        pause()
        var bytes = [UInt8](repeating: 0, count: Int(lent.range.count))
        let count = pread(lent.descriptor, &bytes, bytes.count, off_t(lent.range.lower))
        withExtendedLifetime(lent) {}
        return Array(bytes.prefix(max(0, count)))
    }

    private func kept(_ handle: Handle, _ offset: Int64, _ count: Int) -> [UInt8]? {
        guard !handle.isDirect else { return nil }
        return state.withLock(notifying: false) { $0.inodes[handle.node]?.bytes(offset, count) }
    }

    /// Lists a directory from its beginning to its end, in answers of some entries each.
    /// - Parameter pause: between the answers.
    func list(_ node: NodeID, entries count: Int, pause: () -> Void) -> Answer<[String]> {
        let opened: Answer<UInt64> = call { adapter, completion in
            adapter.filesystem.openDirectory(node) { result in
                completion(
                    result.map { directory in
                        let box = DirectoryBox(directory)
                        let number = adapter.number(of: box)
                        if !adapter.holdings.add(directory: number, node, directory) { directory.isNotKept() }
                        return number
                    })
            }
        }
        var names: [String] = []
        switch opened.result {
        case .failure(let error): return Answer(result: .failure(error), time: opened.time)
        case .success(let number):
            defer { closeDirectory(number) }
            var (offset, time) = (0, opened.time)
            while true {
                let answer = items(of: number, node, from: offset, count)
                time = max(time, answer.time)
                guard case .success(let items) = answer.result else {
                    return Answer(result: answer.result.map { _ in [] }, time: answer.time)
                }
                if items.isEmpty { return Answer(result: .success(names), time: time) }
                names += items.map(\.name)
                offset = items.last!.next
                pause()
            }
        }
    }

    private func items(
        of number: UInt64, _ node: NodeID, from offset: Int, _ count: Int
    ) -> Answer<[(name: String, next: Int)]> {
        let opened: Answer<Bool> = call { adapter, completion in
            guard let box = adapter.directory(number) else { return completion(.failure(.stale)) }
            guard let inherited = box.takeUnretainedValue().handle as? InheritedDirectory,
                inherited.reopened.handle == nil
            else { return completion(.success(true)) }
            adapter.inherited!.reopen(inherited) { result in completion(result.map { _ in true }) }
        }
        if case .failure(let error) = opened.result { return Answer(result: .failure(error), time: opened.time) }
        let answer: Answer<[(name: String, next: Int)]> = call { [self] adapter, completion in
            guard let directory = adapter.directory(number)?.takeUnretainedValue().handle else {
                return completion(.failure(.stale))
            }
            var items: [DirectoryItem] = []
            directory.items(from: offset, withAttributes: true) { item in
                guard items.count < count else { return false }
                items.append(item)
                return true
            }
            adapter.holdings.add(items.compactMap(\.entry?.node), of: number, isPartRead: !items.isEmpty)
            for item in items {
                guard let entry = item.entry else { continue }
                take(entry, adapter.generation(of: entry.node), name: Place(item.name, in: node), isUsed: false)
            }
            completion(.success(items.map { ($0.name, $0.nextOffset) }))
        }
        return Answer(result: answer.result, time: max(opened.time, answer.time))
    }

    private func closeDirectory(_ number: UInt64) {
        guard let adapter = enter() else { return }
        defer { leaveCall() }
        adapter.holdings.remove(directory: number)
        adapter.directory(number)?.release()
    }

    // MARK: Notices

    func forgetEntry(_ name: String, in parent: NodeID) {
        state.withLock(notifying: false) { $0.names[Place(name, in: parent)] = nil }
    }

    /// Only attributes and names of an open directory are kept, and no more of either than is said above.
    func forgetDirectory(_ node: NodeID) {}
    var readsDataFiles: Bool { false }
    func setScanned(_ isScanned: Bool) {}

    func forgetPages(of node: NodeID, _ range: ByteRange) {
        state.withLock(notifying: false) { state in
            guard var inode = state.inodes[node] else { return }
            inode.drops += 1
            inode.pages = inode.pages.filter { $0.key + Self.piece <= range.lower || $0.key >= range.upper }
            state.inodes[node] = inode
        }
    }

    /// A kernel that is short of memory does so.
    func forgetPages() {
        state.withLock(notifying: false) { state in
            for node in state.inodes.keys { state.inodes[node]?.pages = [:] }
        }
    }
}

extension Kernel.State {
    /// The nodes that calls and handles have, and the folders above them.
    fileprivate var used: Set<NodeID> {
        var used: Set<NodeID> = []
        for (node, inode) in inodes where inode.uses > 0 {
            var node = node
            while node != rootNode, used.insert(node).inserted, let parent = inodes[node]?.parent { node = parent }
        }
        return used
    }
}

extension Kernel.Inode {
    fileprivate mutating func keep(_ bytes: [UInt8], at offset: Int64) {
        var start = (offset + Kernel.piece - 1) / Kernel.piece * Kernel.piece
        while start + Kernel.piece <= offset + Int64(bytes.count) {
            let first = Int(start - offset)
            pages[start] = Array(bytes[first..<first + Int(Kernel.piece)])
            start += Kernel.piece
        }
    }

    fileprivate func bytes(_ offset: Int64, _ count: Int) -> [UInt8]? {
        var bytes: [UInt8] = []
        var place = offset
        let end = offset + Int64(count)
        while place < end {
            guard let page = pages[place / Kernel.piece * Kernel.piece] else { return nil }
            let first = Int(place % Kernel.piece)
            let last = min(Int(Kernel.piece), first + Int(end - place))
            bytes += page[first..<last]
            place += Int64(last - first)
        }
        return bytes
    }
}

/// A read that waits for its answer.
private final class WaitingRead: ParkedRead {
    let thread: Int32? = nil
    private let completion: Completion<[UInt8]>

    init(completion: @escaping Completion<[UInt8]>) { self.completion = completion }

    func succeed(_ bytes: UnsafeRawBufferPointer) { completion(.success(Array(bytes))) }
    func fail(_ error: VolumeError) { completion(.failure(error)) }
}
