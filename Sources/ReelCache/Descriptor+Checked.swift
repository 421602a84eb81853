import ReelCore
import ReelThreads

/// Memory for one block that is read to be verified.
///
/// `@unchecked Sendable`: the thread that took it out of `spares` has it alone.
private struct Scratch: @unchecked Sendable {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(BlockSize.block), alignment: 16)
}

/// For the next blocks, because new pages cost more than a checksum. Four: the usual number of threads that read.
private let spares = Lock<[Scratch]>([])
private let mostSpares = 4

/// Bytes of a file that are verified before a reader gets them.
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
        // Copied from the bytes that were verified: a second read might see other ones.
        return withBytes(whole) { bytes in
            guard checksum(bytes) == sum else { return false }
            slice.copyMemory(from: bytes.part(part, from: whole.lower))
            return true
        } ?? false
    }

    /// Calls with all bytes of a block, or of a part of one; nil where they cannot be read.
    func withBytes<Result>(_ range: ByteRange, _ body: (UnsafeRawBufferPointer) -> Result) -> Result? {
        withScratch(Int(range.count)) { bytes in
            read(into: bytes, at: range.lower) == bytes.count ? body(UnsafeRawBufferPointer(bytes)) : nil
        }
    }
}

/// Calls with memory for a block or a part of one, which holds anything.
func withScratch<Result>(_ count: Int, _ body: (UnsafeMutableRawBufferPointer) -> Result) -> Result {
    let scratch = spares.withLock { $0.popLast() } ?? Scratch()
    defer {
        let isKept = spares.withLock { spares in
            guard spares.count < mostSpares else { return false }
            spares.append(scratch)
            return true
        }
        if !isKept { scratch.memory.deallocate() }
    }
    return body(UnsafeMutableRawBufferPointer(rebasing: scratch.memory[..<count]))
}
