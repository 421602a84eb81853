import ReelCore
import Synchronization

/// Bytes of a file that are looked at before anybody gets them.
extension Descriptor {
    /// Reads bytes that have this checksum as a whole.
    /// - Parameters:
    ///   - whole: what the checksum is of; a block, or a part of one.
    ///   - range: of `buffer`, which gets what it has in common with `whole`.
    /// - Returns: false where they have another checksum, or cannot be read.
    func read(_ whole: ByteRange, _ sum: UInt64, into buffer: UnsafeMutableRawBufferPointer, _ range: ByteRange) -> Bool
    {
        let part = whole.clamped(to: range)
        let slice = buffer.part(part, from: range.lower)
        if part == whole {
            return read(into: slice, at: part.lower) == slice.count && checksum(UnsafeRawBufferPointer(slice)) == sum
        }
        // What is copied is what was looked at: a second read might see other bytes.
        return withBytes(whole) { bytes in
            guard checksum(bytes) == sum else { return false }
            slice.copyMemory(from: bytes.part(part, from: whole.lower))
            return true
        } ?? false
    }

    /// Calls with all bytes of a block, or of a part of one; nil where they cannot be read.
    func withBytes<Result>(_ range: ByteRange, _ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
        let scratch = Scratch.take()
        defer { Scratch.giveBack(scratch) }
        let bytes = UnsafeMutableRawBufferPointer(rebasing: scratch[..<Int(range.count)])
        guard read(into: bytes, at: range.lower) == bytes.count else { return nil }
        return body(UnsafeRawBufferPointer(bytes))
    }
}

/// Memory for a block that is looked at. As the allocator would give it, it would be new pages each time.
private enum Scratch {
    /// As many as often look at the same time.
    private static let most = 4
    private static let spares = Mutex<[UnsafeMutableRawBufferPointer]>([])

    static func take() -> UnsafeMutableRawBufferPointer {
        let spare = spares.withLock { spares in spares.popLast().map { Memory(bytes: $0) } }
        return spare?.bytes ?? .allocate(byteCount: Int(BlockSize.block), alignment: 4096)
    }

    static func giveBack(_ bytes: UnsafeMutableRawBufferPointer) {
        let memory = Memory(bytes: bytes)
        let isKept = spares.withLock { spares in
            guard spares.count < most else { return false }
            spares.append(memory.bytes)
            return true
        }
        if !isKept { bytes.deallocate() }
    }

    /// `@unchecked Sendable`: whoever has taken it has it alone.
    private struct Memory: @unchecked Sendable {
        let bytes: UnsafeMutableRawBufferPointer
    }
}
