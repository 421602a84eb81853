import TestKit
import Testing

@testable import ReelSources

/// Claims names one after the other, as a listing does.
private struct Claims {
    private var names = UniqueNames()
    private var entries = EntryList.Builder()

    mutating func claim(_ name: String) -> String {
        let name = names.claim(name, beside: entries)
        entries.append(SourceEntry(name: name, url: Corpus.base, isDirectory: false))
        return name
    }
}

@Suite struct SafeNameTests {
    @Test(
        "A name keeps what a filesystem can hold and shows the rest as escapes",
        arguments: [
            ("film.mp4", "film.mp4"), ("", "unnamed"), (".", "%2E"), ("..", "%2E%2E"), ("...", "..."), (".a", ".a"),
            ("a/b", "a%2Fb"), ("/", "%2F"), ("../../etc", "..%2F..%2Fetc"), ("a\0b", "a%00b"), ("a\nb", "a%0Ab"),
            ("a\u{7F}", "a%7F"), ("a\u{85}b", "a%C2%85b"), ("\u{A0}", "\u{A0}"), ("100%", "100%"), ("ü", "ü"),
            ("日本.mp4", "日本.mp4"), ("👩‍👩‍👧.mp4", "👩‍👩‍👧.mp4"), (" ", " "), ("a\\b", "a\\b"),
        ])
    func shown(_ original: String, _ safe: String) {
        #expect(Array(SafeName.make(Array(original.utf8)).utf8) == Array(safe.utf8))
    }

    @Test(
        "Bytes that are no UTF-8 are shown as escapes",
        arguments: [
            ([0xFC], "%FC"), ([0x61, 0xC3], "a%C3"), ([0xC3, 0x28], "%C3("), ([0xED, 0xB3, 0xBC], "%ED%B3%BC"),
            ([0xC0, 0xAF], "%C0%AF"), ([0xF4, 0x90, 0x80, 0x80], "%F4%90%80%80"), ([0xF0, 0x9F, 0x98], "%F0%9F%98"),
            ([0xF0, 0x9F, 0x98, 0x80], "😀"), ([0xE2, 0x82, 0xAC, 0xFF], "€%FF"),
        ] as [([UInt8], String)])
    func broken(_ original: [UInt8], _ safe: String) {
        #expect(SafeName.make(original) == safe)
    }

    @Test(
        "A long name keeps its extension, ends on a character's border and stays apart from its like",
        arguments: ["a", "ü", "日", "👩‍👩‍👧", "e\u{301}", "/", "\u{1}"])
    func long(_ unit: String) {
        let stem = String(repeating: unit, count: 300)
        let one = SafeName.make(Array((stem + "1.mkv").utf8))
        let other = SafeName.make(Array((stem + "2.mkv").utf8))
        #expect(isSafe(one) && isSafe(other) && one != other)
        #expect(one.hasSuffix(".mkv") && one.utf8.count > 255 - 40)
        let kept = one.prefix { $0 != "~" }
        if unit != "/" && unit != "\u{1}" { #expect(kept.allSatisfy { String($0) == unit }) }
        #expect(SafeName.make(Array((stem + "1.mkv").utf8)) == one)
        #expect(isSafe(SafeName.make(Array(stem.utf8))))
    }

    @Test("A name of exactly 255 bytes stays, one of 256 is cut")
    func border() {
        let fits = String(repeating: "x", count: 251) + ".mkv"
        #expect(SafeName.make(Array(fits.utf8)) == fits)
        let cut = SafeName.make(Array(("x" + fits).utf8))
        #expect(cut.utf8.count == 255 && cut != fits)
        // One letter under a tower of marks is one character, longer than any name.
        let tower = "a" + String(repeating: "\u{301}", count: 400)
        #expect(isSafe(SafeName.make(Array(tower.utf8))))
    }

    @Test("Equal names are numbered before the extension, in their order")
    func unique() {
        var names = Claims()
        let claimed = ["a.mp4", "a.mp4", "a (2).mp4", "a.mp4", "b", "b", ".x", ".x", "a/b"].map {
            names.claim(SafeName.make(Array($0.utf8)))
        }
        #expect(
            claimed == ["a.mp4", "a (2).mp4", "a (2) (2).mp4", "a (3).mp4", "b", "b (2)", ".x", ".x (2)", "a%2Fb"])
        #expect(names.claim(SafeName.make(Array("a%2Fb".utf8))) == "a%2Fb (2)")
        // Equal to a Swift dictionary, and to the eye.
        #expect(names.claim("\u{E9}") == "\u{E9}")
        #expect(names.claim("e\u{301}") == "e\u{301} (2)")
    }

    @Test("Random names become safe names, all different", arguments: [UInt64(1), .random(in: 0...(.max))])
    func random(_ seed: UInt64) {
        var randomness = SeededGenerator(seed: seed)
        var names = Claims()
        var seen: Set<String> = []
        let units: [[UInt8]] =
            ["a", "/", ".", "ü", "\0", "%2F", "日", "👩‍👧", " (2)", "~"].map { Array($0.utf8) } + [[0xFF], [0xC3]]
        for _ in 0..<3000 {
            let isLong = Int.random(in: 0..<20, using: &randomness) == 0
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 0...(isLong ? 300 : 3), using: &randomness) {
                bytes += units.randomElement(using: &randomness)!
            }
            let name = names.claim(SafeName.make(bytes))
            #expect(isSafe(name) && seen.insert(name).inserted, "seed \(seed): \(bytes) became \(name)")
        }
    }

    @Test("Twenty thousand equal long names take no quadratic time")
    func many() {
        var names = Claims()
        let name = SafeName.make([UInt8](repeating: 0x61, count: 255))
        let claimed = (0..<20_000).map { _ in names.claim(name) }
        #expect(Set(claimed).count == 20_000 && claimed.allSatisfy { $0.utf8.count <= 255 })
    }

    @Test("Long names that differ in their last bytes alone take no quadratic time where each comes twice")
    func manyOfALongDottedName() {
        let names = { (count: Int) in
            (0..<count).map { number in
                let digits = String(number)
                return String(repeating: "a", count: 222) + "." + String(repeating: "0", count: 32 - digits.utf8.count)
                    + digits
            }
        }
        let work = Work(size: 50, input: names) { names in
            var claims = Claims()
            let claimed = (names + names).map { claims.claim($0) }
            #expect(Set(claimed).count == claimed.count && claimed.allSatisfy { $0.utf8.count <= 255 })
        }
        #expect(work.isLinear, "\(work)")
    }
}
