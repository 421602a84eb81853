import ReelCore

/// What a document is that came for a source's URL, by its beginning, its type and the URL's name: a list of files, or a
/// page that may be a directory listing.
package struct SourceDocument: Sendable {
    /// nil: no list, so at best a listing.
    package let format: PlaylistFormat?
    /// Where the answer came from: relative entries of a list resolve against it. With the source's credentials, where it
    /// is of the same origin.
    package let base: ResourceURL
    /// The directory that a listing from there would be of.
    package let folder: ResourceURL

    /// - Parameters:
    ///   - mediaType: of the answer, without parameters, in lower case.
    ///   - place: where the answer came from, after redirects.
    package init(_ bytes: [UInt8], mediaType: String?, source: ResourceURL, place: ResourceURL) {
        base = place.with(credentials: place.isSameOrigin(as: source) ? source.credentials : nil)
        folder = base.path.hasSuffix("/") ? base : base.with(path: base.path + "/")
        let suffix = source.path.hasSuffix("/") ? nil : source.fileExtension
        format = PlaylistFormat.detect(bytes, mediaType: mediaType, fileExtension: suffix)
    }

    /// Whether the URL's name says that its body has to be read to know what it is.
    package static func isPromised(by url: ResourceURL) -> Bool {
        url.path.hasSuffix("/") || ["m3u", "m3u8", "pls", "xspf", "txt", "urls"].contains(url.fileExtension)
    }

    /// Whether an answer's type says so.
    package static func isPromised(by mediaType: String?) -> Bool {
        let types: Set = [
            "audio/x-mpegurl", "audio/mpegurl", "application/vnd.apple.mpegurl", "application/x-mpegurl",
            "audio/x-scpls", "application/pls+xml", "application/xspf+xml", "application/json", "application/xhtml+xml",
        ]
        return mediaType.map { $0.hasPrefix("text/") || types.contains($0) } ?? false
    }
}
