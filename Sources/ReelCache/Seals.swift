import Glibc
import ReelCore
import Synchronization

/// What was looked at of files that nobody has open now: it needs no second look as long as nobody has touched them.
///
/// A file that somebody else has changed while it was open is not among them, nor one whose mark is another when it is
/// opened again. Lives as long as the program; the oldest make room for new ones.
final class Seals: Sendable {
    /// In words of block maps, each for an extent: 1 MiB, and files of a terabyte together.
    static let limit = 128 << 10
    /// Files: beside its map each takes some 150 bytes.
    private static let most = 8192
    /// Seconds. A change so short before the seal could be followed by another under the same time.
    static let rest = 2

    struct Seal: Sendable {
        var mark: FileMark
        var verified: BlockMap
    }

    private struct State {
        var seals: [Int64: Seal] = [:]
        var order: [Int64] = []
        var words = 0

        mutating func remove(_ row: Int64) -> Seal? {
            guard let seal = seals.removeValue(forKey: row) else { return nil }
            words -= seal.verified.extents.count
            order.removeAll { $0 == row }
            return seal
        }
    }

    private let state = Mutex(State())

    /// The file is closed; nothing of this program writes to it from here on.
    func seal(_ file: DataFile, now: Int = time(nil)) {
        guard file.row >= 0, let mark = file.ownMark, mark.seconds <= now - Seals.rest else { return }
        let verified = file.withBlocks { $0.verifiedOnDisk }
        guard verified.filledBlocks > 0, verified.extents.count <= Seals.limit / 4 else { return }
        state.withLock { state in
            _ = state.remove(file.row)
            state.seals[file.row] = Seal(mark: mark, verified: verified)
            state.order.append(file.row)
            state.words += verified.extents.count
            while state.words > Seals.limit || state.order.count > Seals.most { _ = state.remove(state.order[0]) }
        }
    }

    /// What needs no look, of a file that is opened again. Once: the next close seals anew.
    func open(_ row: Int64, _ descriptor: borrowing Descriptor) -> BlockMap? {
        guard let seal = state.withLock({ $0.remove(row) }), FileMark(descriptor) == seal.mark else { return nil }
        return seal.verified
    }
}
