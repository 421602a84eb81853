import ReelCore
import TestKit
import Testing

@testable import ReelSources

@Suite struct EntryListTests {
    private static let pieces = [
        "a", "Film", " ", "%41", "ü", "\u{75}\u{308}", "#", "?", "~", "&", "日本", ".mkv", "%", "(2)",
    ]

    private func url(_ text: String) -> ResourceURL { ResourceURL(text)! }

    @Test("What goes in comes out: any name, any URL, any facts", arguments: [UInt64(4711), .random(in: 0...(.max))])
    func roundTrip(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var entries: [SourceEntry] = []
        var names: Set<[UInt8]> = []
        let folders = ["http://h/films/", "http://h/films/", "http://u:p@h/films/", "https://other:8443/", "http://h/"]
        while entries.count < 2000 {
            let name = (0..<Int.random(in: 1...6, using: &random)).map { _ in
                Self.pieces.randomElement(using: &random)!
            }.joined()
            guard names.insert(Array(name.utf8)).inserted else { continue }
            let isDirectory = Int.random(in: 0..<5, using: &random) == 0
            let segment = percentEncodedSegment(name.utf8)
            var text = folders.randomElement(using: &random)! + segment + (isDirectory ? "/" : "")
            if Int.random(in: 0..<4, using: &random) == 0 { text += "?v=\(segment)&w=/x?" }
            if Int.random(in: 0..<4, using: &random) == 0 { text = "http://h/films/deep/\(entries.count)" }
            entries.append(
                SourceEntry(
                    name: name, url: url(text), isDirectory: isDirectory,
                    length: [nil, 0, 5, BlockSize.longestFile].randomElement(using: &random)!,
                    modified: [nil, 0, -5, .min, .max].randomElement(using: &random)!))
        }
        let list = EntryList(entries)
        #expect(list.count == entries.count, "seed \(seed)")
        for (place, entry) in entries.enumerated() {
            #expect(list[place] == entry && list[place].url.credentials == entry.url.credentials, "seed \(seed)")
            #expect(list.place(of: entry.name) == place, "seed \(seed)")
        }
        #expect(list.place(of: "no such name") == nil && list.place(of: "") == nil)
        #expect(list == EntryList(entries))
        #expect(list != EntryList(entries.dropLast()))
        var other = entries
        other[1000].length = 6
        #expect(list != EntryList(other))
    }

    @Test("A length that no file has is not known")
    func absurdLength() {
        for length in [BlockSize.longestFile + 1, .max] {
            let entry = SourceEntry(name: "a", url: url("http://h/a"), isDirectory: false, length: length)
            #expect(EntryList([entry])[0].length == nil)
        }
    }

    @Test("Tags take eight bytes an entry where there are any, and make no other list")
    func tags() throws {
        func list(_ tags: [EntryTag?]) -> EntryList {
            var builder = EntryList.Builder()
            for (place, tag) in tags.enumerated() {
                builder.append(
                    SourceEntry(name: "\(place)", url: url("http://h/\(place)"), isDirectory: false), tag: tag)
            }
            return builder.list()
        }
        let tag = EntryTag(Array("\"one\"".utf8)[...])
        #expect(MemoryLayout<EntryTag?>.stride <= 8 && tag != nil)
        let (plain, some) = (list([nil, nil, nil]), list([nil, tag, nil]))
        #expect(plain == some && !plain.hasSameTags(as: some) && some.hasSameTags(as: list([nil, tag, nil])))
        #expect((0..<3).map { some.tag(at: $0) } == [nil, tag, nil])
        let many = list(Array(repeating: tag, count: LongTests.many(100_000, elseOnly: 10_000)))
        #expect(many.footprint < 100 * many.count)
        #expect(many.replacing(dates: [7: 8]).tag(at: 7) == tag)
    }

    @Test("Names that no directory can hold are not taken")
    func refusals() {
        let names = ["", ".", "..", "a/b", "a\0b", String(repeating: "x", count: 256)]
        let entries = names.map { SourceEntry(name: $0, url: url("http://h/x"), isDirectory: false) }
        #expect(EntryList(entries).isEmpty)
        let longest = String(repeating: "x", count: 255)
        #expect(EntryList([SourceEntry(name: longest, url: url("http://h/x"), isDirectory: false)])[0].name == longest)
    }

    @Test("A length that no file has is not kept", arguments: [-1, BlockSize.longestFile + 1, BlockSize.openEnd, .max])
    func lengths(length: Int64) {
        let lengths = [length, BlockSize.longestFile]
        let entries = lengths.map { SourceEntry(name: "\($0)", url: url("http://h/x"), isDirectory: false, length: $0) }
        let list = EntryList(entries)
        #expect((0..<2).map { list[$0].length } == [nil, BlockSize.longestFile])
    }

    @Test("The first of two of one name is found")
    func twins() {
        let entries = [1, 2].map { SourceEntry(name: "x", url: url("http://h/\($0)"), isDirectory: false) }
        #expect(EntryList(entries).place(of: "x") == 0)
    }

    @Test("An entry of a listing takes its name and 40 bytes at most")
    func footprint() {
        let entries = (0..<LongTests.many(100_000, elseOnly: 10_000)).map { number in
            let name = "Some Show \(number / 100) Episode \(100_000 + number).mkv"
            let url = ResourceURL("http://h/films/" + percentEncodedSegment(name.utf8))!
            return SourceEntry(name: name, url: url, isDirectory: false, length: 1_000_000, modified: 1_700_000_000)
        }
        let list = EntryList(entries)
        let text = entries.reduce(0) { $0 + $1.name.utf8.count }
        #expect(list.footprint - text <= 40 * list.count)
    }
}
