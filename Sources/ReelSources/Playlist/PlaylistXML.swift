import ReelCore

/// XSPF (xspf.org, version 1). A document with a document type of its own is refused: XSPF has none, and entities are
/// declared nowhere else, so neither files nor a billion laughs can come in.
func parseXSPF(_ text: ArraySlice<UInt8>, _ tracks: inout PlaylistTracks) throws(SourceRefusal) {
    var reading = XSPFReading(tracks)
    var reader = MarkupReader(text, .xml, tracks.stop)
    let isRead = reader.read(&reading)
    if let failure = reading.failure { throw failure }
    guard isRead else { throw .stopped }
    guard reading.isWhole else { throw .noXSPF }
    tracks = reading.tracks
}

private final class XSPFReading: MarkupHandler {
    private(set) var tracks: PlaylistTracks
    private(set) var failure: SourceRefusal?
    /// The end of the root was seen: nothing was cut off.
    private(set) var isWhole = false
    private var path: [String] = []
    private var value: [UInt8]?
    private var track: PlaylistTrack?

    /// The most elements inside each other, extensions among them.
    private static let deepest = 64

    init(_ tracks: PlaylistTracks) { self.tracks = tracks }

    var isDone: Bool { failure != nil }

    func documentType() { failure = .noXSPF }

    func start(_ name: String, _: MarkupAttributes) {
        path.append(name)
        if path == ["playlist", "trackList", "track"] { track = PlaylistTrack(locations: []) }
        value = track != nil && path.count == 4 ? [] : nil
        if path.count == 1 && name != "playlist" || path.count > Self.deepest { failure = .noXSPF }
    }

    func end(_ name: String) {
        if let value {
            let text = listText(trimmedBytes(value[...]))
            if path.last == "location", !text.isEmpty { track?.locations.append(text) }
            if path.last == "title", track?.title == nil { track?.title = text }
        }
        value = nil
        if path.count == 3, let track {
            if !track.locations.isEmpty { add(track) }
            self.track = nil
        }
        if !path.isEmpty { path.removeLast() }
        isWhole = path.isEmpty
    }

    func text(_ bytes: ArraySlice<UInt8>) {
        if let count = value?.count, count < Playlist.longestLine { value?.append(contentsOf: bytes) }
    }

    private func add(_ track: PlaylistTrack) {
        do throws(SourceRefusal) {
            try tracks.add(track)
        } catch {
            failure = error
        }
    }
}
