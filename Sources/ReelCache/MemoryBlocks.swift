import Glibc
import ReelCore
import Synchronization

/// The account of the blocks that the disk did not take and that are kept in memory instead.
final class MemoryAccount: Sendable {
    /// What a few readers have ahead and behind them while nothing can be written; a film plays through it.
    static let limit: Int64 = 32 << 20

    private let used = Atomic<Int64>(0)

    var bytes: Int64 { used.load(ordering: .relaxed) }

    func reserve(_ bytes: Int64) -> Bool {
        guard used.add(bytes, ordering: .relaxed).newValue > Self.limit else { return true }
        used.subtract(bytes, ordering: .relaxed)
        return false
    }

    func release(_ bytes: Int64) { used.subtract(bytes, ordering: .relaxed) }
}

/// One block's bytes, off the disk. Its memory and its place in the account go with the last reference.
///
/// `@unchecked Sendable`: bytes are written by one thread, the origin's, before anybody is told that they are there, and
/// never again.
final class MemoryBlock: @unchecked Sendable {
    private let memory: UnsafeMutableRawBufferPointer
    private let account: MemoryAccount

    /// nil where the account has no room for it.
    init?(_ count: Int64, _ account: MemoryAccount) {
        guard account.reserve(count) else { return nil }
        self.account = account
        memory = .allocate(byteCount: Int(count), alignment: 4096)
        memory.initializeMemory(as: UInt8.self, repeating: 0)
    }

    deinit {
        account.release(Int64(memory.count))
        memory.deallocate()
    }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        UnsafeMutableRawBufferPointer(rebasing: memory[offset..<offset + bytes.count]).copyMemory(from: bytes)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int) {
        buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: memory[offset..<offset + buffer.count]))
    }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(memory) }
    var whole: UnsafeMutableRawBufferPointer { memory }
}
