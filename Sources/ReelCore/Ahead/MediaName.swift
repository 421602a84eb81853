/// Recognises media files by their names, before anything else is known of them.
package enum MediaName {
    /// By extension: films, then music.
    private static let types = [
        "3g2": "video/3gpp2", "3gp": "video/3gpp", "asf": "video/x-ms-asf", "avi": "video/x-msvideo",
        "divx": "video/x-msvideo", "flv": "video/x-flv", "m2ts": "video/mp2t", "m2v": "video/mpeg", "m4v": "video/mp4",
        "mkv": "video/x-matroska", "mov": "video/quicktime", "mp4": "video/mp4", "mpeg": "video/mpeg",
        "mpg": "video/mpeg", "mts": "video/mp2t", "mxf": "application/mxf", "ogm": "video/ogg", "ogv": "video/ogg",
        "rm": "application/vnd.rn-realmedia", "rmvb": "application/vnd.rn-realmedia-vbr", "ts": "video/mp2t",
        "vob": "video/mpeg", "webm": "video/webm", "wmv": "video/x-ms-wmv",
        "aac": "audio/aac", "ac3": "audio/ac3", "aif": "audio/aiff", "aiff": "audio/aiff", "alac": "audio/mp4",
        "ape": "audio/x-ape", "dsf": "audio/x-dsf", "dts": "audio/vnd.dts", "eac3": "audio/eac3", "flac": "audio/flac",
        "m4a": "audio/mp4", "m4b": "audio/mp4", "mka": "audio/x-matroska", "mp2": "audio/mpeg", "mp3": "audio/mpeg",
        "mpc": "audio/x-musepack", "oga": "audio/ogg", "ogg": "audio/ogg", "opus": "audio/ogg", "tta": "audio/x-tta",
        "wav": "audio/wav", "wma": "audio/x-ms-wma", "wv": "audio/x-wavpack",
    ]

    /// True for films and music: players open them at both ends, and play one after another.
    package static func isMedia(_ name: String) -> Bool { type(of: name) != nil }

    /// The media type of a film or music, `type/subtype`; nil for any other name.
    package static func type(of name: String) -> String? { types[fileExtension(name)] }

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
