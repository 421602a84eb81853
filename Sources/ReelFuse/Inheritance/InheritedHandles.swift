import ReelCore
import ReelFilesystem
import ReelThreads

/// A handle that an earlier process opened, and that this one opens again: calls wait until it has.
final class Reopened<Handle: Sendable>: Sendable {
    private enum State: Sendable {
        case idle
        case opening([Completion<Handle>])
        case open(Handle)
        case stale
    }

    private let state = Lock(State.idle)

    /// nil if it is not open yet, or not any more.
    var handle: Handle? {
        state.withLock { state in
            if case .open(let handle) = state { return handle }
            return nil
        }
    }

    /// Gives the handle. - Returns: whether the caller has to open it, and to call `opened`.
    func then(_ completion: @escaping Completion<Handle>) -> Bool {
        let (result, isFirst): (Result<Handle, VolumeError>?, Bool) = state.withLock { state in
            switch state {
            case .open(let handle): return (.success(handle), false)
            case .stale: return (.failure(.stale), false)
            case .idle:
                state = .opening([completion])
                return (nil, true)
            case .opening(let waiting):
                state = .opening(waiting + [completion])
                return (nil, false)
            }
        }
        if let result { completion(result) }
        return isFirst
    }

    /// An error passes, unless it is `stale`: the next call has it opened again.
    /// - Returns: false where it is open already, or was closed meanwhile.
    func opened(_ result: Result<Handle, VolumeError>) -> Bool {
        let waiting: [Completion<Handle>]? = state.withLock { state in
            let waiting: [Completion<Handle>]
            switch state {
            case .open, .stale: return nil
            case .idle: waiting = []
            case .opening(let others): waiting = others
            }
            switch result {
            case .success(let handle): state = .open(handle)
            case .failure(.stale): state = .stale
            case .failure: state = .idle
            }
            return waiting
        }
        for completion in waiting ?? [] { completion(result) }
        return waiting != nil
    }

    /// - Returns: the handle, which is the caller's to close.
    func close() -> Handle? {
        let (waiting, handle): ([Completion<Handle>], Handle?) = state.withLock { state in
            defer { state = .stale }
            switch state {
            case .opening(let waiting): return (waiting, nil)
            case .open(let handle): return ([], handle)
            case .idle, .stale: return ([], nil)
            }
        }
        for completion in waiting { completion(.failure(.stale)) }
        return handle
    }
}

/// An open file that the kernel has from an earlier process.
final class InheritedFile: FileHandle {
    let reopened = Reopened<any FileHandle>()
    let inherited: Inheritance.File

    init(_ inherited: Inheritance.File) { self.inherited = inherited }

    /// What it is for the next process: a recording may have grown since this one has it open.
    var version: Inheritance.Version { reopened.handle.map { Inheritance.Version($0) } ?? inherited.version }

    // The kernel has known this since the open.
    var wantsDirectIO: Bool { inherited.version.length == nil }
    var length: Int64? { inherited.version.length }
    var modified: Int64? { inherited.version.modified }
    var entityTag: EntityTag? { inherited.version.entityTag.flatMap { EntityTag($0) } }
    var resource: UInt64? { inherited.version.resource }
}

/// An open directory that the kernel has from an earlier process.
///
/// The kernel's offsets are those of the listing that the earlier process had, and the one of this process may be
/// another: a program that reads on gets the names that are left of the earlier one, as far as they still exist. So no
/// name comes twice, and none that stays is missing. From its beginning on it reads the new one.
final class InheritedDirectory: DirectoryHandle {
    let reopened = Reopened<any DirectoryHandle>()
    private let state: Lock<State>

    private struct State: Sendable {
        /// nil where the kernel reads the new listing.
        var earlier: [Inheritance.Item]?
        /// The offsets of the names in the new listing, once they are looked for.
        var offsets: [ExactText: Int]?
    }

    let node: NodeID

    init(_ inherited: Inheritance.Directory) {
        node = inherited.node
        state = Lock(State(earlier: inherited.items))
    }

    /// The items by which the kernel's offsets count, nil if they are those of the new listing.
    var earlier: [Inheritance.Item]? { state.withLock { $0.earlier } }

    var isHeldByKernel: Bool { false }

    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
        guard let handle = reopened.handle else { return }
        if offset <= 0 { state.withLock { $0.earlier = nil } }
        guard let earlier else {
            return handle.items(from: offset, withAttributes: withAttributes, add)
        }
        let offsets = offsets(in: handle)
        var rest = earlier[first(behind: offset, of: earlier)...]
        while let next = rest.first {
            let left = rest.count
            var isFull = false
            if let offset = offsets[ExactText(next.name)] {
                // As far as the new listing has the same names in a row.
                handle.items(from: offset, withAttributes: withAttributes) { item in
                    guard let old = rest.first, ExactText(item.name) == ExactText(old.name) else { return false }
                    var item = item
                    item.nextOffset = old.nextOffset
                    isFull = !add(item)
                    if !isFull { rest.removeFirst() }
                    return !isFull
                }
            }
            if isFull { return }
            // The name has gone, or is not shown any more.
            if rest.count == left { rest.removeFirst() }
        }
    }

    /// Where the first item stands that lies behind an offset; the items' offsets rise.
    private func first(behind offset: Int, of items: [Inheritance.Item]) -> Int {
        var range = items.indices
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            range = items[middle].nextOffset > offset ? range.lowerBound..<middle : middle + 1..<range.upperBound
        }
        return range.lowerBound
    }

    private func offsets(in handle: any DirectoryHandle) -> [ExactText: Int] {
        if let offsets = state.withLock({ $0.offsets }) { return offsets }
        var offsets: [ExactText: Int] = [:]
        var offset = 0
        handle.items(from: 0, withAttributes: false) { item in
            offsets[ExactText(item.name)] = offset
            offset = item.nextOffset
            return true
        }
        state.withLock { $0.offsets = offsets }
        return offsets
    }
}

/// An open directory of a filesystem that was inherited, with the kernel's numbers.
final class NumberedDirectory: DirectoryHandle {
    private let handle: any DirectoryHandle
    /// The kernel's number.
    private let node: NodeID
    private let nodes: InheritedNodes
    private let filesystem: any Filesystem

    init(_ handle: any DirectoryHandle, _ node: NodeID, _ nodes: InheritedNodes, _ filesystem: any Filesystem) {
        (self.handle, self.node, self.nodes, self.filesystem) = (handle, node, nodes, filesystem)
    }

    var isHeldByKernel: Bool { handle.isHeldByKernel }
    var listing: ObjectIdentifier? { handle.listing }
    func isNotKept() { handle.isNotKept() }

    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
        handle.items(from: offset, withAttributes: withAttributes) { item in
            var item = item
            guard let entry = item.entry else { return add(item) }
            guard let number = nodes.tell(item, entry.node, in: node) else {
                // The kernel looks it up, and the filesystem counts a reference with that answer.
                item.entry = nil
                guard add(item) else { return false }
                filesystem.forget(entry.node, count: 1)
                return true
            }
            item.entry?.node = number
            if add(item) { return true }
            nodes.untell(number)
            return false
        }
    }
}
