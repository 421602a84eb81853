import ReelCore

/// Names that a Linux filesystem can hold and a terminal can show.
///
/// A byte that may not stand in a name is written as `%XX`, as a URL would write it: `/` becomes `%2F`, NUL `%00`, a
/// newline `%0A`, a byte that is no UTF-8 `%FC`. `%` itself stays, so ordinary names are untouched; where that makes
/// two names alike, `UniqueNames` keeps them apart. `.` becomes `%2E`, `..` becomes `%2E%2E`, no name at all `unnamed`.
/// A name over 255 bytes loses the end of its stem: what is left, `~`, eight hex digits of its hash, its extension.
package enum SafeName {
    /// NAME_MAX of Linux, in bytes.
    package static let longest = 255
    /// Longer "extensions" are the end of a sentence, not worth keeping.
    private static let longestExtension = 32

    /// - Parameter bytes: the name as the origin has it, decoded.
    package static func make(_ bytes: some Collection<UInt8>) -> String {
        if isPlain(bytes) { return String(decoding: bytes, as: UTF8.self) }
        if bytes.isEmpty { return "unnamed" }
        if bytes.count <= 2, bytes.allSatisfy({ $0 == 0x2E }) { return bytes.count == 1 ? "%2E" : "%2E%2E" }
        let name = shown(Array(bytes))
        return name.utf8.count <= longest ? name : shortened(name, to: longest, hash: hash(bytes))
    }

    /// Whether it is printable ASCII that can stand as it is: so nearly every name is.
    static func isPlain(_ bytes: some Collection<UInt8>) -> Bool {
        (1...longest).contains(bytes.count) && bytes.allSatisfy { $0 >= 0x20 && $0 < 0x7F && $0 != 0x2F }
            && (bytes.count > 2 || !bytes.allSatisfy { $0 == 0x2E })
    }

    /// Cuts the stem of `name` so that it fits, on the border of a character, and marks it with `hash`.
    static func shortened(_ name: String, to limit: Int, hash: UInt32) -> String {
        let (stem, suffix) = split(name)
        let digits = String(hash, radix: 16)
        let mark = "~" + String(repeating: "0", count: 8 - digits.utf8.count) + digits
        return prefix(of: stem, bytes: limit - mark.utf8.count - suffix.utf8.count) + mark + suffix
    }

    /// The name before its extension, and the extension with its dot; empty where there is none.
    static func split(_ name: String) -> (stem: Substring, suffix: Substring) {
        guard let dot = name.utf8.lastIndex(of: 0x2E), dot != name.startIndex,
            name.utf8.distance(from: dot, to: name.endIndex) <= longestExtension
        else { return (name[...], "") }
        return (name[..<dot], name[dot...])
    }

    /// FNV-1a folded to 32 bits. Not xxHash: a name that was once given must not change with the hash, and these three
    /// lines need no library.
    static func hash(_ bytes: some Sequence<UInt8>) -> UInt32 {
        var state: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in bytes { state = (state ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return UInt32(truncatingIfNeeded: state ^ (state >> 32))
    }

    /// Returns as many whole characters as fit into that many bytes; of a first character that does not fit (a letter
    /// under a tower of marks) as many of its scalars as do.
    private static func prefix(of text: Substring, bytes limit: Int) -> String {
        func fitting<Pieces: Collection>(_ pieces: Pieces, _ count: (Pieces.Element) -> Int) -> Pieces.SubSequence {
            var left = limit
            return pieces.prefix { piece in
                left -= count(piece)
                return left >= 0
            }
        }
        let characters = fitting(text) { $0.utf8.count }
        return characters.isEmpty
            ? String(fitting(text.unicodeScalars) { UTF8.width($0) }) : String(characters)
    }

    private static func shown(_ bytes: [UInt8]) -> String {
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count + 8)
        var parser = Unicode.UTF8.ForwardParser()
        var (place, next) = (0, bytes.makeIterator())
        while true {
            var (count, isShown) = (0, false)
            switch parser.parseScalar(from: &next) {
            case .valid(let character):
                let value = UTF8.decode(character).value
                let isControl = value < 0x20 || (0x7F..<0xA0).contains(value)
                (count, isShown) = (character.count, !isControl && value != 0x2F)
            case .error(let length): count = length
            case .emptyInput: return String(decoding: result, as: UTF8.self)
            }
            for byte in bytes[place..<place + count] {
                if isShown { result.append(byte) } else { appendEscape(of: byte, to: &result) }
            }
            place += count
        }
    }
}

/// Gives each of a directory's entries a name of its own: the second `film.mp4` becomes `film (2).mp4`, in the order in
/// which they come. Names that differ only in how Unicode composes them count as one, as they look the same and as a
/// Swift dictionary takes them for the same.
package struct UniqueNames {
    /// What ASCII cannot write; of the others the entries themselves know.
    private var taken: Set<String> = []
    /// The next number to try, so that a million equal titles take no quadratic time.
    private var numbers: [String: Int] = [:]

    package init() {}

    /// - Parameters:
    ///   - name: one that `SafeName` made.
    ///   - entries: with the names that were claimed before; this one is to be the next in it.
    package mutating func claim(_ name: String, beside entries: EntryList.Builder) -> String {
        if take(name, entries) { return name }
        let (stem, suffix) = SafeName.split(name)
        var number = numbers[name] ?? 2
        while true {
            let mark = " (\(number))"
            number += 1
            var candidate = stem + mark + suffix
            if candidate.utf8.count > SafeName.longest {
                let hash = SafeName.hash(candidate.utf8)
                let room = SafeName.longest - mark.utf8.count
                // Not split again: where the name has no suffix, what looks like one may hold the hash.
                let short = SafeName.shortened(name, to: room, hash: hash).utf8.dropLast(suffix.utf8.count)
                candidate = Substring(short) + mark + suffix
            }
            if take(String(candidate), entries) {
                numbers[name] = number
                return String(candidate)
            }
        }
    }

    private mutating func take(_ name: String, _ entries: EntryList.Builder) -> Bool {
        let bytes = Array(name.utf8)
        return bytes.allSatisfy { $0 < 0x80 } ? entries.place(of: bytes) == nil : taken.insert(name).inserted
    }
}
