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

    /// One behind the other in the file, from `offset` on. - Parameter blocks: whole pages.
    /// - Returns: false where this file cannot be written to so; nothing was written then, or some of it.
    func write(_ blocks: [MemoryBlock], at offset: Int64, to file: borrowing Descriptor) throws(CacheError) -> Bool {
        let opened = state.withLock { state -> Int32? in
            if state.descriptor == nil, !state.isRefused {
                // The very file, whatever stands under its name by now.
                let flags = O_WRONLY | O_CLOEXEC | reel_o_direct
                state.descriptor = try? Descriptor(open("/proc/self/fd/\(file.number)", flags), from: "open")
                state.isRefused = state.descriptor == nil
            }
            if state.isRefused { return nil }
            state.users += 1
            return state.descriptor?.number
        }
        guard let number = opened else { return false }
        defer {
            state.withLock { state in
                state.users -= 1
                if state.users == 0, state.closesSoon { DirectWriter.close(&state) }
            }
        }
        let total = blocks.reduce(0) { $0 + $1.bytes.count }
        var pieces = blocks.map { iovec(iov_base: $0.whole.baseAddress, iov_len: $0.bytes.count) }
        let count = pwritev(number, &pieces, Int32(pieces.count), Int(offset))
        if count == total { return true }
        // Written in part is what a disk that is nearly full does; the rest tells why.
        let isRefused = count < 0 && (errno == EINVAL || errno == EOPNOTSUPP)
        if count < 0, !isRefused, errno != EINTR { throw .last("pwritev") }
        if isRefused { state.withLock { $0.isRefused = true } }
        return false
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
