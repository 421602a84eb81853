import ReelCore
import TestKit
import Testing

@testable import ReelCache

/// Several sources in one cache.
@Suite struct KeyScopeTests {
    private let first = sourceDirectoryName("first")
    private let second = sourceDirectoryName("second")

    @Test func theSameURLOfTwoSourcesSharesNothingButTheCap() throws {
        let fixture = Fixture()
        let whole = try fixture.open()
        defer { whole.close() }
        let (one, other) = (whole.scoped(first), whole.scoped(second))
        let validator = Validator(entityTag: EntityTag("\"1\""), lastModified: nil)
        let version = Version(key: "http://h/film", validator: validator, length: 4096)
        let bytes = [UInt8](repeating: 7, count: 4096)
        do {
            let object = try one.object(for: version)
            try bytes.withUnsafeBytes { try object.write($0, at: 0) }
            #expect(object.version == version)
        }
        #expect(one.cachedBytes(of: version.key) == 4096)
        #expect(other.cachedBytes(of: version.key) == 0)
        #expect(try other.object(for: version).filledBytes == 0)
        #expect(one.usage == other.usage)

        one.remember(ContentInformation(length: 4096, validator: validator), for: version.key, checkedAt: 1)
        one.set("kind", "listing")
        let entries = [StoredEntry(name: "film", url: "http://h/film", isDirectory: false)]
        one.remember(StoredListing(entries: entries, fetchedAt: 1, complete: true), for: "http://h/")
        try one.pin(["http://h/film"])
        whole.commit()
        #expect(one.information(for: version.key)?.checkedAt == 1 && one.setting("kind") == "listing")
        #expect(one.hasListing("http://h/") && one.hasEntries("http://h/"))
        #expect(other.information(for: version.key) == nil && other.setting("kind") == nil)
        #expect(!other.hasListing("http://h/") && !other.hasEntries("http://h/"))
        #expect(try one.pins() == [ExactText(version.key)] && other.pins().isEmpty)
        #expect(one.objects().map(\.key) == [version.key] && other.objects().allSatisfy { $0.cachedBytes == 0 })
        #expect(try one.versions() == [version] && other.versions().isEmpty)
        #expect(one.cachedBytes(of: version.key) == 4096 && other.cachedBytes(of: version.key) == 0)
        #expect(whole.scopes.contains(first))
        #expect(whole.objects().contains { splitScope(ofKey: $0.key) == (first, version.key) })

        #expect(try other.evict(key: version.key) == 0)
        #expect(try one.evict(key: version.key) == 4096)
        #expect(one.cachedBytes(of: version.key) == 0)
    }

    @Test(arguments: ["film", "\u{301}film", ""]) func aKeyComesBackAsItWas(_ key: String) {
        let split = splitScope(ofKey: KeyScope(name: first).inside(key))
        #expect(split.scope == first && split.key.utf8.elementsEqual(key.utf8))
    }

    @Test(arguments: ["http://host/", "/list", "", "0123 x", String(repeating: "g", count: 32) + " x"])
    func aKeyOfOneSourceHasNoScope(_ key: String) {
        let split = splitScope(ofKey: key)
        #expect(split.scope == nil && split.key == key)
    }
}
