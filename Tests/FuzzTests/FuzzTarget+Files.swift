import ReelCache
import ReelCore

extension FuzzTarget {
    /// The bytes of media files, and of a bucket's objects.
    static let files = [
        FuzzTarget("container") { bytes in
            let count = Int64(bytes.count)
            for length in [count, count + 1, 1 << 30, BlockSize.openEnd - 1, .max] where length >= count {
                switch Container.reading(bytes, length: length) {
                case .found(let container): try check(container, length)
                case .needsMore: try require(count < Container.mostHead, "\(count) bytes tell nothing")
                case .unknown: break
                }
            }
        },
        // The first byte chooses the key. What follows stands for a record, and then changes one: a place, a byte.
        FuzzTarget("record") { bytes in
            let slice = slices[Int((bytes.first ?? 0) & 1)]
            var strange = Array(bytes.dropFirst())
            try require(!slice.open(&strange, block: 0), "a block that was never sealed")
            var record = slice.emptyRecord(of: 0)
            slice.seal(&record, block: 0)
            let sealed = record
            var changes = FuzzBytes(Array(bytes.dropFirst()))
            while !changes.isEmpty {
                let place = Int(changes.byte()) % record.count
                record[place] ^= changes.byte()
            }
            let isSame = record == sealed
            let opens = slice.open(&record, block: 0)
            try require(opens || !isSame, "its seal is refused")
            let isRight = TierSlice.withBlock(of: &record) { $0.allSatisfy { $0 == 0 } }
            try require(!opens || isRight, "a changed block")
        },
    ]

    /// One block of a hundred bytes each: sealed, and encrypted as well.
    private static let slices = [nil, SecretBytes(count: 32)].map { key in
        let validator = Validator(entityTag: EntityTag("\"v1\""), lastModified: 1)
        let version = Version(key: "http://host/film.mkv", validator: validator, length: 100)
        return TierSeal(key: key, bucket: "shared/films/").slice(of: version, at: 0)
    }

    private static func check(_ container: Container, _ length: Int64) throws(FuzzFinding) {
        let ranges = container.opening + container.seeking
        try require(ranges.count <= 2 * Container.mostRanges, "\(ranges.count) ranges")
        try require(ranges.reduce(0) { $0 + $1.count } <= Container.mostBytes, "\(ranges)")
        for range in ranges { try require(!range.isEmpty && range.upper <= length, "\(range) of \(length)") }
        try require((0...length).contains(container.front), "an index of \(container.front)")
        try require(container.seconds.map { $0 > 0 && $0 < 1e7 } ?? true, "\(container.seconds!) s")
    }
}
