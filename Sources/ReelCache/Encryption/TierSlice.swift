import CCrypto
import ReelCore

/// Names and seals the slices of versions that the mounts of a fleet share in a bucket.
///
/// A slice's name is a keyed hash of its source, version and number, and the seal of each block covers that name: bytes
/// of another version or from another place do not open. Without a key of the user's, seals find damage and mistakes,
/// and anybody who knows the bucket's name can make them.
package struct TierSeal: Sendable {
    private let names: SecretBytes
    private let seals: SecretBytes
    private let encrypts: Bool
    /// The scope of the source whose versions it names.
    private var scope = ""

    /// The form of names and objects: another one makes other names.
    private static let format = "reelfs tier 3"

    /// - Parameters:
    ///   - key: the user's, 32 bytes, under which blocks are encrypted, nil if they are plain.
    ///   - bucket: its name and the prefix of its keys, which all mounts of a fleet share: the key where there is no
    ///     other one.
    package init(key: SecretBytes?, bucket: String) {
        encrypts = key != nil
        let open = authenticationCode(
            UnsafeRawBufferPointer(start: nil, count: 0), Array((Self.format + " " + bucket).utf8))
        let base = key ?? open.withUnsafeBytes { SecretBytes($0) }
        names = base.derived(Array((Self.format + " names").utf8))
        seals = base.derived(Array((Self.format + " seals").utf8))
    }

    /// The seal for one source: sources whose keys are alike share nothing (`KeyScope`).
    package func scoped(_ name: String) -> TierSeal {
        var seal = self
        seal.scope = name
        return seal
    }

    /// The slice that holds a byte of a version.
    package func slice(of version: Version, at offset: Int64) -> TierSlice {
        let number = offset / TierSlice.size
        let name = name(of: version, "\(number)")
        let range = ByteRange(number * TierSlice.size, min(version.length, (number + 1) * TierSlice.size))
        return TierSlice(range, name: name, key: seals.authenticationCode(name), encrypts: encrypts)
    }

    /// The name of the claim to fetch the slices around a byte of a version, and their bytes.
    package func claim(of version: Version, at offset: Int64) -> (name: String, range: ByteRange) {
        let number = offset / TierSlice.claimed
        let range = ByteRange(number * TierSlice.claimed, min(version.length, (number + 1) * TierSlice.claimed))
        return (TierSlice.path(of: name(of: version, "claim \(number)")), range)
    }

    private func name(of version: Version, _ part: String) -> [UInt8] {
        var message: [UInt8] = []
        func add(_ field: some Collection<UInt8>) {
            withUnsafeBytes(of: UInt64(field.count).littleEndian) { message += $0 }
            message += field
        }
        add(scope.utf8)
        add(version.key.utf8)
        add((version.validator.entityTag?.opaque ?? "").utf8)
        add((version.validator.lastModified.map { "\($0)" } ?? "").utf8)
        add("\(version.length) \(part)".utf8)
        return authenticationCode(names.bytes, message)
    }
}

