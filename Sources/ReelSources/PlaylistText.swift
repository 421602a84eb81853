import ReelCore

/// A URL a line; what starts with `#` is a comment.
func parseURLs(_ body: [UInt8]) -> [PlaylistTrack] {
    lines(of: withoutByteOrderMark(body)).compactMap { line in
        line.isEmpty || line.first == UInt8(ascii: "#")
            ? nil : PlaylistTrack(locations: [String(decoding: line, as: UTF8.self)])
    }
}

/// A location a line; `#EXTINF:seconds attributes,title` before it gives its title. Other `#` lines are comments.
///
/// Where no tag has said that this is M3U, a line counts only if it looks like a location: a notice that is sent in the
/// list's place with status 200 names no files.
func parseM3U(_ body: [UInt8]) throws(PlaylistError) -> [PlaylistTrack] {
    let text = withoutByteOrderMark(body)
    guard !PlaylistFormat.isStream(text) else { throw .isStream }
    let decode = decoder(for: text)
    var tracks: [PlaylistTrack] = []
    var title: String?
    var isTagged = false
    for line in lines(of: text) where !line.isEmpty {
        if line.first != UInt8(ascii: "#") {
            guard isTagged || isWebURL(line) || PlaylistFormat.isPath(line) || PlaylistFormat.isMediaName(line) else {
                continue
            }
            tracks.append(PlaylistTrack(locations: [decode(line)], title: title))
            title = nil
            continue
        }
        let tag = asciiLowercased(String(decoding: line.prefix(8), as: UTF8.self))
        if tag == "#extinf:" { title = titleBytes(line.dropFirst(8)).map(decode) }
        isTagged = isTagged || tag == "#extinf:" || tag.hasPrefix("#extm3u")
    }
    return tracks
}

/// What follows the first comma that no quotes enclose: `-1 group="a, b",Title`.
private func titleBytes(_ line: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
    var isQuoted = false
    for index in line.indices {
        if line[index] == UInt8(ascii: "\"") { isQuoted.toggle() }
        if line[index] == UInt8(ascii: ","), !isQuoted { return trimmedBytes(line[(index + 1)...]) }
    }
    return nil
}

/// `FileN=` and `TitleN=` in any order and case; entries in the order of their numbers. `LengthN` is in seconds.
func parsePLS(_ body: [UInt8]) -> [PlaylistTrack] {
    let text = withoutByteOrderMark(body)
    let decode = decoder(for: text)
    var files: [Int64: String] = [:]
    var titles: [Int64: String] = [:]
    for line in lines(of: text) {
        guard let equals = line.firstIndex(of: UInt8(ascii: "=")) else { continue }
        let key = asciiLowercased(trimmed(String(decoding: line[..<equals], as: UTF8.self)))
        let value = trimmedBytes(line[(equals + 1)...])
        if value.isEmpty { continue }
        // A number given twice: the first stands.
        if key.hasPrefix("file"), let number = decimal(String(key.dropFirst(4))) {
            files[number] = files[number] ?? decode(value)
        } else if key.hasPrefix("title"), let number = decimal(String(key.dropFirst(5))) {
            titles[number] = titles[number] ?? decode(value)
        }
    }
    return files.keys.sorted().map { PlaylistTrack(locations: [files[$0]!], title: titles[$0]) }
}

/// UTF-8 where the whole text is UTF-8, else Latin-1, which M3U was before.
private func decoder(for text: ArraySlice<UInt8>) -> (ArraySlice<UInt8>) -> String {
    if String(validating: text, as: UTF8.self) != nil { return { String(decoding: $0, as: UTF8.self) } }
    return { bytes in
        var result = ""
        for byte in bytes { result.unicodeScalars.append(Unicode.Scalar(byte)) }
        return result
    }
}
