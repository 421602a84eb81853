import Logging
import ReelCache
import ReelCore
import ReelSources
import ReelThreads

/// Why a source cannot be mounted; `description` is the one sentence for the user.
package enum SourceError: Error, CustomStringConvertible {
    case notFound(String)
    case notUsable(String, String)
    /// - reason: for a sentence.
    case origin(ResourceURL, OriginFailure, reason: String)

    package var description: String {
        switch self {
        case .notFound(let source): "\(source) is neither a URL nor a file"
        case .notUsable(let source, let reason): "\(source) cannot be mounted: \(reason)"
        case .origin(let url, .away(.offline), _):
            "\(url) cannot be mounted: nothing is cached of it, and --only-cached or `reelfs offline on` lets it ask "
                + "for nothing"
        case .origin(let url, _, let reason): "\(url) cannot be mounted: \(reason), and nothing is remembered of it"
        }
    }
}

/// Finds out what a SOURCE is, once at mount time; that is remembered, so that a mount starts without network.
struct SourceOpening {
    let services: Services
    let kinds: [any Source.Type]

    struct Opened {
        let source: any Source
        /// The listing of the root, where it was just listed.
        var listed: (entries: EntryList, mark: FolderMark?)?
        /// When that listing last changed, in seconds since 1970; nil if not known.
        var changedAt: Int64?
    }

    /// The time that an open waits for a confirmation.
    private static let knownLimit = Duration.seconds(2)

    /// What is remembered of a source with its listing, without a request, nil if not enough to show it.
    func remembered(_ address: String) -> Opened? {
        let own = own(address)
        guard let known = remembered(own, own?.root ?? ResourceURL(address).map { .url($0) } ?? .path(address)),
            known is FileSource || services.store.hasListing(known.root.key)
        else { return nil }
        return Opened(source: known)
    }

    /// - Parameters:
    ///   - address: of the source: a URL, or the path of a local file.
    ///   - isMounted: the process before had it: that a list cannot be read now takes no file from those that have it
    ///     open.
    func open(_ address: String, isMounted: Bool = false) throws(SourceError) -> Opened {
        let own = own(address)
        let place = own?.root ?? ResourceURL(address).map { .url($0) } ?? .path(address)
        // A known source is mounted without waiting long: its listings are refreshed at the next look.
        let known = remembered(own, place) ?? (isMounted ? mounted(place) : nil)
        let limit = known != nil ? min(Self.knownLimit, services.options.timeout) : services.options.timeout
        let deadline = now() + limit
        // All pages of a root may take longer where nothing is remembered that could be mounted.
        let search = search(until: deadline, inAll: known != nil ? .zero : FolderFetch.longest)
        let answer = own.map { search.open($0, isFile: known is FileSource) } ?? ask(known, until: deadline)
        switch answer ?? search.find(place) {
        case .found(let (source, listed)):
            if services.options.cacheKey != .url { services.store.set("place", place.key) }
            return believed(Opened(source: source, listed: listed), known)
        case .failure(let failure):
            guard case .url(let url) = place else {
                if case .unreachable = failure, known == nil, !LocalFile.isThere(address) {
                    throw .notFound(address)
                }
                return try fallBack(known, place, failure.reason, .notUsable(address, failure.reason))
            }
            let reason = reason(of: failure, at: url)
            return try fallBack(known, place, reason, .origin(url, failure, reason: reason))
        case .refused(let refusal):
            return try fallBack(known, place, refusal.reason, .notUsable(place.description, refusal.reason))
        }
    }

    /// Prefers the failure of the request that found the origin away: it says more.
    private func reason(of failure: OriginFailure, at url: ResourceURL) -> String {
        guard case .away = failure else { return failure.reason }
        let reasons = services.upstream.requests.records(of: url.with(credentials: nil)).compactMap(\.failure)
        return reasons.first { $0 != failure.reason } ?? failure.reason
    }

    /// A login page or an error in the place of a known source takes nothing away.
    private func fallBack(
        _ known: (any Source)?, _ place: SourcePlace, _ reason: String, _ error: SourceError
    ) throws(SourceError) -> Opened {
        guard let known else { throw error }
        services.logger.warning("\(place): \(reason); mounted from what is remembered")
        return Opened(source: known)
    }

