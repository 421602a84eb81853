import Glibc
import ReelCore
import ReelThreads

/// Remembers which blocks of closed files are already verified, as long as no other program changes these files.
///
/// It forgets a file that another program changed while it was open, and an entry whose file has another mark when it
/// is opened again. It lives as long as the program; new entries replace the oldest ones.
final class VerificationCache: Sendable {
    /// Ranges of blocks, 16 bytes each: 1 MiB. A file of which all is verified is one range.
    static let limit = 64 << 10
    /// Files: beside its ranges each takes some 150 bytes.
    private static let most = 8192
    /// Seconds. A change so short before the close may be followed by another one with the same time.
    static let rest = 2

    private struct Entry: Sendable {
        var mark: FileMark
        var verified: RangeSet<Int>
    }

    private struct State {
        var entries: [Int64: Entry] = [:]
        var order: [Int64] = []
        var ranges = 0

        mutating func remove(_ row: Int64) -> Entry? {
            guard let entry = entries.removeValue(forKey: row) else { return nil }
            ranges -= entry.verified.ranges.count
            order.removeAll { $0 == row }
            return entry
        }
    }

    private let state = Lock(State())

    /// Remembers the verified blocks of a file that was just closed: this program writes nothing to it from here on.
    func keep(_ file: DataFile, now: Int = Int(wallClock())) {
        guard file.row >= 0, let mark = file.ownMark, mark.seconds <= now - Self.rest else { return }
        let verified = file.withBlocks { $0.states.certain }
        guard !verified.isEmpty, verified.ranges.count <= Self.limit / 4 else { return }
        state.withLock { state in
            _ = state.remove(file.row)
            state.entries[file.row] = Entry(mark: mark, verified: verified)
            state.order.append(file.row)
            state.ranges += verified.ranges.count
            while state.ranges > Self.limit || state.order.count > Self.most { _ = state.remove(state.order[0]) }
        }
    }

    /// The verified blocks of a file that is opened again; nil where they have to be verified again. They are given
    /// once: the next close keeps them again.
    func take(_ row: Int64, _ descriptor: borrowing Descriptor) -> RangeSet<Int>? {
        guard let entry = state.withLock({ $0.remove(row) }), FileMark(descriptor) == entry.mark else { return nil }
        return entry.verified
    }
}
