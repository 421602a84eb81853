import ReelCore

/// The forms in which a feed comes.
enum FeedFormat: Hashable {
    /// 0.9 to 2.0, with the iTunes and Media RSS extensions.
    case rss
    /// RSS 1.0.
    case rdf
    /// RFC 4287.
    case atom
    /// jsonfeed.org, version 1 and 1.1.
    case json
    case opml

    /// For people.
    var title: String {
        switch self {
        case .rss: "RSS"
        case .rdf: "RSS 1.0"
        case .atom: "Atom"
        case .json: "JSON Feed"
        case .opml: "OPML"
        }
    }

    /// Declarations and comments before the root are shorter.
    private static let longestPrologue = 16 << 10

    /// The format of a document, by its root: feeds are sent with many types. nil if it is no feed.
    init?(of document: [UInt8], mediaType: String?) {
        let text = withoutByteOrderMark(document).drop(while: isBlank)
        if text.first == UInt8(ascii: "{") {
            // Members may stand in any order, the version behind all items.
            let isNamed = [text.prefix(4096), text.suffix(4096)].contains {
                asciiLowercased($0).contains("jsonfeed.org")
            }
            guard isNamed || mediaType == "application/feed+json" else { return nil }
            self = .json
            return
        }
        guard text.first == UInt8(ascii: "<") else { return nil }
        var root = RootName()
        var reader = MarkupReader(text.prefix(Self.longestPrologue), .xml, StopCheck { false })
        _ = reader.read(&root)
        switch root.name {
        case "rss": self = .rss
        case "RDF": self = .rdf
        case "feed": self = .atom
        case "opml": self = .opml
        default: return nil
        }
    }

    /// Adds what a document names. - Returns: where the feed continues, nil if nowhere.
    func read(
        _ document: [UInt8], _ feed: inout FeedEntries, _ stop: StopCheck
    ) throws(SourceRefusal) -> String? {
        let text = withoutByteOrderMark(document)
        if self == .json { return try readJSONFeed(text, &feed, stop) }
        // Given away while it is filled: two owners would copy all entries for each page.
        var entries = FeedEntries()
        swap(&entries, &feed)
        var reading = FeedReading(self, entries)
        entries = FeedEntries()
        var reader = MarkupReader(text, .xml, stop)
        let isRead = reader.read(&reading)
        if let failure = reading.failure { throw failure }
        guard isRead else { throw .stopped }
        guard reading.isWhole else { throw .cutShort }
        feed = reading.feed
        return reading.next
    }
}

/// Finds the name of the root.
private final class RootName: MarkupHandler {
    private(set) var name: String?

    var isDone: Bool { name != nil }
    func start(_ name: String, _: MarkupAttributes) { self.name = name }
    func end(_: String) {}
    func text(_: ArraySlice<UInt8>) {}
}

/// Reads the elements of a feed. Prefixes do not count: `itunes:title` and `media:title` mean the title, too.
private final class FeedReading: MarkupHandler {
    private(set) var feed: FeedEntries
    private(set) var next: String?
    private(set) var failure: SourceRefusal?
    /// Whether the end of the root was read: nothing was cut off.
    private(set) var isWhole = false

    private let format: FeedFormat
    private let itemName: String
    private let itemDepth: Int
    private var path: [String] = []
    /// The bases of the elements in `path` that name a base for what is inside of them (`xml:base`).
    private var bases: [(depth: Int, url: ResourceURL)] = []
    /// The titles of the outlines in `path` that group feeds.
    private var groups: [(depth: Int, title: String)] = []
    private var item: FeedItem?
    /// The text of the element at `valueDepth`, and of all inside of it, nil if it is not wanted.
    private var value: [UInt8]?
    private var valueDepth = 0

    /// Elements inside each other, extensions among them.
    private static let deepest = 64
    /// Bytes of a title: a name has 255.
    private static let longestText = 8 << 10
    private static let texts: Set = ["date", "icon", "logo", "pubDate", "published", "title", "updated", "url"]

    init(_ format: FeedFormat, _ feed: FeedEntries) {
        self.format = format
        self.feed = feed
        switch format {
        case .rss: (itemName, itemDepth) = ("item", 3)
        case .rdf: (itemName, itemDepth) = ("item", 2)
        default: (itemName, itemDepth) = ("entry", 2)
        }
    }

    var isDone: Bool { failure != nil }

    func start(_ name: String, _ attributes: MarkupAttributes) {
        path.append(name)
        guard path.count <= Self.deepest else { return failure = .useless("its elements are nested too deeply") }
        if let base = text(attributes, "xml:base").flatMap({ feed.resolve(located($0)) }) {
            bases.append((path.count, base))
        }
        if path.count == itemDepth, name == itemName { item = FeedItem() }
        // Of an episode and of the feed, and of the feed's image, which has an element of its own.
        let isPlain = path.count == (item == nil ? itemDepth : itemDepth + 1)
        let isImage = item == nil && path.suffix(2) == ["image", "url"]
        if Self.texts.contains(name), isPlain || isImage { (value, valueDepth) = ([], path.count) }
        take(name, attributes)
    }

