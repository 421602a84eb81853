/// Tells media files by their names, before anything else is known of them.
package enum MediaName {
    private static let extensions: Set<String> = [
        "3g2", "3gp", "asf", "avi", "divx", "flv", "m2ts", "m2v", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg", "mts",
        "mxf", "ogm", "ogv", "rm", "rmvb", "ts", "vob", "webm", "wmv",
        "aac", "ac3", "aif", "aiff", "alac", "ape", "dsf", "dts", "eac3", "flac", "m4a", "m4b", "mka", "mp2", "mp3",
        "mpc", "oga", "ogg", "opus", "tta", "wav", "wma", "wv",
    ]

    /// True for films and music: players open them at both ends, and play one after another.
    package static func isMedia(_ name: String) -> Bool { extensions.contains(fileExtension(name)) }

    /// The order in which players and people see names: letters without their case, numbers by their value.
    package static func precedes(_ one: String, _ other: String) -> Bool {
        var left = Array(asciiLowercased(one).utf8)[...]
        var right = Array(asciiLowercased(other).utf8)[...]
        while let first = left.first, let second = right.first {
            if isDigit(first), isDigit(second) {
                let (a, b) = (takeNumber(&left), takeNumber(&right))
                if a.count != b.count { return a.count < b.count }
                if !a.elementsEqual(b) { return a.lexicographicallyPrecedes(b) }
            } else if first != second {
                return first < second
            } else {
                left.removeFirst()
                right.removeFirst()
            }
        }
        if left.isEmpty != right.isEmpty { return left.isEmpty }
        return one < other
    }

    /// Takes a number. - Returns: its digits without leading zeros.
    private static func takeNumber(_ text: inout ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let digits = text.prefix(while: isDigit)
        text = text.dropFirst(digits.count)
        return digits.drop { $0 == 0x30 }
    }
}
