import ReelCore

/// A feed of episodes (RSS, Atom, Media RSS, JSON Feed), or a list of feeds (OPML) with a folder a feed and a folder a
/// group of feeds.
package struct FeedSource: Source {
    package static let kind = "feed"
    package static let fileExtensions: Set = ["atom", "opml", "rdf", "rss", "xml"]
    package static let mediaTypes: Set = [
        "application/atom+xml", "application/feed+json", "application/json", "application/rdf+xml",
        "application/rss+xml", "application/x-rss+xml", "application/xml",
    ]

    package let root: SourcePlace
    private let format: FeedFormat?
    private let signatures = QuerySignatures()
    private let named = NamedOrigins()

    package init(root: SourcePlace) {
        self.root = root
        format = nil
    }

    private init(_ root: SourcePlace, _ format: FeedFormat) {
        self.root = root
        self.format = format
    }

    package static func recognise(_ answer: SourceAnswer) -> FeedSource? {
        FeedFormat(of: answer.bytes, mediaType: answer.mediaType).map { FeedSource(answer.place, $0) }
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

    package func list(_ folder: SourcePlace, known: EntryList?) -> any FolderReader {
        FeedReader(folder, root: root, known: known, signatures, named)
    }

    /// Like an entry of a list of files.
    package func request(_ request: OriginRequest) -> OriginRequest { signatures.sign(request) }

    package var isSigned: Bool? { signatures.isSigned }

    package var namedOrigins: Set<String> { named.all }
}

/// Reads a feed and the pages that it continues on (`rel="next"`, RFC 5005).
private struct FeedReader: FolderReader {
    private let place: SourcePlace
    /// The document that begins the folder: of a group of feeds that of the whole list.
    private let document: SourcePlace
    private let isList: Bool
    private let known: EntryList?
    private let signatures: QuerySignatures
    private let named: NamedOrigins
    private var body: AnswerBody
    /// Bytes of all pages.
    private var size = 0
    private var pages: Set<String> = []
    private var feed = FeedEntries()

    /// A feed of some thousand episodes has as many pages.
    private static let mostPages = 200

    /// - Parameter root: only there a list of feeds may be: one that names itself would be a tree without end.
    init(
        _ place: SourcePlace, root: SourcePlace, known: EntryList?, _ signatures: QuerySignatures, _ named: NamedOrigins
    ) {
        self.place = place
        self.known = known
        (self.signatures, self.named) = (signatures, named)
        feed.root = root
        feed.group = FeedGroup(root)
        if let group = FeedGroup(place, of: root) { feed.group = group }
        isList = place == root || feed.group.titles.count > 0
        let own = isList ? root : place
        // The place may come from the cache, which has no login.
        document = own.url.map { SourcePlace.url(signatures.loggedIn($0)) } ?? own
        body = AnswerBody(document)
    }

    mutating func start() -> FolderStep { .ask(.document(document)) }

    mutating func head(_ head: ResponseHead?) { body.begin(head) }

    mutating func take(_ bytes: [UInt8]) { body.take(bytes) }

    mutating func end(_ isOver: @escaping StopQuestion) throws(SourceRefusal) -> FolderStep {
        let answer = try body.end()
        size += answer.bytes.count
        guard size <= SourceAnswer.limit else {
            throw .useless("the feed has more than \(SourceAnswer.limit >> 20) MiB")
        }
        guard let format = FeedFormat(of: answer.bytes, mediaType: answer.mediaType) else {
            throw pages.isEmpty
                ? .foreign("it is no feed (RSS, Atom, JSON Feed or OPML)") : .useless("its next page is no feed")
        }
        if format == .opml, !isList { throw .useless("it is a list of feeds inside a list of feeds") }
        feed.base = answer.base
        let next = try format.read(answer.bytes, &feed, StopCheck(isOver)).flatMap { feed.resolve($0) }
        named.add(feed.namedOrigins)
        if let next, pages.count < Self.mostPages, pages.insert(next.text).inserted {
            body = AnswerBody(.url(next))
            return .ask(.document(.url(next)))
        }
        let entries = feed.list()
        signatures.add(feed.signatures)
        guard !entries.isEmpty || known != nil else { throw .useless("the feed names no media") }
        let old = Set((known ?? EntryList([])).map(\.url.text))
        let unnamed = feed.withoutExtension.filter { !old.contains($0.text) }
        let finish = { @Sendable [known, remark = feed.remark] (entries: EntryList) in
            FolderStep.entries(known.map { entries.named(as: $0) } ?? entries, remark: remark)
        }
        guard !unnamed.isEmpty else { return finish(entries) }
        return .beginnings(unnamed) { finish(entries.extended($0.compactMapValues(\.fileExtension))) }
    }
}

/// A group of feeds in a list of feeds, which is a folder of the list: the titles of the groups that lead to it.
///
/// A group has no address. Its folder has one made of the list's and the titles, which nothing is asked by.
struct FeedGroup {
    private(set) var titles: [String] = []
    /// The URL of the list itself ends in `;groups/`.
    private let url: ResourceURL

    /// The list.
    init(_ root: SourcePlace) {
        // Of a list on the local disk: a name that no host has (RFC 2606).
        let url = root.url ?? ResourceURL("http://list.invalid/")!
        self.url = url.with(path: url.path + (url.path.hasSuffix("/") ? ";groups/" : "/;groups/"))
    }

    /// nil if the place is no group of the list.
    init?(_ place: SourcePlace, of root: SourcePlace) {
        let list = FeedGroup(root)
        guard let url = place.url, url.isSameOrigin(as: list.url), url.query == list.url.query,
            url.path.utf8.starts(with: list.url.path.utf8)
        else { return nil }
        titles = url.path.utf8.dropFirst(list.url.path.utf8.count).split(separator: 0x2F).map {
            String(decoding: percentDecoded(Array($0)[...]), as: UTF8.self)
        }
        self.url = url
    }

    /// The folder of a group in this one, nil if no address can hold the title.
    func folder(_ title: String) -> ResourceURL? {
        if title == "." || title == ".." { return nil }
        let path = url.path + percentEncodedSegment(title.utf8) + "/"
        return path.utf8.count < ResourceURL.longest / 2 ? url.with(path: path) : nil
    }
}

/// What a feed says of one episode.
struct FeedItem {
    var title = ""
    /// The date of publication, in seconds since 1970.
    var published: Int64?
    /// The date of the last change, used if there is none of publication.
    var updated: Int64?
    private(set) var media: [FeedMedia] = []
    /// Media RSS: used where there are no enclosures.
    private(set) var contents: [FeedMedia] = []
    /// The place in `contents` of the one that was chosen of the group that is being read, nil if there is no group.
    private var group: Int?

    /// No episode has more files.
    private static let most = 100

    mutating func add(_ one: FeedMedia) {
        if media.count < Self.most { media.append(one) }
    }

    /// Several contents of a group are forms of one thing: the default one counts, else the first.
    mutating func add(content: FeedMedia, ofGroup isOfGroup: Bool, isDefault: Bool) {
        if isOfGroup, let group {
            if isDefault { contents[group] = content }
        } else if contents.count < Self.most {
            if isOfGroup { group = contents.count }
            contents.append(content)
        }
    }

    mutating func endGroup() { group = nil }
}

/// A resource of an episode.
struct FeedMedia {
    let url: String
    /// In lower case, without parameters, nil if not given.
    let type: String?
    let isImage: Bool

    /// - Parameters:
    ///   - type: as it stands there.
    ///   - medium: of Media RSS: `image`, `video`…
    init(_ url: String, type: String?, medium: String? = nil) {
        self.url = url
        let first = type?.split(separator: ";", omittingEmptySubsequences: false).first
        self.type = first.map { asciiLowercased(trimmed($0)) }.flatMap { $0.isEmpty ? nil : $0 }
        isImage = self.type.map { $0.hasPrefix("image/") } ?? (medium == "image")
    }
}

/// Makes entries of a feed's episodes, one by one, over all its pages.
///
/// The lengths in feeds are not used: they are often wrong.
struct FeedEntries {
    /// What references resolve against, nil for a local file.
    var base: ResourceURL?
    /// The list, where it is one of feeds, and the part of it that is read.
    var root = SourcePlace.path("")
    var group = FeedGroup(.path(""))
    /// The signatures of signed media, and the logins in addresses, by the URLs without signatures, which the entries
    /// have.
    private(set) var signatures: [String: QuerySignature] = [:]
    /// The origins of the addresses in documents on the disk.
    private(set) var namedOrigins: Set<String> = []
    /// Files whose extension neither the feed nor the URL gives.
    private(set) var withoutExtension: [ResourceURL] = []
    private var entries = EntryList.Builder(limit: Playlist.mostEntries)
    private var names = UniqueNames()
    private var known: Set<String> = []
    private var cover: ResourceURL?
    private var icon: ResourceURL?
    /// Addresses that are no URL, are relative in a local file, or are the list's own.
    private var skipped = 0

    /// Files of one listing whose beginnings are asked for; the others are named without extension.
    private static let mostBeginnings = 500

    /// For whoever mounts it, nil if nothing was left out.
    var remark: String? {
        skipped == 0
            ? nil
            : "\(skipped) of the feed's addresses left out: no http(s) URLs, relative in a local file, or its own"
    }

    mutating func resolve(_ reference: String) -> ResourceURL? {
        let reference = trimmed(reference)
        if let base { return base.resolve(reference) ?? ResourceURL(reference) }
        let url = ResourceURL(reference)
        if let url { namedOrigins.insert(url.origin) }
        return url
    }

    /// Adds the files of an episode, except those that another page had already.
    mutating func add(_ item: FeedItem) throws(SourceRefusal) {
        var media = item.media.isEmpty ? item.contents : item.media
        // Pictures beside a film or a song illustrate it.
        if media.contains(where: { !$0.isImage }) { media.removeAll(where: \.isImage) }
        let date = item.published ?? item.updated
        var title = item.title.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        if let date, !title.isEmpty { title = isoDay(date) + " " + title }
        for one in media {
            guard let url = resolve(one.url) else {
                skipped += 1
                continue
            }
            let suffix = one.type.flatMap(mediaExtension(ofType:)) ?? mediaExtension(of: url)
            let name = titledName(title, extension: suffix, at: url)
            let (bare, signature) = QuerySignature.apart(url, of: root.url)
            if let signature { signatures[bare.text] = signature }
            let entry = SourceEntry(name: name, url: bare, isDirectory: false, modified: date)
            if suffix.isEmpty, withoutExtension.count < Self.mostBeginnings { withoutExtension.append(entry.url) }
            try add(entry)
        }
    }

    /// Adds a feed of an OPML list, or the group that leads to it.
    /// - Parameter titles: of the groups that it lies in, the outermost one first.
    mutating func addFeed(_ title: String, _ address: String, in titles: [String]) throws(SourceRefusal) {
        // A feed of another group, too, is one that the list names.
        let url = resolve(address)
        if let url, let login = QuerySignature.login(in: url, of: root.url) {
            signatures[url.text] = QuerySignature(query: url.query, expires: nil, login: login)
        }
        guard titles.starts(with: group.titles) else { return }
        if let inner = titles.dropFirst(group.titles.count).first, let folder = group.folder(inner) {
            let name = titledName(inner, extension: "", at: folder)
            return try add(SourceEntry(name: name, url: folder, isDirectory: true))
        }
        // One that is the list or a group of it would be a tree without end.
        guard let url, .url(url) != root, FeedGroup(.url(url), of: root) == nil else {
            skipped += 1
            return
        }
        let title = title.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        try add(SourceEntry(name: titledName(title, extension: "", at: url), url: url, isDirectory: true))
    }

    private mutating func add(_ entry: SourceEntry) throws(SourceRefusal) {
        guard known.insert(entry.url.text).inserted else { return }
        var entry = entry
        entry.name = names.claim(entry.name, beside: entries)
        guard entries.append(entry) else { throw .tooManyTracks }
    }

    /// Takes the artwork of the feed; the first one stays, and an icon is used only if there is nothing larger.
    mutating func take(cover address: String, isIcon: Bool = false) {
        if isIcon { icon = icon ?? resolve(address) } else { cover = cover ?? resolve(address) }
    }

    /// All entries; the artwork as `cover.jpg`, or with the extension that its URL has.
    mutating func list() -> EntryList {
        if let cover = cover ?? icon, entries.count > 0, known.insert(cover.text).inserted {
            let suffix = mediaExtension(of: cover)
            let isPicture = ["gif", "jpeg", "png", "webp"].contains(suffix)
            let name = names.claim("cover." + (isPicture ? suffix : "jpg"), beside: entries)
            entries.append(SourceEntry(name: name, url: cover, isDirectory: false))
        }
        return entries.list()
    }
}
