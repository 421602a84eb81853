import ReelCore

/// A URL a line; what starts with `#` is a comment.
func parseURLs(_ body: [UInt8], _ tracks: inout PlaylistTracks) throws(PlaylistError) {
    for line in lines(of: withoutByteOrderMark(body)) {
        try tracks.step()
        if line.isEmpty || line.first == UInt8(ascii: "#") { continue }
        if line.count > Playlist.longestLine {
            tracks.skip()
        } else {
            try tracks.add(PlaylistTrack(locations: [String(decoding: line, as: UTF8.self)]))
        }
    }
}

/// A location a line; `#EXTINF:seconds attributes,title` before it gives its title. Other `#` lines are comments.
///
/// Where no tag has said that this is M3U, a line counts only if it looks like a location: a notice that is sent in the
/// list's place with status 200 names no files.
func parseM3U(_ body: [UInt8], _ tracks: inout PlaylistTracks) throws(PlaylistError) {
    let text = withoutByteOrderMark(body)
    guard !PlaylistFormat.isStream(text) else { throw .isStream }
    let decode = decoder(for: text)
    var title: String?
    var isTagged = false
    for line in lines(of: text) where !line.isEmpty {
        try tracks.step()
        if line.first != UInt8(ascii: "#") {
            if line.count > Playlist.longestLine {
                tracks.skip()
            } else if isTagged || isWebURL(line) || PlaylistFormat.isPath(line) || PlaylistFormat.isMediaName(line) {
                try tracks.add(PlaylistTrack(locations: [decode(line)], title: title))
            } else {
                continue
            }
            title = nil
            continue
        }
        let tag = asciiLowercased(String(decoding: line.prefix(8), as: UTF8.self))
        // The title of a line with pictures in its attributes may stand far behind.
        if tag == "#extinf:" { title = titleBytes(line.dropFirst(8)).map { decode($0.prefix(Playlist.longestLine)) } }
        isTagged = isTagged || tag == "#extinf:" || tag.hasPrefix("#extm3u")
    }
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
func parsePLS(_ body: [UInt8], _ tracks: inout PlaylistTracks) throws(PlaylistError) {
    let text = withoutByteOrderMark(body)
    let decode = decoder(for: text)
    var files: [PLSLine] = []
    var titles: [PLSLine] = []
    for line in lines(of: text) {
        try tracks.step()
        guard line.count <= Playlist.longestLine, let equals = line.firstIndex(of: UInt8(ascii: "=")) else { continue }
        let key = trimmedBytes(line[..<equals])
        let value = trimmedBytes(line[(equals + 1)...])
        if value.isEmpty { continue }
        let letters = key.prefix { !(0x30...0x39).contains($0) }
        guard let number = decimal(key[letters.endIndex...]) else { continue }
        switch asciiLowercased(String(decoding: letters, as: UTF8.self)) {
        case "file": files.append(PLSLine(number, value))
        case "title": titles.append(PLSLine(number, value))
        default: continue
        }
        guard max(files.count, titles.count) <= Playlist.mostEntries else { throw .tooLarge }
    }
    files.sort()
    titles.sort()
    var last: Int64?
    var title = 0
    for file in files where file.number != last {
        try tracks.step()
        // A number given twice: the first stands.
        last = file.number
        while title < titles.count, titles[title].number < file.number { title += 1 }
        let isTitled = title < titles.count && titles[title].number == file.number
        try tracks.add(
            PlaylistTrack(
                locations: [decode(body[file.value])], title: isTitled ? decode(body[titles[title].value]) : nil))
    }
}

/// One of a million: its number, and where its value stands in the body.
private struct PLSLine: Comparable {
    let number: Int64
    private let start: UInt32
    private let end: UInt32

    init(_ number: Int64, _ value: ArraySlice<UInt8>) {
        self.number = number
        (start, end) = (UInt32(value.startIndex), UInt32(value.endIndex))
    }

    var value: Range<Int> { Int(start)..<Int(end) }

    static func < (one: PLSLine, other: PLSLine) -> Bool { (one.number, one.start) < (other.number, other.start) }
}

/// UTF-8 where the whole text is UTF-8, else Latin-1, which M3U was before.
private func decoder(for text: ArraySlice<UInt8>) -> (ArraySlice<UInt8>) -> String {
    if isUTF8(text) { return { String(decoding: $0, as: UTF8.self) } }
    return latin1
}

/// In place: as a string, a text of 64 MiB would be in memory once more.
private func isUTF8(_ text: ArraySlice<UInt8>) -> Bool {
    var rest = text
    while let first = rest.firstIndex(where: { $0 >= 0x80 }) {
        let count = utf8Length(rest[first...])
        if count == 0 { return false }
        rest = rest[(first + count)...]
    }
    return true
}

func latin1(_ bytes: ArraySlice<UInt8>) -> String {
    var result = ""
    for byte in bytes { result.unicodeScalars.append(Unicode.Scalar(byte)) }
    return result
}
