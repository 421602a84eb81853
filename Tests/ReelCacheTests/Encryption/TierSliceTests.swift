import ReelCore
import TestKit
import Testing

@testable import ReelCache

/// Names and seals of the objects that mounts share.
@Suite struct TierSliceTests {
    private static let length = 3 * TierSlice.size + 200_000

    private func version(
        _ key: String = "https://host/film.mkv", tag: String? = "\"v1\"", date: Int64? = 1, length: Int64 = length
    ) -> Version {
        let validator = Validator(entityTag: tag.flatMap { EntityTag($0) }, lastModified: date)
        return Version(key: key, validator: validator, length: length)
    }

    private func record(_ slice: TierSlice, _ block: Int) -> [UInt8] {
        var record = slice.emptyRecord(of: block)
        TierSlice.withBlock(of: &record) { bytes in
            bytes.copyBytes(from: GeneratedBytes(seed: 3).bytes(slice.bytes(of: block)))
        }
        return record
    }

    @Test func aNameTellsSourceKeyValidatorLengthNumberAndKeyOfTheFleetApart() {
        let seal = TierSeal(key: nil, bucket: "shared/films/")
        let slices =
            [
                version(), version("https://host/other.mkv"), version(tag: "\"v2\""), version(tag: nil),
                version(date: 2), version(length: Self.length + 1),
            ].map { seal.slice(of: $0, at: 0) }
            + [
                seal.slice(of: version(), at: TierSlice.size), seal.scoped("a").slice(of: version(), at: 0),
                seal.scoped("b").slice(of: version(), at: 0),
                TierSeal(key: nil, bucket: "other/").slice(of: version(), at: 0),
                TierSeal(key: SecretBytes(count: 32), bucket: "shared/films/").slice(of: version(), at: 0),
            ]
        #expect(Set(slices.map(\.name)).count == slices.count)
        let again = TierSeal(key: nil, bucket: "shared/films/").slice(of: version(), at: TierSlice.size - 1)
        #expect(again.name == slices[0].name && again.name.utf8.count == 65)
    }

    @Test func aSliceIsItsBlocksBehindTheirSeals() {
        let seal = TierSeal(key: nil, bucket: "b/")
        let (first, last) = (seal.slice(of: version(), at: 5), seal.slice(of: version(), at: Self.length - 1))
        #expect(first.range == ByteRange(0, TierSlice.size) && first.objectLength == TierSlice.size + 8 * 64)
        #expect(last.range.count == 200_000 && last.objectLength == 200_128 && last.blockCount == 2)
        #expect(first.blocks(touching: ByteRange(300_000, 400_000)) == 2..<4)
        #expect(first.objectRange(of: 2..<4) == ByteRange(2 * 131_136, 4 * 131_136))
        #expect(last.objectRange(of: 1..<2) == ByteRange(131_136, 200_128))
        #expect(last.bytes(of: 1).upper == Self.length)
    }

    @Test(arguments: [false, true])
    func aBlockOpensAtItsPlaceInItsVersionAlone(_ isEncrypted: Bool) {
        let seal = TierSeal(key: isEncrypted ? SecretBytes(count: 32) : nil, bucket: "b/")
        let slice = seal.slice(of: version(), at: 0)
        let plain = record(slice, 3)
        var sealed = plain
        slice.seal(&sealed, block: 3)
        #expect((sealed[64...] == plain[64...]) != isEncrypted)
        var opened = sealed
        #expect(slice.open(&opened, block: 3) && opened[64...] == plain[64...])
        func isRefused(_ record: [UInt8], _ slice: TierSlice, _ block: Int) -> Bool {
            var record = record
            return !slice.open(&record, block: block)
        }
        #expect(isRefused(sealed, slice, 2))
        #expect(isRefused(sealed, seal.slice(of: version(), at: TierSlice.size), 3))
        #expect(isRefused(sealed, seal.slice(of: version(tag: "\"v2\""), at: 0), 3))
        #expect(isRefused(sealed, TierSeal(key: nil, bucket: "c/").slice(of: version(), at: 0), 3))
        #expect(isRefused(Array(sealed.dropLast()), slice, 3) && isRefused([], slice, 3))
        for place in [0, 15, 27, 59, 64, 65, 70_000, sealed.count - 1] {
            var changed = sealed
            changed[place] ^= 0x10
            #expect(isRefused(changed, slice, 3), "\(place)")
        }
    }
}
