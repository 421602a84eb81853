import ReelCore
import ReelThreads

/// The blocks of encrypted files that were decrypted last: a read of 4 KiB needs its whole block, as GCM opens no part
/// of one, and the next read goes on in the same block. 8 MiB, wiped at the end.
///
/// A block is known by its proof, which no two writes share: what was written anew is another block.
final class OpenedBlocks: Sendable {
    static let count = 64

    private struct Slot {
        /// nil: nothing is there.
        var sum: BlockSum?
        var isReady = false
        /// Threads that use its bytes right now.
        var users = 0
        var lastUse: UInt64 = 0
    }

    private struct State {
        var slots = [Slot](repeating: Slot(), count: OpenedBlocks.count)
        var uses: UInt64 = 0

        /// The slot that holds the block, or one that may hold it; nil where another thread decrypts it, or all are in
        /// use. The caller uses it from now on.
        mutating func take(_ sum: BlockSum) -> (slot: Int, isReady: Bool)? {
            uses += 1
            var oldest: Int?
            for index in slots.indices {
                if slots[index].sum == sum {
                    guard slots[index].isReady else { return nil }
                    slots[index].users += 1
                    slots[index].lastUse = uses
                    return (index, true)
                }
                if slots[index].users == 0, oldest.map({ slots[index].lastUse < slots[$0].lastUse }) ?? true {
                    oldest = index
                }
            }
            guard let oldest else { return nil }
            slots[oldest] = Slot(sum: sum, users: 1, lastUse: uses)
            return (oldest, false)
        }

        mutating func giveBack(_ slot: Int, isReady: Bool) {
            slots[slot].users -= 1
            slots[slot].isReady = isReady
            if !isReady { slots[slot] = Slot() }
        }
    }

    private let state = Lock(State())
    private let memory = SecretBytes(count: OpenedBlocks.count * Int(BlockSize.block))

    /// Copies bytes of a block.
    /// - Parameters:
    ///   - count: bytes of the whole block.
    ///   - offset: in the block.
    ///   - open: gets memory for the whole block, and fills it; false where the block is damaged.
    /// - Returns: what `open` has returned; true where the block was here.
    func read(
        _ sum: BlockSum, _ count: Int, into buffer: UnsafeMutableRawBufferPointer, at offset: Int,
        open: (UnsafeMutableRawBufferPointer) -> Bool
    ) -> Bool {
        guard let (slot, isHere) = state.withLock({ $0.take(sum) }) else {
            return withScratch(count) { copy($0, offset, buffer, open) }
        }
        let start = slot * Int(BlockSize.block)
        let block = UnsafeMutableRawBufferPointer(rebasing: memory.memory[start..<start + count])
        let isRight = copy(block, offset, buffer) { isHere || open($0) }
        state.withLock { $0.giveBack(slot, isReady: isRight) }
        return isRight
    }

    private func copy(
        _ block: UnsafeMutableRawBufferPointer, _ offset: Int, _ buffer: UnsafeMutableRawBufferPointer,
        _ open: (UnsafeMutableRawBufferPointer) -> Bool
    ) -> Bool {
        guard open(block) else { return false }
        buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: block[offset..<offset + buffer.count]))
        return true
    }
}
