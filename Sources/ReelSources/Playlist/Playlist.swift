import ReelCore

/// The files that a list names, in its order.
package struct Playlist: Sendable {
    package static let mostEntries = 1_000_000
    /// Bytes of a line, of a title or a location: a longer one is neither, and no such list is taken for plain text.
    static let longestLine = 64 << 10

    package let entries: EntryList
    package let skipped: Skipped
    /// The signatures of entries whose URLs were signed, and the logins in URLs, by the URLs without their signatures,
    /// which the entries have.
    let signatures: [String: QuerySignature]
    /// The origins of the entries; empty unless the list is on the disk.
    let namedOrigins: Set<String>

    /// Lines that name something, but nothing that can be fetched; reported to the user who mounts the list.
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
    ///   - body: the whole list, of `SourceAnswer.limit` bytes at most.
    ///   - base: the URL of the list, against which relative entries resolve; nil for a local file, whose relative
    ///     entries cannot be fetched and are counted in `skipped`.
    ///   - isOver: asked every so often: true ends it with `.stopped`.
    package static func parse(
        _ body: [UInt8], format: PlaylistFormat, base: ResourceURL?, isOver: @escaping () -> Bool = { false }
    ) throws(SourceRefusal) -> Playlist {
        var tracks = PlaylistTracks(base, StopCheck(isOver))
        try format.row.parse(withoutByteOrderMark(body), &tracks)
        return Playlist(
            entries: tracks.entries.list(), skipped: tracks.skipped, signatures: tracks.signatures,
            namedOrigins: tracks.namedOrigins)
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
    private(set) var signatures: [String: QuerySignature] = [:]
    private(set) var namedOrigins: Set<String> = []
    private let base: ResourceURL?
    private(set) var stop: StopCheck
    private var names = UniqueNames()

    init(_ base: ResourceURL?, _ stop: StopCheck) {
        self.base = base
        self.stop = stop
    }

    /// Called for each line or tag.
    mutating func step() throws(SourceRefusal) {
        if stop.step() { throw .stopped }
    }

    /// A line that is no location for its length alone.
    mutating func skip() { skipped.malformed += 1 }

    mutating func add(_ track: PlaylistTrack) throws(SourceRefusal) {
        guard entries.count + skipped.count < Playlist.mostEntries else { throw .tooManyTracks }
        // The first location that can be fetched; XSPF may give several of one track.
        if let url = track.locations.lazy.compactMap({ [base] in base?.resolve($0) ?? ResourceURL($0) }).first {
            let name = names.claim(
                titledName(track.title ?? "", extension: mediaExtension(of: url), at: url), beside: entries)
            let (bare, signature) = QuerySignature.apart(url, of: base)
            if let signature { signatures[bare.text] = signature }
            if base == nil { namedOrigins.insert(url.origin) }
            entries.append(SourceEntry(name: name, url: bare, isDirectory: false))
            return
        }
        // A path such as `C:\film.mkv` has a scheme, too: of another computer's drive nothing can be fetched.
        let locations = track.locations.map { Array($0.utf8)[...] }
        if base == nil, locations.contains(where: { URLParts.scheme(of: $0) == nil }) {
            skipped.relative += 1
        } else if let first = locations.first, URLParts.scheme(of: first) != nil, !isWebURL(first) {
            skipped.otherScheme += 1
        } else {
            skipped.malformed += 1
        }
    }
}
