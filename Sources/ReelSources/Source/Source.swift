import ReelCore

/// A place that media lives, as a mount shows it: what to ask for a folder of it, and what the answers mean.
///
/// A source is a value that asks nothing itself: the volume sends its requests, keeps the answers, and does for all
/// kinds alike what follows (attributes, refresh, doubt, offline). A kind is one file with such a type, and its name in
/// ``SourceKinds/all``.
package protocol Source: Sendable {
    /// Names the kind in the cache's index, so it never changes.
    static var kind: String { get }

    /// What the names and the media types of such documents may be, in lower case: a resource is read as a whole only
    /// where some kind expects a document there. What ends in `/` and all of `text/` is read in any case.
    static var fileExtensions: Set<String> { get }
    static var mediaTypes: Set<String> { get }

    /// The source that an address names by a scheme of its own, without a request; nil if it is another kind's.
    static func recognise(address: String) -> Self?

    /// The address in the one spelling that it is known by, with the endpoint of its service, nil if it is another
    /// kind's or has no other spelling.
    /// - Parameter endpoint: that the user names beside the address, nil if none.
    static func spelled(_ address: String, endpoint: ResourceURL?) -> String?

    /// A sentence for whoever gives an address that begins as those of the kind do, and is none; nil for any other.
    static func mistake(in address: String) -> String?

    /// The source that the answer at its address seems to be of, nil for another kind. It is mounted if its root can be
    /// listed: where that ends with `SourceRefusal.foreign`, the next kind is tried.
    static func recognise(_ answer: SourceAnswer) -> Self?

    /// The source that may be where the origin refuses a plain GET with that status, nil for another kind. It is
    /// mounted if its root can be listed.
    static func recognise(_ url: ResourceURL, refusedWith status: Int) -> Self?

    /// The source that was recognised before, without a request.
    init(root: SourcePlace)

    /// The folder at which the mount begins.
    var root: SourcePlace { get }

    /// What its address names where the origin has no such folder, nil if nothing.
    var file: ResourceURL? { get }

    /// The same source, which shows as files what is still growing, too (`--growing`).
    var growing: Self { get }

    /// For people: `directory listing (HTML)`.
    var description: String { get }

    /// Whether a folder's entries are played in the order in which they stand, and may lie anywhere; else they are
    /// played by name, and lie in the folder.
    func isQueue(_ folder: SourcePlace) -> Bool

    /// What user and password of the user's file are for the source's server.
    var credentials: SourceCredentials { get }

    /// Whether other places may have the same tree: mirrors and shared caches, which are for http and https.
    var hasMirrors: Bool { get }

    /// How old a folder's listing may be before a look at it has it listed again, nil if it never changes.
    /// - Parameter refresh: the mount's choice.
    func longestAge(of folder: SourcePlace, refresh: Duration) -> Duration?

    /// Whether its dates are shown as they stand, also if an answer has another one: a date of publication is not the
    /// one at which a file was last written.
    var keepsDates: Bool { get }

    /// - Parameter known: the folder's entries as they were last listed, nil if never.
    func list(_ folder: SourcePlace, known: EntryList?) -> any FolderReader

    /// Every request of the mount passes here before it leaves. The source may change the URL, the headers and the
    /// signature that are sent; the cache knows the resource by its original URL all the same.
    func request(_ request: OriginRequest) -> OriginRequest

    /// Whether the lists read since the start have signatures or logins for some of their files (`request(_:)`); nil
    /// where only a list could say, and none was read.
    var isSigned: Bool? { get }

    /// The origins that a list on the disk names, as far as it was read: those that may get the user's secrets. Empty
    /// where the source is no such list.
    var namedOrigins: Set<String> { get }

    /// What is known of a file whose bytes lie in several resources, nil if it is one resource.
    /// - Parameter url: of the file's entry.
    func joined(_ url: ResourceURL) -> JoinedFile?
}

extension Source {
    package static var fileExtensions: Set<String> { [] }
    package static var mediaTypes: Set<String> { [] }
    package static func recognise(address: String) -> Self? { nil }
    package static func spelled(_ address: String, endpoint: ResourceURL?) -> String? { nil }
    package static func mistake(in address: String) -> String? { nil }
    package static func recognise(_ url: ResourceURL, refusedWith status: Int) -> Self? { nil }
    package var file: ResourceURL? { nil }
    package var growing: Self { self }
    package func isQueue(_ folder: SourcePlace) -> Bool { false }
    package var credentials: SourceCredentials { .password }
    package var hasMirrors: Bool { root.url != nil }
    package var keepsDates: Bool { false }
    /// To check a local file costs no request.
    package func longestAge(of folder: SourcePlace, refresh: Duration) -> Duration? {
        folder.url == nil ? .zero : refresh
    }
    package func request(_ request: OriginRequest) -> OriginRequest { request }
    package var isSigned: Bool? { false }
    package var namedOrigins: Set<String> { [] }
    package func joined(_ url: ResourceURL) -> JoinedFile? { nil }

