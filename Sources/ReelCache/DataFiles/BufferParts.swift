import ReelCore

extension UnsafeRawBufferPointer {
    /// The bytes of `range`, where the first of all lies at `lower` in the file.
    func part(_ range: ByteRange, from lower: Int64) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self[Int(range.lower - lower)..<Int(range.upper - lower)])
    }
}

extension UnsafeMutableRawBufferPointer {
    /// The same part, to be written to.
    func part(_ range: ByteRange, from lower: Int64) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(rebasing: self[Int(range.lower - lower)..<Int(range.upper - lower)])
    }
}
