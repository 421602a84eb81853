import Glibc
import ReelThreads

/// Which file, and the time of its last change (st_ctime): every write, cut and hole sets it, and no program sets it
/// back.
struct FileMark: Equatable, Sendable {
    var device: UInt64
    var inode: UInt64
    var size: Int64
    var seconds: Int
    var nanoseconds: Int

    init?(_ descriptor: borrowing Descriptor) {
        guard let status = try? descriptor.status() else { return nil }
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        size = Int64(status.st_size)
        seconds = status.st_ctim.tv_sec
        nanoseconds = status.st_ctim.tv_nsec
    }
}

/// Tells changes of our own from those of others.
final class ChangeWatch: Sendable {
    private struct State {
        /// As we left the file.
        var last: FileMark?
        var isForeign = false
        /// Changes of our own that are being made.
        var running = 0
    }

    private let state: Lock<State>

    init(_ descriptor: borrowing Descriptor) { state = Lock(State(last: FileMark(descriptor))) }

    /// Around each change of our own. All changes while one runs are taken for ours.
    func change<Failure: Error>(
        _ descriptor: borrowing Descriptor, _ body: () throws(Failure) -> Void
    ) throws(Failure) {
        look(descriptor, begins: true)
        defer {
            state.withLock { state in
                state.running -= 1
                // Inside: an older mark must not follow a newer one.
                if state.running == 0 { state.last = FileMark(descriptor) }
            }
        }
        try body()
    }

    /// nil where another program has changed the file since it was opened.
    func own(_ descriptor: borrowing Descriptor) -> FileMark? {
        look(descriptor, begins: false)
        return state.withLock { $0.isForeign ? nil : $0.last }
    }

    private func look(_ descriptor: borrowing Descriptor, begins: Bool) {
        state.withLock { state in
            if state.running == 0, FileMark(descriptor) != state.last { state.isForeign = true }
            if begins { state.running += 1 }
        }
    }
}
