import Glibc
import ReelCore
import ReelThreads

/// Remembers which blocks of closed files are already verified, as long as no other program changes these files.
///
/// A file that another program changed while it was open is not remembered, nor does an entry count whose file has
/// another mark when it is opened again. Lives as long as the program; new entries replace the oldest ones.
final class VerificationCache: Sendable {
    /// In words of block maps, each for an extent: 1 MiB, and files of a terabyte together.
    static let limit = 128 << 10
    /// Files: beside its map each takes some 150 bytes.
    private static let most = 8192
    /// Seconds. A change so short before the close could be followed by another one with the same time.
    static let rest = 2

    private struct Entry: Sendable {
        var mark: FileMark
        var verified: BlockMap
    }

    private struct State {
        var entries: [Int64: Entry] = [:]
        var order: [Int64] = []
        var words = 0

        mutating func remove(_ row: Int64) -> Entry? {
            guard let entry = entries.removeValue(forKey: row) else { return nil }
            words -= entry.verified.extents.count
            order.removeAll { $0 == row }
            return entry
        }
    }

    private let state = Lock(State())

    /// The file is closed: this program writes nothing to it from here on.
    func keep(_ file: DataFile, now: Int = time(nil)) {
        guard file.row >= 0, let mark = file.ownMark, mark.seconds <= now - Self.rest else { return }
        let verified = file.withBlocks { $0.verifiedOnDisk }
        guard verified.filledBlocks > 0, verified.extents.count <= Self.limit / 4 else { return }
        state.withLock { state in
            _ = state.remove(file.row)
            state.entries[file.row] = Entry(mark: mark, verified: verified)
            state.order.append(file.row)
            state.words += verified.extents.count
            while state.words > Self.limit || state.order.count > Self.most { _ = state.remove(state.order[0]) }
        }
    }

    /// The verified blocks of a file that is opened again; nil where they have to be verified anew. Once: the next
    /// close keeps them anew.
    func take(_ row: Int64, _ descriptor: borrowing Descriptor) -> BlockMap? {
        guard let entry = state.withLock({ $0.remove(row) }), FileMark(descriptor) == entry.mark else { return nil }
        return entry.verified
    }
}
