import ReelCore

package enum PlaylistError: Error, Hashable, Sendable {
    /// Not of the format it was taken for: no XML, cut short, or with a document type of its own.
    case malformed
    /// An HLS playlist: the pieces of one stream, not files.
    case isStream
    /// More entries than `Playlist.mostEntries`, or over 2 GB.
    case tooLarge
    /// Its deadline had passed.
    case stopped
}

/// The files that a list names, in its order.
package struct Playlist: Sendable {
    package static let mostEntries = 1_000_000
    /// Bytes of a line, of a title or a location: a longer one is neither, and no such list is taken for plain text.
    static let longestLine = 64 << 10

    package let entries: EntryList
    package let skipped: Skipped

    /// Lines that name something, but nothing that can be fetched; to be told to whoever mounts the list.
    package struct Skipped: Hashable, Sendable {
        /// Relative entries of a list that came from no URL, such as a local file.
        package var relative = 0
        /// Other than http and https.
        package var otherScheme = 0
        /// Entries that hold no well-formed URL.
        package var malformed = 0

        package var count: Int { relative + otherScheme + malformed }

        /// One line for people, such as "2 entries left out: 2 relative paths in a list without a URL"; nil for none.
        package var reason: String? {
            let parts = [
                (relative, "relative to a list that has no URL"), (otherScheme, "neither http nor https"),
                (malformed, "no URL"),
            ].filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
            guard count > 0 else { return nil }
            return "\(count) \(count == 1 ? "entry" : "entries") left out: " + parts.joined(separator: ", ")
        }
    }

    /// - Parameters:
    ///   - body: the whole list; the caller bounds it.
    ///   - base: the URL of the list, against which relative entries resolve; nil for a local file, whose relative
    ///     entries cannot be fetched and are counted in `skipped`.
    ///   - isOver: asked every so often: true ends it with `.stopped`.
    package static func parse(
        _ body: [UInt8], format: PlaylistFormat, base: ResourceURL?, isOver: @escaping () -> Bool = { false }
    ) throws(PlaylistError) -> Playlist {
        guard body.count <= Int(Int32.max) else { throw .tooLarge }
        var tracks = PlaylistTracks(base, StopCheck(isOver))
        switch format {
        case .urls: try parseURLs(body, &tracks)
        case .m3u: try parseM3U(body, &tracks)
        case .pls: try parsePLS(body, &tracks)
        case .xspf: try parseXSPF(body, &tracks)
        }
        return Playlist(entries: tracks.entries.list(), skipped: tracks.skipped)
    }
}

/// One entry as it stands in a list.
struct PlaylistTrack {
    var locations: [String]
    var title: String?
}

/// Makes entries of a list's tracks, one by one.
struct PlaylistTracks {
    private(set) var entries = EntryList.Builder(limit: Playlist.mostEntries)
    private(set) var skipped = Playlist.Skipped()
    private let base: ResourceURL?
    private(set) var stop: StopCheck
    private var names = UniqueNames()

    init(_ base: ResourceURL?, _ stop: StopCheck) {
        self.base = base
        self.stop = stop
    }

    /// Called for each line or tag.
    mutating func step() throws(PlaylistError) {
        if stop.step() { throw .stopped }
    }

    /// A line that is no location for its length alone.
    mutating func skip() { skipped.malformed += 1 }

    mutating func add(_ track: PlaylistTrack) throws(PlaylistError) {
        guard entries.count + skipped.count < Playlist.mostEntries else { throw .tooLarge }
        var isRelative = false
        var url: ResourceURL?
        // The first location that can be fetched; XSPF may give several of one track.
        for location in track.locations where url == nil {
            let isAbsolute = hasScheme(location)
            isRelative = isRelative || !isAbsolute
            url = base?.resolve(location) ?? (isAbsolute ? ResourceURL(location) : nil)
        }
        if let url {
            let name = names.claim(name(of: track, url), beside: entries)
            entries.append(SourceEntry(name: name, url: url, isDirectory: false))
        } else if isRelative && base == nil {
            skipped.relative += 1
        } else if let location = track.locations.first, hasScheme(location), !isWebURL(Array(location.utf8)[...]) {
            skipped.otherScheme += 1
        } else {
            skipped.malformed += 1
        }
    }

    /// The title, with the URL's extension where it has none of it; else what the URL ends in; else its host.
    private func name(of track: PlaylistTrack, _ url: ResourceURL) -> String {
        guard let title = track.title, !title.isEmpty else {
            let segment = url.lastSegment
            return SafeName.make(segment.isEmpty ? Array(url.host.utf8) : segment)
        }
        let suffix = url.fileExtension
        // Longer ones, or with other signs, are no extensions but a part of an identifier that has a dot.
        let isExtension =
            (1...8).contains(suffix.utf8.count)
            && suffix.utf8.allSatisfy { $0 >= 0x30 && isSegmentByte($0) && $0 < 0x7B }
        let end = asciiLowercased(String(decoding: title.utf8.suffix(suffix.utf8.count + 1), as: UTF8.self))
        let hasIt = end.utf8.elementsEqual(("." + suffix).utf8)
        return SafeName.make(Array((isExtension && !hasIt ? title + "." + suffix : title).utf8))
    }
}

/// True where the location starts with a scheme (RFC 3986): it is then no relative path. `C:\` counts, as no file of
/// another computer's drive can be fetched.
private func hasScheme(_ location: String) -> Bool {
    let bytes = location.utf8
    guard let colon = bytes.firstIndex(where: { "/?#:".utf8.contains($0) }), bytes[colon] == 0x3A,
        let first = bytes.first,
        (first | 0x20) >= 0x61, (first | 0x20) <= 0x7A
    else { return false }
    return bytes[..<colon].allSatisfy { byte in
        (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x7A) || "+-.".utf8.contains(byte)
    }
}
