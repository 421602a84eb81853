import Glibc
import ReelCore
import ReelThreads
import Synchronization

/// The account of the blocks that are in memory, and the memory of those that have gone, for the next ones.
final class MemoryAccount: Sendable {
    /// For blocks that the disk does not take: a film plays through the memory that a few readers have ahead and behind
    /// them while nothing can be written.
    static let keptLimit: Int64 = 32 << 20

    /// `@unchecked Sendable`: the thread that took it out of the lock has it alone.
    private struct Spare: @unchecked Sendable { let memory: UnsafeMutableRawBufferPointer }

    private let limit: Int64
    private let used = Atomic<Int64>(0)
    private let mostSpares: Int
    private let spares = Lock<[Spare]>([])

    /// - Parameter mostSpares: kept where blocks come and go all the time, as new pages cost more than what is done
    ///   with them.
    init(limit: Int64, mostSpares: Int = 0) {
        self.limit = limit
        self.mostSpares = mostSpares
    }

    deinit { for spare in spares.withLock({ $0 }) { spare.memory.deallocate() } }

    var bytes: Int64 { used.load(ordering: .relaxed) }

    /// nil where the limit is reached.
    fileprivate func take(_ count: Int) -> UnsafeMutableRawBufferPointer? {
        guard used.add(Int64(count), ordering: .relaxed).newValue <= limit else {
            used.subtract(Int64(count), ordering: .relaxed)
            return nil
        }
        if count == Int(BlockSize.block), let spare = spares.withLock({ $0.popLast() }) { return spare.memory }
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 16)
        memory.initializeMemory(as: UInt8.self, repeating: 0)
        return memory
    }

    fileprivate func giveBack(_ memory: UnsafeMutableRawBufferPointer) {
        used.subtract(Int64(memory.count), ordering: .relaxed)
        let spare = Spare(memory: memory)
        // Most accounts keep none: no lock where the last reference may go under that of a file.
        let isKept =
            mostSpares > 0
            && spares.withLock { spares in
                guard spares.count < mostSpares, spare.memory.count == Int(BlockSize.block) else { return false }
                spares.append(spare)
                return true
            }
        if !isKept { memory.deallocate() }
    }
}

/// One block's bytes, off the disk. Its memory and its place in the account go with the last reference.
///
/// `@unchecked Sendable`: bytes are written by one thread, the origin's, before any reader is told of them, and never
/// again.
final class MemoryBlock: @unchecked Sendable {
    private let memory: UnsafeMutableRawBufferPointer
    private let account: MemoryAccount

    /// Zeros, or what a block before it had. nil where the account has no room for it.
    init?(_ count: Int64, _ account: MemoryAccount) {
        guard let memory = account.take(Int(count)) else { return nil }
        self.account = account
        self.memory = memory
    }

    deinit { account.giveBack(memory) }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        UnsafeMutableRawBufferPointer(rebasing: memory[offset..<offset + bytes.count]).copyMemory(from: bytes)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int) {
        buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: memory[offset..<offset + buffer.count]))
    }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(memory) }
    var whole: UnsafeMutableRawBufferPointer { memory }
}
