import Glibc
import ReelCore
import Synchronization
import TestKit
import Testing

@testable import ReelCache

@Suite(.plainAndEncrypted) struct MetadataTests {
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
                #expect(store.information(for: key) == StoredInformation(information: fact, checkedAt: 7), "\(round)")
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
        let listing = StoredListing(entries: entries, fetchedAt: 9, complete: true)
        let information = ContentInformation(length: 5, validator: validator, mediaType: "video/mp4")
        for entry in entries { store.remember(information, for: entry.url, checkedAt: 1) }
        store.remember(listing, for: "http://h/films/")
        store.commit()
        store.close()
        store = try fixture.open()
        let found = try #require(store.listing("http://h/films/"))
        #expect(found.fetchedAt == 9 && found.complete && found.entries as? [StoredEntry] == entries)
        #expect(entries.allSatisfy { store.information(for: $0.url)?.checkedAt == 1 })
        store.remember(StoredListing(entries: [entries[0]], fetchedAt: 10, complete: false), for: "http://h/films/")
        store.commit()
        #expect(store.listing("http://h/films/")?.entries as? [StoredEntry] == [entries[0]])
        store.close()
    }

    private func listing(_ count: Int, _ fetchedAt: Int64) -> StoredListing {
        let entries = (0..<count).map {
            StoredEntry(name: "\($0) of \(fetchedAt)", url: "http://h/films/\($0)", isDirectory: false)
        }
        return StoredListing(entries: entries, fetchedAt: fetchedAt, complete: true)
    }

    private func rows(_ store: Store, of table: String) -> Int64? {
        try? store.index.read { (index) throws(CacheError) in
            try index.first("SELECT count(*) FROM \(table)") { $0.integer(0) }
        }
    }

    @Test func nobodyWaitsForAWholeListingToBeWrittenAndTheOldOneGoes() throws {
        let fixture = Fixture()
        let slices = Atomic<Int>(0)
        let opened = Atomic<Int>(0)
        let current = Mutex<Store?>(nil)
        let store = try fixture.open { point in
            guard point == .entriesWritten, let store = current.withLock({ $0 }) else { return }
            slices.add(1, ordering: .relaxed)
            // In the midst of it a file is opened, which takes the gate that writes.
            if (try? store.object(for: version(blocks: 1))) != nil { opened.add(1, ordering: .relaxed) }
        }
        defer { store.close() }
        current.withLock { $0 = store }
        defer { current.withLock { $0 = nil } }
        for (count, fetchedAt) in [(2500, Int64(1)), (3000, 2), (0, 3), (1001, 4)] {
            store.remember(listing(count, fetchedAt), for: "http://h/films/")
            store.remember(listing(5, fetchedAt), for: "http://h/other/")
            store.remember(listing(0, fetchedAt), for: "http://h/none/")
            store.commit()
            #expect(
                store.listing("http://h/films/")?.entries as? [StoredEntry]
                    == listing(count, fetchedAt).entries as? [StoredEntry])
            #expect(store.hasEntries("http://h/films/") == (count > 0) && store.hasListing("http://h/films/"))
            #expect(rows(store, of: "entries") == Int64(count + 5) && rows(store, of: "listings") == 3)
        }
        let written = slices.load(ordering: .relaxed)
        #expect(written == (3 + 3 + 0 + 2) + 4 && opened.load(ordering: .relaxed) == written)
        #expect(!store.hasListing("http://h/unknown/") && !store.hasEntries("http://h/unknown/"))
    }

    @Test func aListingThatIsReplacedWhileItIsReadIsReadAnew() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        defer { store.close() }
        store.remember(listing(2500, 1), for: "http://h/films/")
        store.commit()
        var (names, begun) = ([String](), 0)
        let begin = {
            names = []
            begun += 1
        }
        let found = store.listing("http://h/films/", begin: begin) { entry in
            names.append(entry.name)
            // No gate is held here.
            if begun == 1, names.count == 1500 {
                store.remember(listing(1200, 2), for: "http://h/films/")
                store.commit()
            }
        }
        #expect(found?.fetchedAt == 2 && begun == 2)
        #expect(names == (0..<1200).map { "\($0) of 2" })
    }

    @Test(.tags(.plainOnly)) func datesThatTheIndexCannotKnowAreNone() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        let dated = Validator(entityTag: nil, lastModified: 7)
        store.remember(ContentInformation(length: 1, validator: dated), for: "a", checkedAt: 7)
        store.remember(listing(1, 7), for: "http://h/films/")
        store.commit()
        for date in [Int64.min, .max] {
            store.close()
            let connection = try IndexConnection(fixture.index)
            try connection.run("UPDATE resources SET checked = ?, modified = ?", [.integer(date), .integer(date)])
            try connection.run("UPDATE listings SET fetched = ?", [.integer(date)])
            try connection.run("UPDATE entries SET modified = ?", [.integer(date)])
            store = try fixture.open()
            #expect(store.information(for: "a")?.checkedAt == 0)
            #expect(store.information(for: "a")?.information.validator.lastModified == nil)
            let found = try #require(store.listing("http://h/films/"))
            #expect(found.fetchedAt == 0 && found.entries.stored(at: 0).modified == nil)
        }
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

    @Test func aCacheThatKnowsNothingOfItsSourceGoesWithItsClose() throws {
        try withTemporaryDirectory { root in
            for (isKnown, name) in [(false, "nothing"), (true, "setting")] {
                let place = root + "/" + sourceDirectoryName(name)
                defer { removeTree(place) }
                let store = try Store(directory: place, source: name, limits: CacheLimits(cap: 1 << 30), owner: "")
                if isKnown { store.set("offline", "on") }
                let freed = store.closeUnused()
                #expect((freed > 0) == !isKnown && (access(place, F_OK) == 0) == isKnown, "\(name)")
            }
        }
    }
}
