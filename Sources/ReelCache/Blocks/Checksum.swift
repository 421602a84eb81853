import CXXHash
import ReelCore

/// The checksum of a block's bytes: XXH3, 64 bits (xxhash.h). It finds damage, not forgery: a program that can write to
/// the cache directory can write the index as well.
func checksum(_ bytes: UnsafeRawBufferPointer) -> UInt64 { XXH3_64bits(bytes.baseAddress, bytes.count) }

/// The same checksum of bytes that come in pieces, one behind the other.
///
/// `@unchecked Sendable`: it belongs to one data file and is used only under that file's lock.
final class RunningChecksum: @unchecked Sendable {
    private let state: OpaquePointer

    init(of bytes: UnsafeRawBufferPointer) {
        guard let state = XXH3_createState() else { fatalError("out of memory") }
        self.state = state
        XXH3_64bits_reset(state)
        add(bytes)
    }

    deinit { XXH3_freeState(state) }

    func add(_ bytes: UnsafeRawBufferPointer) { XXH3_64bits_update(state, bytes.baseAddress, bytes.count) }

    /// The sum of all bytes so far; more may follow.
    var value: UInt64 { XXH3_64bits_digest(state) }
}

/// The bytes of one block that came so far: runs, each with its checksum.
struct Pieces: Sendable {
    struct Piece: Sendable {
        var range: ByteRange
        /// nil where bytes of it are in memory, which needs none.
        fileprivate(set) var checksum: RunningChecksum?
    }

    private(set) var all: [Piece] = []
    /// Another program changed the file: its bytes must be read back before they count.
    var isDoubtful = false

    /// - Parameters:
    ///   - bytes: nil where they are in memory.
    ///   - range: in the file, as long as `bytes`.
    mutating func add(_ bytes: UnsafeRawBufferPointer?, at range: ByteRange) {
        // Bytes that come again replace the earlier ones.
        all.removeAll { range.lower <= $0.range.lower && $0.range.upper <= range.upper }
        if let index = all.firstIndex(where: { $0.range.upper == range.lower }) {
            all[index].range.upper = range.upper
            if let bytes { all[index].checksum?.add(bytes) } else { all[index].checksum = nil }
        } else {
            all.append(Piece(range: range, checksum: bytes.map { RunningChecksum(of: $0) }))
        }
    }

    /// The checksum of the whole block, where its bytes came in one run and no other program has touched them since.
    func whole(_ block: ByteRange) -> UInt64? {
        guard all.count == 1, all[0].range == block, !isDoubtful else { return nil }
        return all[0].checksum?.value
    }

    /// Whether the pieces cover the whole block.
    func cover(_ block: ByteRange) -> Bool { end(from: block.lower) >= block.upper }

    /// The first byte from `offset` on that did not come.
    func end(from offset: Int64) -> Int64 {
        var end = offset
        while let next = all.first(where: { $0.range.contains(end) }) { end = next.range.upper }
        return end
    }

    /// The first byte from `offset` on that came; nil where none did.
    func start(from offset: Int64) -> Int64? {
        all.lazy.filter { $0.range.upper > offset }.map { max($0.range.lower, offset) }.min()
    }

    /// Whether `bytes`, read back, have the checksums of the pieces that were written.
    /// - Parameter block: where the first of `bytes` lies.
    func agree(with bytes: UnsafeRawBufferPointer, of block: ByteRange) -> Bool {
        all.allSatisfy { piece in
            guard let sum = piece.checksum?.value else { return true }
            return ReelCache.checksum(bytes.part(piece.range, from: block.lower)) == sum
        }
    }
}