    /// - Parameter known: the source that is remembered, nil if none.
    private func believed(_ opened: Opened, _ known: (any Source)?) -> Opened {
        let (source, root) = (opened.source, opened.source.root)
        if opened.listed?.entries.isEmpty == true, services.store.hasEntries(root.key) {
            services.logger.warning("\(root): an empty listing, where there was content: not believed yet")
            // The content is of the kind that it had: an empty list is one of M3U, whatever was there before.
            if let known, known.root == root { return Opened(source: known) }
            return Opened(source: source)
        }
        services.store.set("kind", type(of: source).kind)
        // Names of files are relative to it, also in a cache that is not mounted.
        services.store.set("folder", source.isQueue(root) ? "" : root.key)
        guard let (entries, mark) = opened.listed, services.longestAge(of: root, in: source) != nil else {
            return opened
        }
        let (listed, since) = compared(entries, of: root)
        let changedAt = since ?? wallClock()
        // An equal one need not be written, and keeps its date.
        if since == nil {
            services.store.remember(StoredListing(entries: listed, fetchedAt: changedAt, complete: true), for: root.key)
        }
        return Opened(source: source, listed: (listed, mark), changedAt: changedAt)
    }

    // MARK: Finding out

    private func search(until deadline: Duration, inAll: Duration) -> SourceSearch<OpeningRequests> {
        SourceSearch(
            kinds, OpeningRequests(services, until: deadline, inAll: inAll), mayGrow: services.options.growing)
    }

    /// Lists a remembered source by requests of its own, such as PROPFIND, nil if it has none, or the origin refuses
    /// them.
    private func ask(_ known: (any Source)?, until deadline: Duration) -> SourceSearch<OpeningRequests>.Found? {
        guard let known, known.hasOwnRequests else { return nil }
        let answer = search(until: deadline, inAll: .zero).list(known)
        switch answer {
        case .refused, .failure(.status): return nil
        case .found, .failure: return answer
        }
    }

    // MARK: Memory

    /// A fresh listing, with what stays of the remembered one; and the date of that one, in seconds since 1970, where
    /// both are equal.
    private func compared(_ entries: EntryList, of folder: SourcePlace) -> (list: EntryList, since: Int64?) {
        var (news, place, isSame) = (ListingNews(entries), 0, true)
        let begin = { (news, place, isSame) = (ListingNews(entries), 0, true) }
        let known = services.store.listing(folder.key, begin: begin) { stored in
            news.compare(stored)
            isSame = isSame && place < entries.count && stored.isLike(entries.stored(at: place))
            place += 1
        }
        for (url, length) in news.contradicted { services.doubt(url, length: length) }
        isSame = isSame && place == entries.count && news.contradicted.isEmpty
        return (news.list, isSame && known?.complete == true ? known?.fetchedAt : nil)
    }

    /// The source that the address names without a request.
    private func own(_ address: String) -> (any Source)? {
        kinds.lazy.compactMap { $0.recognise(address: address) }.first
    }

    private func remembered(_ own: (any Source)?, _ place: SourcePlace) -> (any Source)? {
        guard let own else { return remembered(place) }
        if services.store.hasListing(own.root.key) { return own }
        return services.wasFile ? own.file.flatMap { remembered(.url($0)) } : nil
    }

    /// A list as it was when it was mounted.
    private func mounted(_ place: SourcePlace) -> (any Source)? {
        guard case .path(let path) = place, services.store.hasListing(path),
            let name = services.store.setting("kind"), let kind = kinds.first(where: { $0.kind == name })
        else { return nil }
        return kind.init(root: place)
    }

    /// The source that is remembered of the place, nil if none that could be mounted.
    private func remembered(_ place: SourcePlace) -> (any Source)? {
        // The user names a local file, and gets an error if it is missing. Of most kinds nothing else is asked for.
        if case .path(let path) = place, services.store.setting("kind") == HLSSource.kind {
            return LocalFile.isThere(path) && services.store.hasListing(path) ? HLSSource(root: place) : nil
        }
        // Another place may have the same directory (`CacheKey.directory`): of that one nothing is remembered.
        guard services.options.cacheKey == .url || services.store.setting("place") == place.key else { return nil }
        guard case .url(let url) = place, let name = services.store.setting("kind"),
            let kind = kinds.first(where: { $0.kind == name })
        else { return nil }
        let folder = services.store.setting("folder").flatMap { $0.isEmpty ? nil : url.resolve($0) }
        var source = kind.init(root: .url(folder ?? url))
        if services.options.growing { source = source.growing }
        let isQueue = source.isQueue(source.root) && !(source is FileSource)
        return isQueue && !services.store.hasListing(url.text) ? nil : source
    }
}

