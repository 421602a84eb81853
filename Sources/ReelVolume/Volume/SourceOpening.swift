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
        case .notFound(let source): "\(source) is neither an http(s) URL nor a file"
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

    /// - Parameter address: of the source: a URL, or the path of a local file.
    func open(_ address: String) throws(SourceError) -> Opened {
        let own = own(address)
        let place = own?.root ?? ResourceURL(address).map { .url($0) } ?? .path(address)
        // A known source is mounted without waiting long: its listings are refreshed at the next look.
        let known = remembered(own, place)
        let limit = known != nil ? min(Self.knownLimit, services.options.timeout) : services.options.timeout
        let deadline = now() + limit
        // All pages of a root may take longer where nothing is remembered that could be mounted.
        let inAll = known != nil ? .zero : FolderFetch.longest
        let answer = own.map { open($0, known, until: deadline, inAll) } ?? ask(known, until: deadline)
        switch answer ?? find(place, until: deadline, inAll) {
        case .source(let opened):
            if services.options.cacheKey != .url { services.store.set("place", place.key) }
            return believed(opened)
        case .failure(let failure):
            guard case .url(let url) = place else {
                if case .unreachable = failure, !LocalFile.isThere(address) { throw .notFound(address) }
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

    private func believed(_ opened: Opened) -> Opened {
        let (source, root) = (opened.source, opened.source.root)
        if opened.listed?.entries.isEmpty == true, services.store.hasEntries(root.key) {
            services.logger.warning("\(root): an empty listing, where there was content: not believed yet")
            return Opened(source: source)
        }
        services.store.set("kind", type(of: source).kind)
        // Names of files are relative to it, also in a cache that is not mounted.
        services.store.set("folder", source.isQueue(root) ? "" : root.key)
        guard let (entries, mark) = opened.listed, services.longestAge(of: root, in: source) != nil else {
            return opened
        }
        let listed = compared(entries, of: root)
        services.store.remember(
            StoredListing(entries: listed, fetchedAt: wallClock(), complete: true), for: root.key)
        return Opened(source: source, listed: (listed, mark))
    }

    // MARK: Finding out

    private enum Recognition {
        case source(Opened)
        case refused(SourceRefusal)
        case failure(OriginFailure)
    }

    /// Opens a source that its address names: a folder, or else a file.
    private func open(
        _ own: any Source, _ known: (any Source)?, until deadline: Duration, _ inAll: Duration
    ) -> Recognition {
        guard let file = own.file else { return list(own, nil, until: deadline, inAll) }
        if known is FileSource { return find(.url(file), until: deadline, inAll) }
        let folder = list(own, nil, until: deadline, inAll)
        guard case .failure(let failure) = folder, failure.maySayFile else { return folder }
        let found = find(.url(file), until: deadline, inAll)
        if case .source = found { return found }
        return folder
    }

    /// Lists a remembered source by requests of its own, such as PROPFIND, nil if it has none, or the origin refuses
    /// them.
    private func ask(_ known: (any Source)?, until deadline: Duration) -> Recognition? {
        guard let known, known.hasOwnRequests else { return nil }
        let answer = list(known, nil, until: deadline, .zero)
        switch answer {
        case .refused, .failure(.status): return nil
        case .source, .failure: return answer
        }
    }

    /// Blocks: nothing is mounted yet. A film is known by its first byte; what may be a document is read.
    /// - Parameters:
    ///   - deadline: on the clock of `now()`, for all requests but further pages of a root.
    ///   - inAll: for all pages of a root.
    private func find(_ place: SourcePlace, until deadline: Duration, _ inAll: Duration) -> Recognition {
        // What a file server has is a file, be it a list or not: an FTP or SFTP server is named by the user alone.
        if case .url(let url) = place, url.fileProtocol != nil || !kinds.expectDocument(at: url) {
            switch wait({ InformationRequest.start(url, limit: deadline - now(), services, $0) }) {
            case .information(let information)
            where !kinds.expectDocument(of: information.mediaType)
                || information.length ?? 0 > Int64(SourceAnswer.limit):
                if wasTree { return .refused(.foreign("it is a file, where a tree was")) }
                services.store.remember(information, for: url.text, checkedAt: wallClock())
                return list(FileSource(url, information), nil, until: deadline, inAll)
            case .failure(let failure): return find(url, after: failure, until: deadline, inAll)
            case .information, .unchanged, nil: break
            }
        }
        let document = Monitor<SourceAnswer?>(nil)
        let reader = DocumentReader(place) { answer, _ throws(SourceRefusal) in
            document.withLock { $0 = answer }
            return .entries(EntryList([]))
        }
        switch wait({ FolderFetch.start(reader, limit: deadline - now(), services, $0) }) {
        case .failure(let failure): return find(place.url, after: failure, until: deadline, inAll)
        case .refused(let refusal): return .refused(refusal)
        case .unchanged: return .failure(.wrongAnswer("304 to a request without a condition"))
        case .entries(_, let mark, _):
            guard let answer = document.withLock({ $0 }) else { break }
            return recognise(FolderFetch.First(answer: answer, mark: mark), until: deadline, inAll)
        case nil: break
        }
        return .failure(.timedOut)
    }

    /// Where a plain GET is refused: by the requests of the kinds that have others.
    private func find(
        _ url: ResourceURL?, after failure: OriginFailure, until deadline: Duration, _ inAll: Duration
    ) -> Recognition {
        guard let url, url.fileProtocol == nil, case .status(let status, _) = failure, !wasFile else {
            return .failure(failure)
        }
        for source in kinds.lazy.compactMap({ $0.recognise(url, refusedWith: status) }) {
            switch list(source, nil, until: deadline, inAll) {
            case .source(let opened): return .source(opened)
            // The source exists, but not with these credentials.
            case .failure(.status(401, let retryAfter)): return .failure(.status(401, retryAfter: retryAfter))
            case .refused, .failure: break
            }
        }
        return .failure(failure)
    }

    private func recognise(
        _ first: FolderFetch.First, until deadline: Duration, _ inAll: Duration
    ) -> Recognition {
        var refusal = SourceRefusal.foreign("it is no list of URLs (plain text, M3U, PLS or XSPF)")
        var login: OriginFailure?
        for kind in kinds {
            guard let source = kind.recognise(first.answer) else { continue }
            if source is FileSource, wasTree { break }
            let found = list(source, first, until: deadline, inAll)
            switch found {
            // It was a guess; what the plain answer lacked is said already.
            case .refused where source.hasOwnRequests: break
            case .failure(let failure) where source.hasOwnRequests:
                if case .status(401, _) = failure { login = failure }
            case .refused(let other) where other.isForeign: refusal = other
            default: return found
            }
        }
        // The source exists, but not with these credentials.
        return login.map { .failure($0) } ?? .refused(refusal)
    }

    /// The requests keep their own deadline; this limit holds where one of them fails to.
    private func wait<Answer: Sendable>(_ ask: (@escaping @Sendable (Answer) -> Void) -> Void) -> Answer? {
        let answer = Monitor<Answer?>(nil)
        ask { result in answer.withLock { $0 = result } }
        return answer.wait(atMost: max(services.options.timeout, FolderFetch.longest) + .seconds(5)) { $0 }
    }

    private func list(
        _ source: any Source, _ first: FolderFetch.First?, until deadline: Duration, _ inAll: Duration
    ) -> Recognition {
        let root = source.root
        // Its first request is sent as all others are.
        services.upstream.connect(source)
        let known =
            source.isQueue(root) ? services.store.entries(at: root, links: services.options.links)?.entries : nil
        let reader = source.list(root, known: known)
        let limit = deadline - now()
        let fetch = { FolderFetch.start(reader, of: root.url, first: first, limit: limit, inAll: inAll, services, $0) }
        switch wait(fetch) {
        case .entries(let entries, let mark, let remark):
            if let remark { services.logger.warning("\(root): \(remark)") }
            return .source(Opened(source: source, listed: (entries, mark)))
        case .refused(let refusal): return .refused(refusal)
        case .failure(let failure): return .failure(failure)
        case .unchanged, nil: return .failure(.timedOut)
        }
    }

    // MARK: Memory

    /// A fresh listing, with what stays of the remembered one.
    private func compared(_ entries: EntryList, of folder: SourcePlace) -> EntryList {
        var news = ListingNews(entries)
        _ = services.store.listing(folder.key, begin: { news = ListingNews(entries) }) { news.compare($0) }
        for url in news.contradicted { services.doubt(url) }
        return news.list
    }

    /// A login page, a notice or an error with status 200 is no film, where a library was.
    private var wasTree: Bool { services.store.setting("kind").map { $0 != FileSource.kind } ?? false }

    private var wasFile: Bool { services.store.setting("kind") == FileSource.kind }

    /// The source that the address names without a request.
    private func own(_ address: String) -> (any Source)? {
        kinds.lazy.compactMap { $0.recognise(address: address) }.first
    }

    private func remembered(_ own: (any Source)?, _ place: SourcePlace) -> (any Source)? {
        guard let own else { return remembered(place) }
        if services.store.hasListing(own.root.key) { return own }
        return wasFile ? own.file.flatMap { remembered(.url($0)) } : nil
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
        let source = kind.init(root: .url(folder ?? url))
        let isQueue = source.isQueue(source.root) && !(source is FileSource)
        return isQueue && !services.store.hasListing(url.text) ? nil : source
    }
}

extension Services {
    /// How old the listing of a folder may be, nil if it never changes.
    func longestAge(of folder: SourcePlace, in source: any Source) -> Duration? {
        source.longestAge(of: folder, refresh: options.refresh)
    }
}

extension OriginFailure {
    /// Whether a server may end the listing of a file so; some SFTP servers break off.
    package var maySayFile: Bool {
        if case .interrupted = self { true } else { meaning.isMissing }
    }
}

extension SourceRefusal {
    /// Whether it may be a document of another kind.
    fileprivate var isForeign: Bool {
        switch self {
        case .foreign, .cutShort: true
        case .useless, .stopped: false
        }
    }

    /// For a sentence.
    var reason: String {
        switch self {
        case .foreign(let text), .useless(let text): text
        case .cutShort: "it seems to be cut short"
        case .stopped: "it took too long to read"
        }
    }
}