    private func take(_ name: String, _ attributes: MarkupAttributes) {
        switch name {
        case "enclosure": addMedia(attributes, "url", "rdf:resource")
        case "content":
            guard let content = media(attributes, ["url"]) else { return }
            let isDefault = text(attributes, "isdefault") == "true"
            item?.add(content: content, ofGroup: path.contains("group"), isDefault: isDefault)
        case "link":
            switch text(attributes, "rel") {
            case "enclosure"? where item != nil: addMedia(attributes, "href")
            case "next"? where item == nil: next = text(attributes, "href").map(located)
            default: break
            }
        case "image", "thumbnail":
            let place = text(attributes, "href") ?? text(attributes, "url")
            if item == nil, let place { feed.take(cover: located(place)) }
        case "outline" where format == .opml:
            let title = text(attributes, "title") ?? text(attributes, "text") ?? ""
            if let address = text(attributes, "xmlurl").map(located) {
                attempt { () throws(SourceRefusal) in try feed.addFeed(title, address, in: groups.map(\.title)) }
            } else if !title.isEmpty {
                groups.append((path.count, title))
            }
        default: break
        }
    }

    /// The reference as it counts outside of its element.
    private func located(_ reference: String) -> String {
        bases.last.flatMap { $0.url.resolve(reference) }?.text ?? reference
    }

    private func text(_ attributes: MarkupAttributes, _ name: String) -> String? {
        attributes[name].map { listText(trimmedBytes($0[...])) }.flatMap { $0.isEmpty ? nil : $0 }
    }

    private func media(_ attributes: MarkupAttributes, _ names: [String]) -> FeedMedia? {
        guard let url = names.lazy.compactMap({ self.text(attributes, $0) }).first else { return nil }
        let type = text(attributes, "type") ?? text(attributes, "enc:type")
        return FeedMedia(located(url), type: type, medium: text(attributes, "medium"))
    }

    private func addMedia(_ attributes: MarkupAttributes, _ names: String...) {
        if let media = media(attributes, names) { item?.add(media) }
    }

    func text(_ bytes: ArraySlice<UInt8>) {
        guard let count = value?.count else { return }
        value?.append(contentsOf: bytes.prefix(Self.longestText - count))
    }

    func end(_ name: String) {
        guard let place = path.lastIndex(of: name) else { return }
        let text = value
        if place < valueDepth { value = nil }
        if let text, place == valueDepth - 1 { take(name, listText(trimmedBytes(text[...]))) }
        path.removeSubrange(place...)
        while let last = bases.last, last.depth > path.count { bases.removeLast() }
        while let last = groups.last, last.depth > path.count { groups.removeLast() }
        if name == "group" { item?.endGroup() }
        if let item, path.count < itemDepth {
            self.item = nil
            attempt { () throws(SourceRefusal) in try feed.add(item) }
        }
        isWhole = isWhole || path.isEmpty
    }

    private func take(_ name: String, _ text: String) {
        guard !text.isEmpty else { return }
        switch name {
        case "title": if item?.title.isEmpty == true { item?.title = text }
        case "pubDate", "published", "date": if item?.published == nil { item?.published = feedDate(text) }
        case "updated": if item?.updated == nil { item?.updated = feedDate(text) }
        default: if item == nil { feed.take(cover: located(text), isIcon: name == "icon") }
        }
    }

    private func attempt(_ body: () throws(SourceRefusal) -> Void) {
        do throws(SourceRefusal) { try body() } catch { failure = failure ?? error }
    }
}

/// A date as feeds write it, as seconds since 1970: RFC 822 (`Sun, 06 Nov 1994 08:49:37 +0100`, the day's name and the
/// seconds may be missing) or RFC 3339; nil for any other text.
package func feedDate(_ text: String) -> Int64? {
    guard text.utf8.count <= 64 else { return nil }
    let bytes = Array(text.utf8)[...]
    var cursor = ByteCursor(bytes)
    if let date = cursor.listingDate() { return date }
    cursor = ByteCursor(bytes)
    // RFC 3339 without a time, which some feeds write.
    if let year = cursor.number(), cursor.take(UInt8(ascii: "-")), let month = cursor.number(),
        cursor.take(UInt8(ascii: "-")), let day = cursor.number(), cursor.isAtEnd
    {
        return secondsSince1970(year: year, month: month, day: day)
    }
    cursor = ByteCursor(bytes)
    cursor.take { !isDigit($0) }
    func blank(_ cursor: inout ByteCursor) { cursor.take { isBlank($0) || $0 == UInt8(ascii: "-") } }
    guard let day = cursor.number() else { return nil }
    blank(&cursor)
    guard let month = cursor.monthName() else { return nil }
    // `September` in full.
    cursor.take { !isDigit($0) }
    guard let year = cursor.number() else { return nil }
    blank(&cursor)
    let time = cursor.timeOfDay() ?? 0
    cursor.take(while: isBlank)
    let zone = zones[asciiLowercased(cursor.rest)] ?? cursor.zone()
    let full = year < 100 ? year + (year < 70 ? 2000 : 1900) : year
    return secondsSince1970(year: full, month: month, day: day).map { $0 + time - zone }
}

/// The zones with names of RFC 822, section 5.1, in seconds east of Greenwich; `GMT` and all others are 0.
private let zones: [String: Int64] = [
    "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7,
].mapValues { $0 * 3600 }
