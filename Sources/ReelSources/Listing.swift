import ReelCore

/// Why a body gave no entries. A listing is taken whole or not at all: it never shrinks because of an error.
package enum ListingError: Error, Hashable, Sendable {
    /// A page, but none that lists a directory: a login, a captive portal, a site of its own.
    case notAListing
    /// JSON of another shape than nginx's, or cut short.
    case malformed
    /// More entries than `Listing.mostEntries`, or over 2 GB.
    case tooLarge
    /// Its deadline had passed.
    case stopped
}

/// Reads what a server sends for a directory: HTML of nginx (autoindex, fancyindex), Apache, lighttpd, Caddy, Python,
/// rclone and their kin, or the JSON of nginx's `autoindex_format json`.
package enum Listing {
    package static let mostEntries = 1_000_000

    /// The entries in the page's order, each direct child of `url`'s directory once.
    ///
    /// Names come from the links, decoded once; the text of a link is often cut. A `<base>` in the page is ignored.
    /// - Parameters:
    ///   - body: the whole body; the caller bounds it.
    ///   - mediaType: of the answer, without parameters, in lower case.
    ///   - url: where the body came from, after redirects; its query does not count.
    ///   - isOver: asked every so often: true ends it with `.stopped`.
    package static func parse(
        _ body: [UInt8], mediaType: String?, url: ResourceURL, mostEntries: Int = mostEntries,
        isOver: @escaping () -> Bool = { false }
    ) throws(ListingError) -> EntryList {
        guard body.count <= Int(Int32.max) else { throw .tooLarge }
        let directory = ListingDirectory(url)
        guard isPageOrJSON(mediaType) else { throw .notAListing }
        let isJSON = mediaType.map { $0.hasSuffix("/json") } ?? (body.first { !isBlank($0) } == UInt8(ascii: "["))
        let stop = StopCheck(isOver)
        let entries =
            isJSON
            ? try parseJSON(body, directory, limit: mostEntries, stop)
            : try parseHTML(body, directory, limit: mostEntries, stop)
        return entries.list()
    }

    /// A type that a listing may have; a text file about listings is none, and no type at all says nothing.
    private static func isPageOrJSON(_ mediaType: String?) -> Bool {
        mediaType.map { $0.hasSuffix("/html") || $0.hasSuffix("/xhtml+xml") || $0.hasSuffix("/json") } ?? true
    }

    private static func parseHTML(
        _ body: [UInt8], _ directory: ListingDirectory, limit: Int, _ stop: StopCheck
    ) throws(ListingError) -> ListingMerge {
        let page = ListingPage(directory, limit: limit)
        var reader = MarkupReader(withoutByteOrderMark(body), .html, stop)
        guard reader.read(page) else { throw .stopped }
        page.finish()
        guard !page.isDone else { throw .tooLarge }
        guard page.signs.isListing else { throw .notAListing }
        return page.entries
    }
}