    /// Whether folders may be listed before a program asks for them: all of them are at the source's own origin, and a
    /// request or two lists each. Those of a list may be anywhere, each a document of another host that is read whole.
    package var listsAhead: Bool { root.url != nil && !isQueue(root) }

    /// Whether its root is listed by more than a plain GET, whose answer then says nothing of the root.
    package var hasOwnRequests: Bool {
        var reader = list(root, known: nil)
        if case .ask(.origin)? = try? reader.start() { return true }
        return false
    }
}

package enum SourceKinds {
    /// In the order in which they are asked; what is nothing else is a file.
    package static let all: [any Source.Type] = [
        S3Source.self, FileServerSource.self, PlaylistSource.self, HLSSource.self, FeedSource.self,
        ListingSource.self, WebDAVSource.self, FileSource.self,
    ]

    /// The source that an address names without a request, nil if it needs one.
    package static func own(_ address: String) -> (any Source)? {
        all.lazy.compactMap { $0.recognise(address: address) }.first
    }

    /// Where the requests for a SOURCE go, nil if it is the path of a local file.
    package static func url(of address: String) -> ResourceURL? { ResourceURL(address) ?? own(address)?.root.url }

    /// See `Source.spelled`; the address itself if it has no other spelling.
    package static func spelled(_ address: String, endpoint: ResourceURL?) -> String {
        all.lazy.compactMap { $0.spelled(address, endpoint: endpoint) }.first ?? address
    }

    /// See `Source.mistake`.
    package static func mistake(in address: String) -> String? {
        all.lazy.compactMap { $0.mistake(in: address) }.first
    }
}

/// What user and password of the user's file are for a server.
package enum SourceCredentials: Sendable {
    /// The login of its URL.
    case password
    /// Keys that sign each request: no part of an address.
    case keys
}

extension [any Source.Type] {
    /// Whether the URL's name says that its body has to be read to know what it is.
    package func expectDocument(at url: ResourceURL) -> Bool {
        url.path.hasSuffix("/") || contains { $0.fileExtensions.contains(url.fileExtension) }
    }

    /// Whether an answer's type says so.
    package func expectDocument(of mediaType: String?) -> Bool {
        mediaType.map { type in type.hasPrefix("text/") || contains { $0.mediaTypes.contains(type) } } ?? false
    }
}

/// Where a folder is listed; what it is known by.
package enum SourcePlace: Hashable, Sendable, CustomStringConvertible {
    case url(ResourceURL)
    /// The path of a local file.
    case path(String)

    package var url: ResourceURL? { if case .url(let url) = self { url } else { nil } }

    /// Under which the folder's listing is remembered: without user and password.
    package var key: String {
        switch self {
        case .url(let url): url.text
        case .path(let path): path
        }
    }

    /// To be shown: without secrets.
    package var description: String {
        switch self {
        case .url(let url): url.description
        case .path(let path): path
        }
    }
}

/// A whole document, and where it came from.
package struct SourceAnswer: Sendable {
    /// What was asked.
    package let place: SourcePlace
    /// nil for a local file.
    package let head: ResponseHead?
    package let bytes: [UInt8]

    /// A hundred bytes an entry: some hundred thousand entries.
    package static let limit = 64 << 20

    package init(_ place: SourcePlace, _ head: ResponseHead?, _ bytes: [UInt8]) {
        self.place = place
        self.head = head
        self.bytes = bytes
    }

    package var mediaType: String? { head?.mediaType }

    /// What relative entries resolve against: where the answer came from, after redirects, with the credentials of what
    /// was asked if that is of the same origin. nil for a local file.
    package var base: ResourceURL? {
        guard let head, let asked = place.url else { return nil }
        return head.url.with(credentials: head.url.isSameOrigin(as: asked) ? asked.credentials : nil)
    }

    /// The folder that a listing from there would be of.
    package var folder: ResourceURL? {
        base.map { $0.path.hasSuffix("/") ? $0 : $0.with(path: $0.path + "/") }
    }

    /// Whether it is what the request would bring.
    package func answers(_ request: SourceRequest) -> Bool {
        guard case .document(let asked) = request else { return false }
        return asked == place || asked.url != nil && (asked.url == base || asked.url == folder)
    }
}
