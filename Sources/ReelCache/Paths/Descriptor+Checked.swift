import ReelCore

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