/// A mebibyte of a version, or the rest of it: one object of a bucket. It holds the slice's blocks in order, each
/// behind its seal, so that any run of blocks comes with one request, and proves itself.
///
/// A block's seal: the HMAC-SHA-256 of its place, length and XXH3; in an encrypted slice nonce and tags of AES-256-GCM.
package struct TierSlice: Sendable {
    /// Programs that only look at a file read about as much, so that their slices become whole as well; and what one
    /// mount fetches is there for another one soon.
    package static let size = 8 * BlockSize.block
    /// The bytes that a mount claims at once: so many that it asks the origin for bytes in a row, and the tier seldom.
    fileprivate static let claimed = 8 * size
    private static let sealSize = MemoryLayout<BlockSum>.size

    /// In the version's bytes.
    package let range: ByteRange
    /// Two hexadecimal digits, a slash, and 62 more: no folder of a server that keeps objects as files gets too many.
    package let name: String
    private let key: SecretBytes
    /// nil where the blocks are plain.
    private let cipher: BlockCipher?

    fileprivate init(_ range: ByteRange, name: [UInt8], key: SecretBytes, encrypts: Bool) {
        self.range = range
        self.name = Self.path(of: name)
        self.key = key
        cipher = encrypts ? BlockCipher(key) : nil
    }

    fileprivate static func path(of name: [UInt8]) -> String {
        let digits = hexadecimal(name)
        return digits.prefix(2) + "/" + digits.dropFirst(2)
    }

    package var blockCount: Int { BlockSize.blocks(touching: ByteRange(0, range.count), length: range.count).count }

    /// The length of the object, in bytes.
    package var objectLength: Int64 { range.count + Int64(blockCount * Self.sealSize) }

    /// The blocks that hold bytes of a range of the version.
    package func blocks(touching wanted: ByteRange) -> Range<Int> {
        let part = wanted.clamped(to: range)
        return BlockSize.blocks(
            touching: ByteRange(part.lower - range.lower, part.upper - range.lower), length: range.count)
    }

    /// The bytes of a block, in the version.
    package func bytes(of block: Int) -> ByteRange {
        let part = BlockSize.bytes(of: block, length: range.count)
        return ByteRange(range.lower + part.lower, range.lower + part.upper)
    }

    /// The bytes of the object that hold blocks with their seals.
    package func objectRange(of blocks: Range<Int>) -> ByteRange {
        let stride = BlockSize.block + Int64(Self.sealSize)
        return ByteRange(Int64(blocks.lowerBound) * stride, min(Int64(blocks.upperBound) * stride, objectLength))
    }

    /// A block with its seal, to be filled behind the seal.
    package func emptyRecord(of block: Int) -> [UInt8] {
        [UInt8](repeating: 0, count: Self.sealSize + Int(bytes(of: block).count))
    }

    /// Calls with the block in a record.
    package static func withBlock<Result>(
        of record: inout [UInt8], _ body: (UnsafeMutableRawBufferPointer) -> Result
    ) -> Result {
        record.withUnsafeMutableBytes { body(UnsafeMutableRawBufferPointer(rebasing: $0[sealSize...])) }
    }

    /// Seals the block in a record, and encrypts it where slices are encrypted.
    package func seal(_ record: inout [UInt8], block: Int) {
        let sum = Self.withBlock(of: &record) { bytes in
            cipher?.seal(UnsafeRawBufferPointer(bytes), into: bytes, block: block) ?? plainSum(of: bytes, block)
        }
        withUnsafeBytes(of: sum.words) { record.replaceSubrange(..<Self.sealSize, with: $0) }
    }

    /// Decrypts the block in a record in place. - Returns: false where it is not the block that was sealed.
    package func open(_ record: inout [UInt8], block: Int) -> Bool {
        guard record.count == Self.sealSize + Int(bytes(of: block).count) else { return false }
        var sum = BlockSum(plain: 0)
        withUnsafeMutableBytes(of: &sum.words) { $0.copyBytes(from: record.prefix(Self.sealSize)) }
        return Self.withBlock(of: &record) { [sum] bytes in
            cipher?.open(bytes, block: block, sum) ?? (plainSum(of: bytes, block) == sum)
        }
    }

    private func plainSum(of bytes: UnsafeMutableRawBufferPointer, _ block: Int) -> BlockSum {
        let facts = SIMD4(UInt64(block), UInt64(bytes.count), checksum(UnsafeRawBufferPointer(bytes)), 0)
        let code = withUnsafeBytes(of: facts) { authenticationCode(key.bytes, Array($0)) }
        let words = code.withUnsafeBytes { $0.loadUnaligned(as: SIMD4<UInt64>.self) }
        return BlockSum(words: SIMD8(lowHalf: words, highHalf: .zero))
    }
}
