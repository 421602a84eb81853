import ReelCore

/// Collects the links of an HTML directory listing, what stands beside them, and the signs that the page is one.
final class ListingPage: MarkupHandler {
    /// In the page's order; the same link may come twice (icon and name).
    private(set) var entries: ListingMerge
    private(set) var signs = ListingSigns()

    private let directory: ListingDirectory
    private let mostLinks: Int
    private var pending: ListingLink?
    private var facts = ListingFacts()
    private var tail: [UInt8] = []
    private var anchors = 0
    private var pres = 0
    private var structures = 0
    private var heading: [UInt8]?
    /// Set once a row has given link and date: what follows in it is a description, whose links are no entries.
    private var isRowTold = false

    /// Behind a link stand its size and date; longer text is a description.
    private static let longestTail = 512
    private static let cellBorder: UInt8 = 0

    init(_ directory: ListingDirectory, limit: Int) {
        self.directory = directory
        entries = ListingMerge(of: directory.url, limit: limit)
        // Icon and name may both be links: twice the entries, and the sort links.
        mostLinks = limit * 2
    }

    var isDone: Bool { entries.links > mostLinks || entries.isTooLarge }

    func start(_ name: String, _ attributes: MarkupAttributes) {
        switch name {
        case "a": startLink(attributes["href"])
        case "td", "th":
            // A link that nobody closed ends with its cell, as browsers have it.
            anchors = 0
            append(Self.cellBorder)
            // Caddy and rclone give the exact size beside the one for humans.
            guard pending != nil, let value = attributes["data-size"] ?? attributes["data-order"] else { return }
            facts.length = facts.length ?? decimal(value[...])
            facts.hasSize = true
        case "time":
            guard pending != nil, let value = attributes["datetime"] else { return }
            var cursor = ByteCursor(trimmedBytes(value[...]))
            facts.modified = facts.modified ?? cursor.listingDate()
        case "tr", "li", "hr": endRow()
        case "pre":
            endRow()
            pres += 1
            structures += 1
            signs.hasPre = true
        case "table", "ul":
            structures += 1
            if let summary = attributes["summary"] { signs.heading(summary) }
        case "title", "h1", "h2":
            endHeading()
            heading = []
        case "input":
            if attributes["type"].map({ asciiLowercased($0[...]) }) == "password" {
                signs.asksForPassword = true
            }
        default: break
        }
    }

    func end(_ name: String) {
        switch name {
        case "a": anchors = 0
        case "tr", "li", "table", "ul", "pre", "body", "html":
            endRow()
            if name == "pre" { pres = max(0, pres - 1) }
            if ["table", "ul", "pre"].contains(name) { structures = max(0, structures - 1) }
        case "title", "h1", "h2": endHeading()
        default: break
        }
    }

    func text(_ bytes: ArraySlice<UInt8>) {
        if heading != nil, heading!.count < 200 { heading!.append(contentsOf: bytes.prefix(200)) }
        if anchors > 0 { return }
        if heading == nil, !signs.hasLooseText { signs.hasLooseText = !bytes.allSatisfy(isBlank) }
        guard pending != nil || isRowTold else { return }
        for byte in bytes {
            if byte == 0x0A && pres > 0 { endRow() } else { append(byte) }
        }
    }

    private func append(_ byte: UInt8) {
        if pending != nil, tail.count < Self.longestTail { tail.append(byte) }
    }

    private func startLink(_ reference: [UInt8]?) {
        endLink()
        guard let reference else { return }
        anchors = 1
        signs.isLinkOutsidePre = signs.isLinkOutsidePre || pres == 0
        switch directory.target(of: reference[...]) {
        case .child(let link):
            if !isRowTold { pending = link }
        case .parent: signs.hasParentLink = signs.hasParentLink || structures > 0
        case .query(let query): signs.query(query)
        case .elsewhere: break
        }
    }

    /// The page's end, which need not have any tag.
    func finish() {
        endHeading()
        endRow()
    }

    private func endHeading() {
        if let heading { signs.heading(heading) }
        heading = nil
    }

    private func endRow() {
        anchors = 0
        endLink()
        isRowTold = false
    }

    private func endLink() {
        guard var link = pending else { return }
        let cells = tail.split(separator: Self.cellBorder, omittingEmptySubsequences: false)
        // lighttpd 1.4.74 ends the reference of a file with a slash as well; its last cell has the file's media type.
        if link.isDirectory, let last = cells.last, isMediaType(last) { link = link.asFile }
        let written = ListingFacts(cells: cells)
        // Where the page has a machine's form of either, the human's form beside it is not looked at.
        if !facts.hasSize && facts.modified == nil { facts = written }
        if link.isDirectory { facts.length = nil }
        entries.add(link, facts)
        isRowTold = facts.modified != nil
        pending = nil
        facts = ListingFacts()
        tail.removeAll(keepingCapacity: true)
    }
}

private func isMediaType(_ cell: ArraySlice<UInt8>) -> Bool {
    let parts = trimmedBytes(cell).split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    guard parts.count == 2, let kind = parts.first, let form = parts.last, !form.isEmpty, !form.contains(where: isBlank)
    else { return false }
    return ["application", "audio", "font", "image", "model", "text", "video"].contains { kind.elementsEqual($0.utf8) }
}

/// The signs by which a directory listing differs from any other page with status 200.
struct ListingSigns {
    /// "Index of /films/" and its kind, in the title, a heading or a table's summary.
    private(set) var hasHeading = false
    /// Links that sort: `?C=N;O=D` (Apache, fancyindex), `?sort=name&order=desc` (Caddy, rclone).
    private(set) var hasSortLink = false
    /// A link to the directory above inside a table, a list or preformatted text.
    var hasParentLink = false
    private var hasTitle = false
    var hasPre = false
    var hasLooseText = false
    var isLinkOutsidePre = false
    var asksForPassword = false

    /// A page that asks for a password is none, whatever else it looks like. One that is nothing but links in a `pre`
    /// comes from Go's file server.
    var isListing: Bool {
        let isBare = hasPre && !hasTitle && !hasLooseText && !isLinkOutsidePre
        return !asksForPassword && (hasHeading || hasSortLink || hasParentLink || isBare)
    }

    mutating func heading(_ bytes: [UInt8]) {
        let text = asciiLowercased(trimmedBytes(bytes[...]))
        hasTitle = hasTitle || !text.isEmpty
        hasHeading = hasHeading || ["index of", "directory listing", "directory:"].contains { text.hasPrefix($0) }
    }

    mutating func query(_ bytes: [UInt8]) {
        let names = bytes.split { $0 == 0x26 || $0 == 0x3B }.map { pair in
            asciiLowercased(pair.prefix { $0 != 0x3D })
        }
        hasSortLink =
            hasSortLink || (names.contains("c") && names.contains("o"))
            || (names.contains("sort") && names.contains("order"))
    }
}
