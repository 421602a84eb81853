import CBytes
import Glibc
import ReelCore

/// The content of a file that nobody needs to store: each byte follows from a seed and its offset.
///
/// Eight bytes in a row are one hash of their aligned offset, so a byte that stands at the wrong place, or a hole that
/// reads as zeros, is seen at once.
package struct GeneratedBytes: Hashable, Sendable {
    package var seed: UInt64

    package init(seed: UInt64 = 1) {
        self.seed = seed
    }

    package func byte(at offset: Int64) -> UInt8 {
        var byte: UInt8 = 0
        reel_generate(seed, offset, &byte, 1)
        return byte
    }

    package func bytes(_ range: ByteRange) -> [UInt8] {
        // The standard library writes a count into its one shared empty array, which ThreadSanitizer takes for a race.
        if range.isEmpty { return [] }
        return [UInt8](unsafeUninitializedCapacity: Int(range.count)) { buffer, count in
            fill(UnsafeMutableRawBufferPointer(buffer), from: range.lower)
            count = buffer.count
        }
    }

    /// Writes the bytes from `offset` on into the whole of `buffer`.
    package func fill(_ buffer: UnsafeMutableRawBufferPointer, from offset: Int64) {
        if let place = buffer.baseAddress { reel_generate(seed, offset, place, buffer.count) }
    }

    /// The offset of the first byte in `bytes`, read from `offset` on, that does not belong there, nil if all do.
    package func firstDifference(in bytes: UnsafeRawBufferPointer, from offset: Int64) -> Int64? {
        withUnsafeTemporaryAllocation(byteCount: 64 << 10, alignment: 16) { expected in
            var done = 0
            while done < bytes.count {
                let count = min(expected.count, bytes.count - done)
                let part = UnsafeMutableRawBufferPointer(rebasing: expected[..<count])
                fill(part, from: offset + Int64(done))
                let read = UnsafeRawBufferPointer(rebasing: bytes[done..<(done + count)])
                if memcmp(part.baseAddress!, read.baseAddress!, count) != 0 {
                    return offset + Int64(done) + Int64(zip(part, read).prefix { $0 == $1 }.count)
                }
                done += count
            }
            return nil
        }
    }
}
