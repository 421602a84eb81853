import Glibc
import ReelThreads

/// Identifies a file and its last change (st_ctime). Every write, cut and hole sets that time, and no program sets it
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

/// Distinguishes changes by this program from changes by others.
final class ChangeWatch: Sendable {
    private struct State {
        /// The mark after our last change.
        var last: FileMark?
        var isForeign = false
        /// Changes of our own that are being made.
        var running = 0
    }

    private let state: Lock<State>

    init(_ descriptor: borrowing Descriptor) { state = Lock(State(last: FileMark(descriptor))) }

    /// Runs a change of our own. All changes while one runs count as ours.
    func change<Failure: Error>(
        _ descriptor: borrowing Descriptor, _ body: () throws(Failure) -> Void
    ) throws(Failure) {
        look(descriptor, begins: true)
        defer {
            state.withLock { state in
                state.running -= 1
                // Under the lock, so that an older mark never replaces a newer one.
                if state.running == 0 { state.last = FileMark(descriptor) }
            }
        }
        try body()
    }

    /// The mark of the file; nil where another program has changed it since it was opened.
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
