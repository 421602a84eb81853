import CLinux
import Glibc
import ReelCore

/// Bytes of a data file that stay as they are while this lives, so that sendfile(2) may take them at any time.
package final class Loan: Sendable {
    package let range: ByteRange
    private let object: CacheObject

    fileprivate init(_ object: CacheObject, _ range: ByteRange) {
        self.object = object
        self.range = range
    }

    deinit { object.file.takeBack(range) }

    /// The data file's descriptor; open while this lives.
    package var descriptor: Int32 { object.file.descriptor.number }
}

/// Which extents of a data file are lent, and what the loans ask of those that empty its blocks.
///
/// sendfile(2) sends the pages themselves, and they lie in sockets until the clients read them, long after the loan. A
/// hole takes whole folios out of the page cache as they are, but writes zeros into a folio that reaches over its edge.
/// No folio reaches over the edge of an extent, so a file of which bytes were lent gives up extents as a whole
/// (`truncate_inode_partial_folio` in Linux' mm/truncate.c).
struct LentExtents: Sendable {
    /// Bytes of the file were lent, now or before.
    var wasLent: Bool
    /// How many loans each extent has.
    private var loans: [Int: Int] = [:]

    init(wasLent: Bool) { self.wasLent = wasLent }

    mutating func lend(_ extent: Int) {
        wasLent = true
        loans[extent, default: 0] += 1
    }

    mutating func takeBack(_ extent: Int) {
        guard let count = loans[extent] else { return }
        loans[extent] = count > 1 ? count - 1 : nil
    }

    /// Whether these blocks may leave. Only durable blocks are lent.
    func allow(_ blocks: Range<Int>, of table: BlockTable) -> Bool {
        guard wasLent, blocks.contains(where: { table[$0] == .durable }) else { return true }
        let isWhole =
            blocks.lowerBound % 64 == 0 && (blocks.upperBound % 64 == 0 || blocks.upperBound >= table.blockCount)
        return isWhole && !loans.keys.contains { blocks.overlaps($0 * 64..<$0 * 64 + 64) }
    }

    /// The extents that lie whole in `runs` and may leave, each by itself.
    func extents(of runs: [Range<Int>], blockCount: Int) -> [Range<Int>] {
        runs.flatMap { run in
            stride(from: (run.lowerBound + 63) / 64, to: (run.upperBound + 63) / 64, by: 1).compactMap { extent in
                let blocks = extent * 64..<min(extent * 64 + 64, blockCount)
                return blocks.upperBound <= run.upperBound && loans[extent] == nil ? blocks : nil
            }
        }
    }
}

extension CacheObject {
    /// A folio of the page cache is not longer than an extent, where pages are not.
    private static let isPossible = sysconf(Int32(_SC_PAGESIZE)) == 4096

    /// Lends bytes of one extent: of a complete file, verified, durable, not encrypted, and in the page cache, so that
    /// sending them waits for no disk. Counts as a use of them.
    /// - Returns: nil where they cannot be lent, and must be read.
    package func lend(_ range: ByteRange) -> Loan? {
        guard Self.isPossible, file.hasFile, file.cipher == nil, !range.isEmpty, range.upper <= length else {
            return nil
        }
        let blocks = file.blocks(touching: range)
        guard blocks.lowerBound / 64 == (blocks.upperBound - 1) / 64,
            let bytesOnDisk = file.lend(blocks, now: store.clock.now())
        else { return nil }
        // Returned from here on where it is not handed on.
        let loan = Loan(self, range)
        return !file.hasLostBytes(of: bytesOnDisk) && file.descriptor.isInMemory(range) ? loan : nil
    }

    /// Whether bytes of it were lent: it gives up whole extents only.
    package var wasLent: Bool { file.wasLent }

    /// The extents that lie whole in `runs` and of which no byte is lent.
    package func freeExtents(of runs: [Range<Int>]) -> [Range<Int>] { file.freeExtents(of: runs) }
}

extension Descriptor {
    /// If a page is in memory, this many bytes around it are taken to be there too.
    private static let step: Int64 = 64 << 10

    /// Whether the bytes are in the page cache, judged by a few of them. preadv2(2), RWF_NOWAIT.
    fileprivate func isInMemory(_ range: ByteRange) -> Bool {
        for offset in stride(from: range.lower, to: range.upper, by: Int(Self.step)) {
            if !reel_is_in_memory(number, Int(offset)) { return false }
        }
        return reel_is_in_memory(number, Int(range.upper - 1))
    }
}
