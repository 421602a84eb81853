import ReelCore

/// Buffers in which a body's pieces are gathered. A transfer holds one only while bytes wait in it, which is within
/// one round of the transport, so a few serve any number of transfers.
struct BufferPool: ~Copyable {
    /// Writing to a file in pieces of this size costs a third less than in curl's 16 KiB.
    static let bufferSize = Int(BlockSize.gathered)
    /// Kept for the next round; more are given back.
    static let keptBuffers = 6

    private var free: [UnsafeMutableRawBufferPointer] = []

    mutating func take() -> UnsafeMutableRawBufferPointer {
        free.popLast() ?? .allocate(byteCount: Self.bufferSize, alignment: 16)
    }

    mutating func give(_ buffer: UnsafeMutableRawBufferPointer) {
        if free.count < Self.keptBuffers { free.append(buffer) } else { buffer.deallocate() }
    }

    deinit {
        for buffer in free { buffer.deallocate() }
    }
}
