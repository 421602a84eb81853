import ReelCore

/// Buffers in which transfers gather the pieces of their bodies. A transfer holds one only while bytes wait in it,
/// which is within one round of the transport, so a few serve any number of transfers.
struct BufferPool: ~Copyable {
    /// Writing to a file in pieces of this size costs a third less than in curl's 16 KiB.
    static let bufferSize = Int(BlockSize.gathered)
    /// Buffers kept for the next round; the system gets back more.
    static let keptBuffers = 6

    private var free: [UnsafeMutableRawBufferPointer] = []
    /// The transfers that gathered bytes in this round.
    private var users: [Transfer] = []

    /// Gives a transfer that has none an empty buffer.
    mutating func lend(to transfer: Transfer) {
        let memory = free.popLast() ?? .allocate(byteCount: Self.bufferSize, alignment: 16)
        transfer.gathered = GatheredBytes(memory)
        users.append(transfer)
    }

    /// Some have gathered bytes since `takeRound`.
    var isInUse: Bool { !users.isEmpty }

    /// The transfers that gathered bytes since the last call, which still have their buffers.
    mutating func takeRound() -> [Transfer] {
        defer { users = [] }
        return users
    }

    /// Takes a transfer's buffer, if it has one.
    mutating func giveBack(from transfer: Transfer) {
        guard let memory = transfer.gathered.take()?.memory else { return }
        users.removeAll { $0 === transfer }
        if free.count < Self.keptBuffers { free.append(memory) } else { memory.deallocate() }
    }

    deinit {
        for buffer in free { buffer.deallocate() }
    }
}

/// The bytes of a body that its receiver has not got yet.
struct GatheredBytes {
    fileprivate let memory: UnsafeMutableRawBufferPointer
    private var count = 0

    fileprivate init(_ memory: UnsafeMutableRawBufferPointer) { self.memory = memory }

    func hasRoom(for more: Int) -> Bool { count + more <= memory.count }

    /// - Parameter bytes: no more than there is room for.
    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        UnsafeMutableRawBufferPointer(rebasing: memory[count...]).copyMemory(from: bytes)
        count += bytes.count
    }

    /// All bytes, valid until the next call of `append`.
    var remaining: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[..<count]) }

    /// All bytes, valid until the next call of `append`; the buffer is empty then.
    mutating func takeAll() -> UnsafeRawBufferPointer {
        defer { count = 0 }
        return remaining
    }
}
