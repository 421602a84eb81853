import ReelCore

/// An HLS playlist (RFC 8216): a master playlist names variants, a media playlist the pieces of one.
package struct HLSPlaylist: Sendable {
    /// A day of segments of two seconds has 43,200.
    package static let mostPieces = 50_000
    /// Ladders have ten steps or so, each in a few codecs and with a few sounds.
    static let mostVariants = 100

    /// One line of a master playlist.
    package struct Variant: Sendable {
        package let url: ResourceURL
        /// Made of resolution and bandwidth: `1920x1080 5800k`.
        package let title: String
        /// Whether its sound is another playlist.
        package let hasSeparateSound: Bool
    }

    /// The pieces of a media playlist, in their order; those that follow each other in one resource are one.
    package internal(set) var pieces: [PieceList.Piece] = []
    /// The variants of a master playlist, each URL once.
    package internal(set) var variants: [Variant] = []
    /// Why a media playlist is no file of exact length: `it is live (no EXT-X-ENDLIST)`, nil if it is one.
    package internal(set) var obstacle: String?
    /// No EXT-X-ENDLIST: more segments are to come, and the first ones may go.
    package internal(set) var isGrowing = false
    /// The file's extension: `ts`.
    package internal(set) var fileExtension = "ts"
    /// The signatures of URLs that were signed, by the URLs without their signatures, which the pieces have.
    var signatures: [String: QuerySignature] = [:]
    /// The origins of all URLs; empty unless the playlist is on the disk.
    var namedOrigins: Set<String> = []

    package var isMaster: Bool { !variants.isEmpty }

    package var mediaType: String {
        switch fileExtension {
        case "mp4": "video/mp4"
        case "aac": "audio/aac"
        case "mp3": "audio/mpeg"
        case "ac3": "audio/ac3"
        case "ec3": "audio/eac3"
        default: "video/mp2t"
        }
    }

    /// - Parameters:
    ///   - body: the whole playlist.
    ///   - base: its URL after redirects, against which the URIs resolve, nil if on the disk, where all must be
    ///     absolute.
    ///   - mayGrow: one that has no end is no obstacle.
    ///   - isOver: asked every so often: true ends it with `.stopped`.
    package static func parse(
        _ body: [UInt8], base: ResourceURL?, mayGrow: Bool = false, isOver: @escaping () -> Bool = { false }
    ) throws(SourceRefusal) -> HLSPlaylist {
        var reading = HLSReading(base, mayGrow: mayGrow)
        var stop = StopCheck(isOver)
        let text = withoutByteOrderMark(body)
        guard isPlaylist(text) else { throw .foreign("it is no HLS playlist") }
        for line in lines(of: text) where !line.isEmpty {
            if stop.step() { throw .stopped }
            if line.count > Playlist.longestLine { continue }
            line.first == UInt8(ascii: "#") ? reading.tag(line) : reading.location(listText(line))
        }
        return try reading.end()
    }

    static func isPlaylist(_ text: ArraySlice<UInt8>) -> Bool {
        trimmedBytes(text.prefix(1024)).starts(with: "#EXTM3U".utf8) && PlaylistFormat.isStream(text)
    }
}
