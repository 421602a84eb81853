import ReelCore

/// A feed of episodes (RSS, Atom, Media RSS, JSON Feed), or a list of feeds (OPML) with a folder a feed.
package struct FeedSource: Source {
    package static let kind = "feed"
    package static let fileExtensions: Set = ["atom", "opml", "rdf", "rss", "xml"]
    package static let mediaTypes: Set = [
        "application/atom+xml", "application/feed+json", "application/json", "application/rdf+xml",
        "application/rss+xml", "application/x-rss+xml", "application/xml",
    ]

    package let root: SourcePlace
    private let format: FeedFormat?

    package init(root: SourcePlace) {
        self.root = root
        format = nil
    }

    private init(_ root: SourcePlace, _ format: FeedFormat) {
        self.root = root
        self.format = format
    }

    package static func recognise(_ answer: SourceAnswer) -> FeedSource? {
        FeedFormat(of: answer.bytes).map { FeedSource(answer.place, $0) }
    }

    package var description: String {
        switch format {
        case .opml: "list of feeds (OPML)"
        case let format?: "feed (\(format.title))"
        case nil: "feed"
        }
    }

    /// A feed's order is its own.
    package func isQueue(_: SourcePlace) -> Bool { true }

    /// They are those of publication.
    package var keepsDates: Bool { true }

    /// Checking a local file costs no request.
    package func longestAge(of folder: SourcePlace, refresh: Duration) -> Duration? {
        if case .path = folder { .zero } else { refresh }
    }

    package func list(_ folder: SourcePlace, known: EntryList?) -> any FolderReader {
        FeedReader(folder, known: known)
    }
}

/// Reads a feed and the pages that it continues on (`rel="next"`, RFC 5005).
private struct FeedReader: FolderReader {
    private let place: SourcePlace
    private let known: EntryList?
    private var body: AnswerBody
    private var pages: Set<String> = []
    private var feed = FeedEntries()

    /// A feed of some thousand episodes has as many pages.
    private static let mostPages = 200

    init(_ place: SourcePlace, known: EntryList?) {
        self.place = place
        self.known = known
        body = AnswerBody(place)
    }

    mutating func start() -> FolderStep { .ask(.document(place)) }

    mutating func head(_ head: ResponseHead?) { body.begin(head) }

    mutating func take(_ bytes: [UInt8]) { body.take(bytes) }

    mutating func end(_ isOver: @escaping StopQuestion) throws(SourceRefusal) -> FolderStep {
        let answer = try body.end()
        guard let format = FeedFormat(of: answer.bytes) else {
            throw .foreign("it is no feed (RSS, Atom, JSON Feed or OPML)")
        }
        let count = feed.count
        feed.base = answer.base
        let next = try format.read(answer.bytes, &feed, StopCheck(isOver))
        // A page without an episode of its own ends a feed that names itself as the next one for ever.
        if feed.count > count, let next = next.flatMap({ feed.resolve($0) }), pages.count < Self.mostPages,
            pages.insert(next.text).inserted
        {
            body = AnswerBody(.url(next))
            return .ask(.document(.url(next)))
        }
        let entries = feed.list()
        guard !entries.isEmpty || known != nil else { throw .useless("the feed names no media") }
        return .entries(known.map { entries.named(as: $0) } ?? entries)
    }
}

/// What a feed tells of one episode.
struct FeedItem {
    var title = ""
    /// Of publication, in seconds since 1970.
    var published: Int64?
    /// Of the last change, where nothing tells the publication.
    var updated: Int64?
    var media: [FeedMedia] = []
    /// Media RSS: used where there are no enclosures.
    var contents: [FeedMedia] = []
}

/// A resource of an episode.
struct FeedMedia {
    var url: String
    /// In lower case, without parameters.
    var type: String?

    var isImage: Bool { type?.hasPrefix("image/") == true }
}

/// Makes entries of a feed's episodes, one by one, over all its pages.
///
/// Lengths that feeds tell are not taken: they are often wrong.
struct FeedEntries {
    /// What references resolve against; nil: of a local file.
    var base: ResourceURL?
    private var entries = EntryList.Builder(limit: Playlist.mostEntries)
    private var names = UniqueNames()
    private var known: Set<String> = []
    private var cover: ResourceURL?

    /// Entries so far, artwork apart.
    var count: Int { entries.count }

    func resolve(_ reference: String) -> ResourceURL? {
        let reference = trimmed(reference)
        return base?.resolve(reference) ?? ResourceURL(reference)
    }

    /// Adds the files of an episode. An episode that another page has told of already is not added again.
    mutating func add(_ item: FeedItem) throws(SourceRefusal) {
        var media = item.media.isEmpty ? item.contents : item.media
        // Pictures beside a film or a song show it.
        if media.contains(where: { !$0.isImage }) { media.removeAll(where: \.isImage) }
        let date = item.published ?? item.updated
        let title = item.title.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        for one in media {
            guard let url = resolve(one.url), known.insert(url.text).inserted else { continue }
            let stem = [date.map(isoDay) ?? "", title].filter { !$0.isEmpty }.joined(separator: " ")
            let suffix = one.type.flatMap(mediaExtension(ofType:)) ?? mediaExtension(of: url)
            let name = titledName(title.isEmpty ? "" : stem, extension: suffix, at: url)
            try add(SourceEntry(name: name, url: url, isDirectory: false, modified: date))
        }
    }

    /// Adds a feed of an OPML list.
    mutating func addFeed(_ title: String, _ address: String) throws(SourceRefusal) {
        guard let url = resolve(address), known.insert(url.text).inserted else { return }
        let title = title.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        try add(SourceEntry(name: titledName(title, extension: "", at: url), url: url, isDirectory: true))
    }

    private mutating func add(_ entry: SourceEntry) throws(SourceRefusal) {
        guard entries.count < Playlist.mostEntries else { throw .tooManyTracks }
        var entry = entry
        entry.name = names.claim(entry.name, beside: entries)
        entries.append(entry)
    }

    /// Takes the artwork of the feed; the first one that is told stays.
    mutating func take(cover address: String) { cover = cover ?? resolve(address) }

    /// All entries; the artwork as `cover.jpg`, or with the extension that its URL has.
    mutating func list() -> EntryList {
        if let cover, entries.count > 0, known.insert(cover.text).inserted {
            let suffix = mediaExtension(of: cover)
            let isPicture = ["gif", "jpeg", "png", "webp"].contains(suffix)
            let name = names.claim("cover." + (isPicture ? suffix : "jpg"), beside: entries)
            entries.append(SourceEntry(name: name, url: cover, isDirectory: false))
        }
        return entries.list()
    }
}