/// The requests of a mount that begins. They block: nothing is mounted yet.
private final class OpeningRequests: SourceRequests {
    private let services: Services
    /// On the clock of `now()`, for all requests but further pages of a root.
    private let deadline: Duration
    /// For all pages of a root.
    private let inAll: Duration
    /// The mark of the document that was read.
    private let mark = Lock<FolderMark?>(nil)

    init(_ services: Services, until deadline: Duration, inAll: Duration) {
        (self.services, self.deadline, self.inAll) = (services, deadline, inAll)
    }

    /// A login page, a notice or an error with status 200 is no film, where a library was.
    var wasTree: Bool { services.store.setting("kind").map { $0 != FileSource.kind } ?? false }
    var wasFile: Bool { services.wasFile }

    func information(of url: ResourceURL) -> Result<ContentInformation, OriginFailure>? {
        switch wait({ InformationRequest.start(url, limit: deadline - now(), services, $0) }) {
        case .information(let information): .success(information)
        case .failure(let failure): .failure(failure)
        case .unchanged, nil: nil
        }
    }

    func found(_ information: ContentInformation, of file: ResourceURL) {
        // Whether it is the known one, and has grown, is found out by an open.
        if services.options.growing, let known = services.store.information(for: file.text)?.information,
            known.mayGrow(to: information)
        {
            return services.doubt(file)
        }
        services.store.remember(information, for: file.text, checkedAt: wallClock())
    }

    func document(at place: SourcePlace) -> SourceOutcome<SourceAnswer> {
        let document = Monitor<SourceAnswer?>(nil)
        let reader = DocumentReader(place) { answer, _ throws(SourceRefusal) in
            document.withLock { $0 = answer }
            return .entries(EntryList([]))
        }
        switch wait({ FolderFetch.start(reader, limit: deadline - now(), services, $0) }) {
        case .failure(let failure): return .failure(failure)
        case .refused(let refusal): return .refused(refusal)
        case .unchanged: return .failure(.wrongAnswer("304 to a request without a condition"))
        case .entries(_, let mark, _):
            self.mark.withLock { $0 = mark }
            return document.withLock { $0 }.map { .found($0) } ?? .failure(.timedOut)
        case nil: return .failure(.timedOut)
        }
    }

    func list(_ source: any Source, first: SourceAnswer?) -> SourceOutcome<(entries: EntryList, mark: FolderMark?)> {
        let root = source.root
        // Its first request is sent as all others are.
        services.upstream.connect(source)
        let known =
            source.isQueue(root) ? services.store.entries(at: root, links: services.options.links)?.entries : nil
        let reader = source.list(root, known: known)
        let (first, limit) = (first.map { FolderFetch.First(answer: $0, mark: mark.withLock { $0 }) }, deadline - now())
        let fetch = { [services, inAll] in
            FolderFetch.start(reader, of: root.url, first: first, limit: limit, inAll: inAll, services, $0)
        }
        switch wait(fetch) {
        case .entries(let entries, let mark, let remark):
            if let remark { services.logger.warning("\(root): \(remark)") }
            return .found((entries, mark))
        case .refused(let refusal): return .refused(refusal)
        case .failure(let failure): return .failure(failure)
        case .unchanged, nil: return .failure(.timedOut)
        }
    }

    /// The requests keep their own deadline; this limit holds where one of them fails to.
    private func wait<Answer: Sendable>(_ ask: (@escaping @Sendable (Answer) -> Void) -> Void) -> Answer? {
        let answer = Monitor<Answer?>(nil)
        ask { result in answer.withLock { $0 = result } }
        return answer.wait(atMost: max(services.options.timeout, FolderFetch.longest) + .seconds(5)) { $0 }
    }
}

extension StoredEntry {
    /// Whether both are equal, as far as `ListingNews` does not compare them: it does with the facts of files.
    fileprivate func isLike(_ other: StoredEntry) -> Bool {
        ExactText(name) == ExactText(other.name) && ExactText(url) == ExactText(other.url)
            && isDirectory == other.isDirectory && (!isDirectory || self == other)
    }
}

extension Services {
    /// Whether the source was one file when it was opened last.
    fileprivate var wasFile: Bool { store.setting("kind") == FileSource.kind }

    /// How old the listing of a folder may be, nil if it never changes.
    func longestAge(of folder: SourcePlace, in source: any Source) -> Duration? {
        source.longestAge(of: folder, refresh: options.refresh)
    }
}
