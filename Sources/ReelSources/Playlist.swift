import ReelCore

package enum PlaylistError: Error, Hashable, Sendable {
    /// Not of the format it was taken for: no XML, cut short, or with a document type of its own.
    case malformed
    /// An HLS playlist: the pieces of one stream, not files.
    case isStream
    /// More entries than `Playlist.mostEntries`, or over 2 GB.
    case tooLarge
}

/// The files that a list names, in its order.
package struct Playlist: Sendable {
    package static let mostEntries = 1_000_000

    package var entries: [SourceEntry] = []
    package var skipped = Skipped()

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
    package static func parse(
        _ body: [UInt8], format: PlaylistFormat, base: ResourceURL?
    ) throws(PlaylistError) -> Playlist {
        guard body.count <= Int(Int32.max) else { throw .tooLarge }
        let tracks: [PlaylistTrack]
        switch format {
        case .urls: tracks = parseURLs(body)
        case .m3u: tracks = try parseM3U(body)
        case .pls: tracks = parsePLS(body)
        case .xspf: tracks = try parseXSPF(body)
        }
        guard tracks.count <= mostEntries else { throw .tooLarge }
        var playlist = Playlist()
        var names = UniqueNames()
        playlist.entries.reserveCapacity(tracks.count)
        for track in tracks { playlist.append(track, base, &names) }
        return playlist
    }

    private mutating func append(_ track: PlaylistTrack, _ base: ResourceURL?, _ names: inout UniqueNames) {
        var isRelative = false
        // The first location that can be fetched; XSPF may give several of one track.
        let url = track.locations.lazy.compactMap { (location: String) -> ResourceURL? in
            if hasScheme(location) { return base?.resolve(location) ?? ResourceURL(location) }
            isRelative = true
            return base?.resolve(location)
        }.first
        if let url {
            entries.append(SourceEntry(name: names.claim(name(of: track, url)), url: url, isDirectory: false))
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
        let hasIt = asciiLowercased(title).hasSuffix("." + suffix)
        return SafeName.make(Array((isExtension && !hasIt ? title + "." + suffix : title).utf8))
    }
}

/// One entry as it stands in a list.
struct PlaylistTrack {
    var locations: [String]
    var title: String?
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
