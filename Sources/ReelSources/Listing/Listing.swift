import ReelCore

/// Reads what a server sends for a directory: HTML of nginx (autoindex, fancyindex), Apache, lighttpd, Caddy, Python,
/// rclone and their kin, or the JSON of nginx's `autoindex_format json`.
package enum Listing {
    package static let mostEntries = 1_000_000

    /// The entries in the page's order, each direct child of `url`'s directory once.
    ///
    /// Names come from the links, decoded once; the text of a link is often cut. A `<base>` in the page is ignored.
    /// A listing is taken whole or not at all: it never shrinks because of an error.
    /// - Parameters:
    ///   - body: the whole body, of `SourceAnswer.limit` bytes at most.
    ///   - mediaType: of the answer, without parameters, in lower case.
    ///   - url: where the body came from, after redirects; its query does not count.
    ///   - isOver: asked every so often: true ends it with `.stopped`.
    package static func parse(
        _ body: [UInt8], mediaType: String?, url: ResourceURL, mostEntries: Int = mostEntries,
        isOver: @escaping () -> Bool = { false }
    ) throws(SourceRefusal) -> EntryList {
        let (text, directory, stop) = (withoutByteOrderMark(body), ListingDirectory(url), StopCheck(isOver))
        // A text file about listings is none; no type at all says nothing.
        let isPage = mediaType.map { $0.hasSuffix("/html") || $0.hasSuffix("/xhtml+xml") }
        let isJSON = mediaType.map { $0.hasSuffix("/json") } ?? (text.first { !isBlank($0) } == UInt8(ascii: "["))
        if isJSON { return try parseJSON(text, directory, limit: mostEntries, stop).list() }
        guard isPage ?? true else { throw .notAListing }
        return try parseHTML(text, directory, limit: mostEntries, stop).list()
    }

    private static func parseHTML(
        _ text: ArraySlice<UInt8>, _ directory: ListingDirectory, limit: Int, _ stop: StopCheck
    ) throws(SourceRefusal) -> ListingMerge {
        var page = ListingPage(directory, limit: limit)
        var reader = MarkupReader(text, .html, stop)
        guard reader.read(&page) else { throw .stopped }
        page.finish()
        guard !page.isDone else { throw .tooManyEntries }
        guard page.signs.isListing else { throw .notAListing }
        return page.entries
    }
}
