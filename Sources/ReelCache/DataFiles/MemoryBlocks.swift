import ReelCore
import Synchronization

/// Counts the bytes of the blocks that are in memory.
final class MemoryAccount: Sendable {
    /// For blocks that the disk does not take: a film plays through the memory that a few readers have ahead and behind
    /// them while nothing can be written.
    static let keptLimit: Int64 = 32 << 20

    private let limit: Int64
    private let used = Atomic<Int64>(0)

    /// - Parameter limit: bytes.
    init(limit: Int64) { self.limit = limit }

    /// For one cache. A block that is encrypted is in memory until it is whole: each connection may be in one.
    convenience init(isEncrypted: Bool) {
        self.init(limit: Self.keptLimit + (isEncrypted ? Int64(ConnectionLimit.most) * BlockSize.block : 0))
    }

    var bytes: Int64 { used.load(ordering: .relaxed) }

    /// False where the limit is reached.
    fileprivate func take(_ count: Int64) -> Bool {
        if used.add(count, ordering: .relaxed).newValue <= limit { return true }
        giveBack(count)
        return false
    }

    fileprivate func giveBack(_ count: Int64) { used.subtract(count, ordering: .relaxed) }
}

/// One block's bytes, off the disk. Its memory and its place in the account go with the last reference.
///
/// `@unchecked Sendable`: one thread, the origin's, writes bytes before any reader may see them, and never again.
final class MemoryBlock: @unchecked Sendable {
    /// What holds the bytes; others may keep it when the block goes.
    let buffer = BlockBuffer()
    /// All of it, to be written to.
    let whole: UnsafeMutableRawBufferPointer
    private let account: MemoryAccount

    /// Anything; nil where the account has no place for it.
    init?(_ count: Int64, _ account: MemoryAccount) {
        guard account.take(count) else { return nil }
        self.account = account
        whole = UnsafeMutableRawBufferPointer(rebasing: buffer.bytes[..<Int(count)])
    }

    deinit { account.giveBack(Int64(whole.count)) }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        UnsafeMutableRawBufferPointer(rebasing: whole[offset..<offset + bytes.count]).copyMemory(from: bytes)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int) {
        buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: whole[offset..<offset + buffer.count]))
    }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(whole) }
}
