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
        // Nearly every name is printable ASCII, which needs nothing.
        if bytes.allSatisfy({ $0 >= 0x20 && $0 < 0x7F && $0 != 0x2F }) {
            switch bytes.count {
            case 0: return "unnamed"
            case 1 where bytes.first == 0x2E: return "%2E"
            case 2 where bytes.allSatisfy({ $0 == 0x2E }): return "%2E%2E"
            case ...longest: return String(decoding: bytes, as: UTF8.self)
            default: break
            }
        }
        let name = shown(Array(bytes))
        return name.utf8.count <= longest ? name : shortened(name, to: longest, hash: hash(bytes))
    }

    /// Cuts the stem of `name` so that it fits, on the border of a character, and marks it with `hash`.
    static func shortened(_ name: String, to limit: Int, hash: UInt32) -> String {
        let (stem, suffix) = split(name)
        let mark = "~" + hex(hash)
        return prefix(of: stem, bytes: limit - mark.utf8.count - suffix.utf8.count) + mark + suffix
    }

    /// The name before its extension, and the extension with its dot; empty where there is none.
    static func split(_ name: String) -> (stem: Substring, suffix: Substring) {
        guard let dot = name.utf8.lastIndex(of: 0x2E), dot != name.startIndex,
            name.utf8.distance(from: dot, to: name.endIndex) <= longestExtension
        else { return (name[...], "") }
        return (name[..<dot], name[dot...])
    }

    /// FNV-1a folded to 32 bits: short, and the same on every machine and in every version.
    static func hash(_ bytes: some Sequence<UInt8>) -> UInt32 {
        var state: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in bytes { state = (state ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return UInt32(truncatingIfNeeded: state ^ (state >> 32))
    }

    /// As many whole characters as fit into that many bytes; of a first character that does not fit (a letter under a
    /// tower of marks) as many of its scalars as do.
    private static func prefix(of text: Substring, bytes limit: Int) -> String {
        var left = limit
        var end = text.startIndex
        while end < text.endIndex {
            let next = text.index(after: end)
            let count = text[end..<next].utf8.count
            if count > left { break }
            left -= count
            end = next
        }
        guard end == text.startIndex else { return String(text[..<end]) }
        var result = ""
        for scalar in text.unicodeScalars {
            left -= String(scalar).utf8.count
            if left < 0 { break }
            result.unicodeScalars.append(scalar)
        }
        return result
    }

    private static func shown(_ bytes: [UInt8]) -> String {
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count + 8)
        var index = 0
        while index < bytes.count {
            let count = utf8Length(bytes[index...])
            let isControl =
                bytes[index] < 0x20 || bytes[index] == 0x7F || (bytes[index] == 0xC2 && bytes[safe: index + 1] < 0xA0)
            if count == 0 || isControl || bytes[index] == 0x2F {
                for byte in bytes[index..<index + max(count, 1)] { appendEscape(of: byte, to: &result) }
            } else {
                result.append(contentsOf: bytes[index..<index + count])
            }
            index += max(count, 1)
        }
        return String(decoding: result, as: UTF8.self)
    }

    private static func hex(_ value: UInt32) -> String {
        let text = String(value, radix: 16)
        return String(repeating: "0", count: 8 - text.utf8.count) + text
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
                let (short, _) = SafeName.split(SafeName.shortened(name, to: room, hash: hash))
                candidate = short + mark + suffix
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
