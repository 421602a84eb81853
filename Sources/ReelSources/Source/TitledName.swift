import ReelCore

/// The name of a file that has a title: the title and its extension, which is not repeated. Without a title, the last
/// segment of the URL, with the extension where it has none; without that, the host.
/// - Parameter extension: without a dot; empty: none.
func titledName(_ title: String, extension suffix: String, at url: ResourceURL) -> String {
    guard !title.isEmpty else {
        let segment = url.lastSegment
        if segment.isEmpty { return SafeName.make(Array(url.host.utf8)) }
        return SafeName.make(
            suffix.isEmpty || !url.fileExtension.isEmpty ? segment : segment + Array(("." + suffix).utf8))
    }
    let end = asciiLowercased(Array(title.utf8.suffix(suffix.utf8.count + 1))[...])
    let hasIt = end.utf8.elementsEqual(("." + suffix).utf8)
    return SafeName.make(Array((suffix.isEmpty || hasIt ? title : title + "." + suffix).utf8))
}

/// The URL's extension in lower case, if it can be one: a longer one, or one with other signs, belongs to an identifier
/// that has a dot. Empty: none.
func mediaExtension(of url: ResourceURL) -> String {
    let suffix = url.fileExtension
    let isExtension =
        (1...8).contains(suffix.utf8.count)
        && suffix.utf8.allSatisfy { $0 >= 0x30 && isSegmentByte($0) && $0 < 0x7B }
    return isExtension ? suffix : ""
}

/// The extension by which players know media of a type; nil for types that have none.
/// - Parameter mediaType: in lower case, without parameters.
func mediaExtension(ofType mediaType: String) -> String? { extensions[mediaType] }

private let extensions = [
    "audio/aac": "aac", "audio/aacp": "aac", "audio/flac": "flac", "audio/m4a": "m4a", "audio/mp3": "mp3",
    "audio/mp4": "m4a", "audio/mpeg": "mp3", "audio/mpeg3": "mp3", "audio/ogg": "ogg", "audio/opus": "opus",
    "audio/vorbis": "ogg", "audio/wav": "wav", "audio/wave": "wav", "audio/webm": "webm", "audio/x-aac": "aac",
    "audio/x-flac": "flac", "audio/x-m4a": "m4a", "audio/x-m4b": "m4b", "audio/x-mp3": "mp3", "audio/x-mpeg": "mp3",
    "audio/x-wav": "wav", "video/mp4": "mp4", "video/mpeg": "mpg", "video/ogg": "ogv", "video/quicktime": "mov",
    "video/webm": "webm", "video/x-m4v": "m4v", "video/x-matroska": "mkv", "video/x-msvideo": "avi",
    "image/gif": "gif", "image/jpeg": "jpg", "image/png": "png", "image/webp": "webp", "application/pdf": "pdf",
    "application/epub+zip": "epub",
]
