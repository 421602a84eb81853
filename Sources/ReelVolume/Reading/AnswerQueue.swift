import ReelCore

/// The thread that answers reads which have waited, one after another. It lends each answer the same buffer.
final class AnswerQueue: Sendable {
    private let queue = SerialQueue("answers")
    private let buffer = Buffer()

    /// - Parameters:
    ///   - count: bytes that the answer needs.
    ///   - answer: not called once the queue has ended.
    func add(_ count: Int, _ answer: @escaping @Sendable (UnsafeMutableRawBufferPointer) -> Void) {
        queue.add { [buffer] in answer(buffer.bytes(count)) }
    }

    /// Gives the answers that are left, and ends the thread.
    func stop() { queue.stop() }

    /// `@unchecked Sendable`: only the thread of the queue uses it.
    private final class Buffer: @unchecked Sendable {
        private var memory = UnsafeMutableRawBufferPointer.allocate(
            byteCount: 2 * Int(BlockSize.block), alignment: 4096)

        deinit { memory.deallocate() }

        func bytes(_ count: Int) -> UnsafeMutableRawBufferPointer {
            if count > memory.count {
                memory.deallocate()
                memory = .allocate(byteCount: count, alignment: 4096)
            }
            return UnsafeMutableRawBufferPointer(rebasing: memory[..<count])
        }
    }
}
