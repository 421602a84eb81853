/// Reads an XML document that comes in pieces: a `MarkupReader` reads what has come, except for the tag or text that it
/// ends in. The handler gets the same calls however the document is cut.
///
/// What was cut is read again from its beginning, and not before as much again has come: so a byte is read three times
/// at most, in pieces of any length, and no more of the document is in memory than a piece and what the one before it
/// ended in.
struct MarkupStream: Sendable {
    /// What came and was not read.
    private var bytes: [UInt8] = []
    /// With this many of them they are read.
    private var enough = 0
    private let language: MarkupReader.Language

    /// Bytes of a tag, or of a text between two, that a reader has to wait for. No document that matters has such ones.
    static let longest = 1 << 20

    init(_ language: MarkupReader.Language) { self.language = language }

    var unread: Int { bytes.count }

    /// - Returns: false where a tag or a text is too long.
    mutating func take(_ piece: [UInt8], _ handler: inout some MarkupHandler) -> Bool {
        bytes += piece
        if bytes.count >= enough || bytes.count > Self.longest { finish(&handler) }
        return bytes.count <= Self.longest
    }

    /// Reads what waits for more, as no more comes.
    mutating func finish(_ handler: inout some MarkupHandler) {
        // A piece is short: it need not be stopped.
        var reader = MarkupReader(bytes[...], language, isPart: true, StopCheck { false })
        _ = reader.read(&handler)
        bytes = Array(reader.rest)
        enough = 2 * bytes.count
    }
}
