import CLinux
import Glibc
import ReelCore
import Synchronization

/// A data file opened once more, for writes that go past the page cache: open(2), O_DIRECT. Open only while there are such
/// writes, as leases (`Descriptor.isOpenElsewhere`) count it for somebody else.
final class DirectWriter: Sendable {
    private struct State: ~Copyable {
        var descriptor: Descriptor?
        var isRefused = false
        var users = 0
        var closesSoon = false
    }

    private let state = Mutex(State())

    /// Whether the file may be written to so; true until it was tried.
    var isPossible: Bool { state.withLock { !$0.isRefused } }

    /// Under the lock under which the file is opened: a lease that is tried while this program opens the file itself would
    /// end the program by SIGIO.
    func withoutOpening<Result>(_ body: () -> Result) -> Result { state.withLock { _ in body() } }

    /// What came of a write.
    enum Outcome: Equatable {
        case written
        /// It can be written through the page cache: something else is short for the moment, or this filesystem has no
        /// such writes, which is asked of it once.
        case notSo
        /// The errno of a disk that does not take it. Some may be written, and the page cache would take all of it: to lose
        /// it without a word before the next sync, as a filesystem may give up dirty pages that it cannot write back.
        case failed(Int32)
    }

    /// One behind the other in the file, from `offset` on. - Parameter blocks: whole pages.
    func write(_ blocks: [MemoryBlock], at offset: Int64, to file: borrowing Descriptor) -> Outcome {
        let (number, error) = open(file)
        guard error == 0 else { return judged(error, isOpening: true) }
        defer {
            state.withLock { state in
                state.users -= 1
                if state.users == 0, state.closesSoon { DirectWriter.close(&state) }
            }
        }
        let total = blocks.reduce(0) { $0 + $1.bytes.count }
        var pieces = blocks.map { iovec(iov_base: $0.whole.baseAddress, iov_len: $0.bytes.count) }
        let count = pwritev(number, &pieces, Int32(pieces.count), Int(offset))
        if count < 0 { return judged(errno, isOpening: false) }
        // What a disk does that is nearly full.
        return count == total ? .written : .failed(ENOSPC)
    }

    private func open(_ file: borrowing Descriptor) -> (number: Int32, error: Int32) {
        state.withLock { state in
            if state.isRefused { return (-1, EINVAL) }
            if state.descriptor == nil {
                // The very file, whatever stands under its name by now.
                let flags = O_WRONLY | O_CLOEXEC | reel_o_direct
                let number = Glibc.open("/proc/self/fd/\(file.number)", flags)
                guard number >= 0 else { return (-1, errno) }
                state.descriptor = try? Descriptor(number, from: "open")
            }
            state.users += 1
            return (state.descriptor?.number ?? -1, 0)
        }
    }

    private func judged(_ error: Int32, isOpening: Bool) -> Outcome {
        if [EAGAIN, EINTR, EMFILE, ENFILE, ENOMEM].contains(error) { return .notSo }
        // A file that may not be opened anew, or no /proc by which to: whether it can be written, other writes tell.
        let isImpossible =
            isOpening
            ? ![EIO, EROFS, ENOSPC, EDQUOT, ESTALE].contains(error)
            : [EINVAL, EOPNOTSUPP, ENOSYS].contains(error)
        guard isImpossible else { return .failed(error) }
        state.withLock { $0.isRefused = true }
        return .notSo
    }

    /// At once, or when the write that runs has ended. - Returns: whether it is closed now.
    @discardableResult
    func close() -> Bool {
        state.withLock { state in
            if state.users == 0 { DirectWriter.close(&state) } else { state.closesSoon = true }
            return state.descriptor == nil
        }
    }

    private static func close(_ state: inout State) {
        state.descriptor = nil
        state.closesSoon = false
    }
}
