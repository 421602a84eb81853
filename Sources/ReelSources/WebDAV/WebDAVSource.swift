import ReelCore

/// A tree of WebDAV collections (RFC 4918), each listed by one PROPFIND.
///
/// `dav://` and `davs://` are WebDAV over http and https without a guess. Behind `http(s)://` a folder is one if its
/// plain answer lists nothing, and PROPFIND does: a listing that works costs no second question. PROPFIND is asked at
/// once, as OPTIONS would only say that it may be asked.
package struct WebDAVSource: Source {
    package static let kind = "webdav"
    private static let schemes = ["dav": "http", "davs": "https"]
    /// What servers answer to the GET of a collection, if not with a page.
    private static let refusals: Set = [400, 403, 404, 405, 406, 415, 500, 501]

    package let root: SourcePlace

    package init(root: SourcePlace) { self.root = root }

    private init(_ url: ResourceURL) { root = .url(url.path.hasSuffix("/") ? url : url.with(path: url.path + "/")) }

    package static func recognise(address: String) -> WebDAVSource? {
        guard let scheme = URLParts.scheme(of: trimmedBytes(Array(address.utf8)[...])),
            let carrier = schemes[asciiLowercased(scheme)]
        else { return nil }
        let rest = String(decoding: trimmedBytes(Array(address.utf8)[...]).dropFirst(scheme.count), as: UTF8.self)
        return ResourceURL(carrier + rest).map { WebDAVSource($0) }
    }

    package static func recognise(_ answer: SourceAnswer) -> WebDAVSource? {
        guard let base = answer.base else { return nil }
        // Some servers show a page for a collection, and do not redirect to its slash.
        let mayBeFolder = base.path.hasSuffix("/") || base.fileExtension.isEmpty && isWebPage(answer.mediaType)
        return mayBeFolder ? WebDAVSource(base.withoutQuery) : nil
    }

    package static func recognise(_ url: ResourceURL, refusedWith status: Int) -> WebDAVSource? {
        let mayBeFolder = url.path.hasSuffix("/") || url.fileExtension.isEmpty
        return mayBeFolder && refusals.contains(status) ? WebDAVSource(url.withoutQuery) : nil
    }

    package var description: String { "WebDAV collection" }

    package func list(_ folder: SourcePlace, known: EntryList?) -> any FolderReader {
        WebDAVReader(folder: folder, known: known)
    }
}

extension ResourceURL {
    fileprivate var withoutQuery: ResourceURL { query == nil ? self : below([]).resolve(path) ?? self }
}

/// Lists one collection.
private struct WebDAVReader: FolderReader {
    let folder: SourcePlace
    let known: EntryList?
    private var answer: MultiStatus?

    init(folder: SourcePlace, known: EntryList?) {
        self.folder = folder
        self.known = known
    }

    private static let body = """
        <?xml version="1.0" encoding="utf-8"?>
        <propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getlastmodified/><getetag/></prop></propfind>
        """

    /// Counts entries, some hundred bytes each; none is kept as it came.
    var longestAnswer: Int { 1 << 30 }

    func start() throws(SourceRefusal) -> FolderStep {
        guard let url = folder.url else { throw .foreign("a local file") }
        var request = OriginRequest(url: url)
        request.method = "PROPFIND"
        request.headers = [("Depth", "1"), ("Content-Type", "application/xml; charset=utf-8")]
        request.isPublic = true
        request.body = Array(Self.body.utf8)
        request.accepted = [207]
        return .ask(.origin(request))
    }

    mutating func head(_ head: ResponseHead?) {
        answer = SourceAnswer(folder, head, []).folder.map { MultiStatus(of: $0, known: known) }
    }

    mutating func take(_ bytes: [UInt8]) throws(SourceRefusal) { try answer?.take(bytes) }

    mutating func end(_: @escaping StopQuestion) throws(SourceRefusal) -> FolderStep {
        guard var answer else { throw .foreign("a local file") }
        self.answer = nil
        return .entries(try answer.finish())
    }
}
