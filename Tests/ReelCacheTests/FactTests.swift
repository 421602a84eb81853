import ReelCore
import Testing

@testable import ReelCache

struct FactTests {
    @Test func factsAreSeenAtOnceAndAfterReopening() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        let tag = EntityTag("W/\"x-1\"")
        let odd = ["", "a\0b", "e\u{301}", "\u{e9}", "?q=\"'--", String(repeating: "ü", count: 5000)]
        let information = odd.enumerated().map { index, _ in
            ContentInformation(
                length: index == 0 ? nil : Int64(index), validator: Validator(entityTag: tag, lastModified: nil),
                mediaType: index == 1 ? nil : "video/x", acceptsRanges: index == 2)
        }
        for (key, fact) in zip(odd, information) { store.remember(fact, for: key, checkedAt: 7) }
        for round in 0..<3 {
            for (key, fact) in zip(odd, information) {
                #expect(store.information(for: key) == Remembered(information: fact, checkedAt: 7), "\(round)")
            }
            #expect(store.information(for: "unknown") == nil)
            if round == 0 { store.commit() }
            if round == 1 {
                store.close()
                store = try fixture.open()
            }
        }
        store.close()
    }

    @Test func tenThousandFactsAndEntriesComeBackAsTheyWere() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        let validator = Validator(entityTag: EntityTag("\"abc\""), lastModified: 1_700_000_000)
        let entries = (0..<10_000).map { (number: Int) -> StoredEntry in
            let length: Int64? = number % 3 == 0 ? nil : Int64(number)
            let modified: Int64? = number % 2 == 0 ? nil : 5
            return StoredEntry(
                name: "film \(number).mkv", url: "http://h/films/film%20\(number).mkv", isDirectory: number % 7 == 0,
                length: length, modified: modified)
        }
        let listing = RememberedListing(entries: entries, fetchedAt: 9, complete: true)
        let information = ContentInformation(length: 5, validator: validator, mediaType: "video/mp4")
        for entry in entries { store.remember(information, for: entry.url, checkedAt: 1) }
        store.remember(listing, for: "http://h/films/")
        store.commit()
        store.close()
        store = try fixture.open()
        let found = try #require(store.listing("http://h/films/"))
        #expect(found.fetchedAt == 9 && found.complete && found.entries as? [StoredEntry] == entries)
        #expect(entries.allSatisfy { store.information(for: $0.url)?.checkedAt == 1 })
        store.remember(RememberedListing(entries: [entries[0]], fetchedAt: 10, complete: false), for: "http://h/films/")
        store.commit()
        #expect(store.listing("http://h/films/")?.entries as? [StoredEntry] == [entries[0]])
        store.close()
    }

    @Test(arguments: ["", "http://h/films/", "/home/ü/list.m3u"]) func namesOfSourcesAreStable(_ source: String) {
        // Worked out with another implementation of FNV-1a, 128 bits.
        let known = [
            "": "6c62272e07bb014262b821756295c58d", "http://h/films/": "f7b46beb5c742536020d2bc7967ced5e",
            "/home/ü/list.m3u": "935bf785eb1135d6ecfd6825ce2be78f",
        ]
        #expect(sourceDirectoryName(source) == known[source])
    }
}
