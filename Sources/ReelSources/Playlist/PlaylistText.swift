import ReelCore

/// A URL a line; what starts with `#` is a comment.
func parseURLs(_ text: ArraySlice<UInt8>, _ tracks: inout PlaylistTracks) throws(SourceRefusal) {
    for line in lines(of: text) {
        try tracks.step()
        if line.isEmpty || line.first == UInt8(ascii: "#") { continue }
        if line.count > Playlist.longestLine {
            tracks.skip()
        } else {
            try tracks.add(PlaylistTrack(locations: [listText(line)]))
        }
    }
}

/// A location a line; `#EXTINF:seconds attributes,title` before it gives its title. Other `#` lines are comments.
///
/// Where no tag has said that this is M3U, a line counts only if it looks like a location: a notice that is sent in the
/// list's place with status 200 names no files.
func parseM3U(_ text: ArraySlice<UInt8>, _ tracks: inout PlaylistTracks) throws(SourceRefusal) {
    guard !PlaylistFormat.isStream(text) else { throw .isStream }
    var title: String?
    var isTagged = false
    for line in lines(of: text) where !line.isEmpty {
        try tracks.step()
        if line.first != UInt8(ascii: "#") {
            if line.count > Playlist.longestLine {
                tracks.skip()
            } else if isTagged || isLocation(line) {
                try tracks.add(PlaylistTrack(locations: [listText(line)], title: title))
            } else {
                continue
            }
            title = nil
            continue
        }
        let tag = asciiLowercased(line.prefix(8))
        if tag == "#extinf:" { title = titleBytes(line.dropFirst(8)).map(listText) }
        isTagged = isTagged || tag == "#extinf:" || tag.hasPrefix("#extm3u")
    }
}

/// A URL or a path, or a name that ends as media files do; before that there may be blanks, as in prose.
private func isLocation(_ line: ArraySlice<UInt8>) -> Bool {
    isWebURL(line) || PlaylistFormat.isPath(line) || MediaName.isMedia(String(decoding: line, as: UTF8.self))
}

/// What follows the first comma that no quotes enclose: `-1 group="a, b",Title`.
private func titleBytes(_ line: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
    var isQuoted = false
    for index in line.indices {
        if line[index] == UInt8(ascii: "\"") { isQuoted.toggle() }
        if line[index] == UInt8(ascii: ","), !isQuoted {
            // Pictures in the attributes may make the line long, but not the title.
            let title = trimmedBytes(line[(index + 1)...])
            return title.count <= Playlist.longestLine ? title : nil
        }
    }
    return nil
}

/// `FileN=` and `TitleN=` in any order and case; entries in the order of their numbers. `LengthN` is in seconds.
func parsePLS(_ text: ArraySlice<UInt8>, _ tracks: inout PlaylistTracks) throws(SourceRefusal) {
    // By their numbers, where the values stand.
    var files: [Int64: Range<Int>] = [:]
    var titles = files
    for line in lines(of: text) {
        try tracks.step()
        guard line.count <= Playlist.longestLine, let equals = line.firstIndex(of: UInt8(ascii: "=")) else { continue }
        let key = trimmedBytes(line[..<equals])
        let value = trimmedBytes(line[(equals + 1)...])
        let letters = key.prefix { !isDigit($0) }
        guard !value.isEmpty, let number = decimal(key[letters.endIndex...]) else { continue }
        // Of a number given twice the first value stands.
        switch asciiLowercased(letters) {
        case "file": files[number] = files[number] ?? value.indices
        case "title": titles[number] = titles[number] ?? value.indices
        default: continue
        }
        guard max(files.count, titles.count) <= Playlist.mostEntries else { throw .tooManyTracks }
    }
    for (number, file) in files.sorted(by: { $0.key < $1.key }) {
        try tracks.step()
        let title = titles[number].map { listText(text[$0]) }
        try tracks.add(PlaylistTrack(locations: [listText(text[file])], title: title))
    }
}

/// A piece of a list as text: UTF-8 where it is UTF-8, else Latin-1, which M3U was before.
func listText(_ bytes: ArraySlice<UInt8>) -> String {
    if let text = String(validating: bytes, as: UTF8.self) { return text }
    var text = ""
    for byte in bytes { text.unicodeScalars.append(Unicode.Scalar(byte)) }
    return text
}
