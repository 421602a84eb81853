import ReelCore

/// The first bytes of a file, and where they came from.
package struct FileBeginning: Sendable {
    /// Where redirects have led.
    let url: ResourceURL
    let mediaType: String?
    let bytes: [UInt8]

    /// Enough bytes to distinguish all of the formats below.
    package static let length = 64

    /// - Parameter bytes: at most this many.
    package init(_ head: ResponseHead, _ bytes: [UInt8]) {
        url = head.url
        mediaType = head.mediaType
        self.bytes = bytes
    }

    /// The extension by which players know such a file: by media type, else address, else bytes; nil if none gives it.
    var fileExtension: String? {
        if let told = mediaType.flatMap(mediaExtension(ofType:)) { return told }
        let suffix = mediaExtension(of: url)
        return suffix.isEmpty || isWebPage(mediaType) ? mediaExtension(ofContent: bytes) : suffix
    }
}

/// The extension of a file that begins with these bytes, nil for none of the formats of podcasts.
func mediaExtension(ofContent bytes: [UInt8]) -> String? {
    func has(_ mark: String, at place: Int = 0) -> Bool { bytes.dropFirst(place).starts(with: mark.utf8) }
    if has("ftyp", at: 4) {
        // ISO/IEC 14496-12: the major brand.
        for (brand, suffix) in [("M4A ", "m4a"), ("M4B ", "m4b"), ("M4V ", "m4v"), ("qt  ", "mov")] {
            if has(brand, at: 8) { return suffix }
        }
        return "mp4"
    }
    // RFC 3533 and RFC 7845: the first page holds the first header of its stream.
    if has("OggS") { return has("OpusHead", at: 28) ? "opus" : has("\u{1}vorbis", at: 28) ? "ogg" : "ogv" }
    if has("RIFF") {
        return has("WAVE", at: 8) ? "wav" : has("AVI ", at: 8) ? "avi" : has("WEBP", at: 8) ? "webp" : nil
    }
    // Matroska: the header of EBML with its document type.
    if bytes.starts(with: [0x1A, 0x45, 0xDF, 0xA3]) {
        return bytes.indices.contains { has("webm", at: $0) } ? "webm" : "mkv"
    }
    if has("PK\u{3}\u{4}"), has("mimetypeapplication/epub", at: 30) { return "epub" }
    for (mark, suffix) in [("ID3", "mp3"), ("fLaC", "flac"), ("%PDF", "pdf"), ("GIF8", "gif")] where has(mark) {
        return suffix
    }
    if bytes.starts(with: [0x89, 0x50, 0x4E, 0x47]) { return "png" }
    if bytes.starts(with: [0xFF, 0xD8, 0xFF]) { return "jpg" }
    guard bytes.count > 1, bytes[0] == 0xFF else { return nil }
    // A frame of MPEG audio (ISO/IEC 11172-3), layer III; of ADTS (ISO/IEC 13818-7), layer 0.
    switch bytes[1] & 0xF6 {
    case 0xF2: return "mp3"
    case 0xF0: return "aac"
    default: return nil
    }
}
