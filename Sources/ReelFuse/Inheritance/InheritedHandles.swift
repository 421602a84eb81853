import ReelCore
import ReelFilesystem
import ReelThreads
import Synchronization

/// A handle that an earlier process opened, and that this one opens again: calls wait until it has.
final class Reopened<Handle: Sendable>: Sendable {
    private enum State: Sendable {
        case idle
        case opening([Completion<Handle>])
        case open(Handle)
        case stale
    }

    private let state = Lock(State.idle)

    /// nil: it is not open yet, or not any more.
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

    // The kernel has been told long ago.
    var wantsDirectIO: Bool { inherited.version.length == nil }
    var length: Int64? { inherited.version.length }
    var modified: Int64? { inherited.version.modified }
    var entityTag: EntityTag? { inherited.version.entityTag.flatMap { EntityTag($0) } }
}

/// An open directory that the kernel has from an earlier process.
final class InheritedDirectory: DirectoryHandle {
    let reopened = Reopened<any DirectoryHandle>()
    let inherited: Inheritance.Directory
    private let isRead = Atomic(false)

    init(_ inherited: Inheritance.Directory) { self.inherited = inherited }

    var isHeldByKernel: Bool { false }

    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
        guard let handle = reopened.handle else { return }
        let isFirst = !isRead.exchange(true, ordering: .relaxed)
        let offset = isFirst ? self.offset(offset, in: handle) : offset
        handle.items(from: offset, withAttributes: withAttributes, add)
    }

    /// Where a reading goes on that an earlier process began, in a listing that may be another one by now: the last
    /// name that the kernel got may have moved, and the names around it with it. A name that has gone moves nothing.
    private func offset(_ offset: Int, in handle: any DirectoryHandle) -> Int {
        guard offset > 0, let last = inherited.last else { return offset }
        var moved: Int?
        func compare(_ item: DirectoryItem) {
            if item.name.utf8.elementsEqual(last.name.utf8) { moved = item.nextOffset - last.nextOffset }
        }
        // Where it was, as a rule.
        handle.items(from: last.nextOffset - 1, withAttributes: false) { item in
            compare(item)
            return false
        }
        if moved == nil {
            handle.items(from: 0, withAttributes: false) { item in
                compare(item)
                return moved == nil
            }
        }
        return max(0, offset + (moved ?? 0))
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

    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
        handle.items(from: offset, withAttributes: withAttributes) { item in
            var item = item
            guard let entry = item.entry else { return add(item) }
            guard let number = nodes.tell(item, entry.node, in: node) else {
                // The kernel looks it up, and the filesystem counts a reference with what is told.
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
