import Glibc
import Logging
import ReelCache
import ReelCore
import ReelSources
import ReelThreads

/// Why a source cannot be mounted; `description` is the one sentence for the user.
package enum SourceError: Error, CustomStringConvertible {
    case notFound(String)
    case notUsable(String, String)
    case origin(ResourceURL, OriginFailure)

    package var description: String {
        switch self {
        case .notFound(let source): "\(source) is neither an http(s) URL nor a file"
        case .notUsable(let source, let reason): "\(source) cannot be mounted: \(reason)"
        case .origin(let url, let failure):
            "\(url) cannot be mounted: \(failure.reason), and nothing is remembered of it"
        }
    }
}

extension OriginFailure {
    /// For a sentence.
    package var reason: String {
        switch self {
        case .unreachable(let text): "the origin cannot be reached (\(text))"
        case .interrupted(let text): "the answer broke off (\(text))"
        case .timedOut: "the origin did not answer in time"
        case .status(let status, _): "the origin answers \(status)"
        case .wrongAnswer(let text): "the origin's answer is of no use (\(text))"
        case .untrusted(let text): "the origin's certificate is not trusted (\(text))"
        case .changed: "it has changed meanwhile"
        case .away: "the origin is away"
        case .cancelled: "the request was cancelled"
        }
    }
}

/// What a SOURCE is: looked at once at mount time, then remembered, so that a mount starts without network.
struct SourceOpening {
    let services: Services

    private enum Kind: String {
        case file, listing, list
    }

    /// As long as an open waits for a confirmation.
    private static let knownLimit = Duration.seconds(2)

    /// - Parameter source: an http(s) URL, or the path of a list.
    func open(_ source: String) throws(SourceError) -> Source {
        guard let url = ResourceURL(source) else { return try openLocal(source) }
        // What is known is mounted without waiting long: its listings are refreshed when somebody looks.
        let isKnown = isRemembered(url)
        let limit = isKnown ? min(SourceOpening.knownLimit, services.options.timeout) : services.options.timeout
        switch fetch(url, until: now() + limit) {
        case .source(.listing(let folder, let entries), _) where entries?.isEmpty == true && hasEntries(folder):
            services.logger.warning("\(url): an empty listing, where there was content: not believed yet")
            return .listing(folder, nil)
        case .source(let source, let kind):
            services.store.set("kind", kind.rawValue)
            switch source {
            case .file: break
            case .list(let entries): remember(entries, for: url)
            case .listing(let folder, let entries):
                services.store.set("folder", folder.text)
                let entries = compared(entries ?? EntryList([]), of: folder)
                remember(entries, for: folder)
                return .listing(folder, entries)
            }
            return source
        case .useless(let reason): return try fallBack(url, reason, .notUsable(url.description, reason))
        case .failure(let failure): return try fallBack(url, failure.reason, .origin(url, failure))
        }
    }

    /// A login page or an error in the place of a known source takes nothing away.
    private func fallBack(_ url: ResourceURL, _ reason: String, _ error: SourceError) throws(SourceError) -> Source {
        guard let source = remembered(url) else { throw error }
        services.logger.warning("\(url): \(reason); mounted from what is remembered")
        return source
    }

    // MARK: A path

    private func openLocal(_ path: String) throws(SourceError) -> Source {
        let bytes = try contents(of: path)
        guard let format = PlaylistFormat.detect(bytes, mediaType: nil, fileExtension: fileExtension(path)) else {
            throw .notUsable(path, "it is no list of URLs (plain text, M3U, PLS or XSPF)")
        }
        let deadline = now() + services.options.timeout
        return .list(try entries(of: bytes, format, base: nil, name: path, until: deadline))
    }

    private func entries(
        of bytes: [UInt8], _ format: PlaylistFormat, base: ResourceURL?, name: String, until deadline: Duration
    ) throws(SourceError) -> EntryList {
        let list: Playlist
        do throws(PlaylistError) {
            list = try Playlist.parse(bytes, format: format, base: base, isOver: services.isOver(at: deadline))
        } catch {
            throw .notUsable(name, "the list cannot be read (\(error))")
        }
        if let reason = list.skipped.reason {
            services.logger.warning("\(name): \(reason)")
        }
        guard !list.entries.isEmpty else { throw .notUsable(name, "the list names no http(s) URL") }
        return list.entries
    }

    // MARK: A URL

    private enum Found: Sendable {
        case source(Source, Kind)
        case useless(String)
        case failure(OriginFailure)
    }

    /// Blocks: nothing is mounted yet. A film is known by its first byte; what may be a document is read.
    /// - Parameter deadline: on the clock of `now()`, for both requests together.
    private func fetch(_ url: ResourceURL, until deadline: Duration) -> Found {
        if !SourceDocument.isPromised(by: url) {
            switch wait({ Inquiry.start(url, limit: deadline - now(), services, $0) }) {
            case .information(let information)
            where !SourceDocument.isPromised(by: information.mediaType)
                || information.length ?? 0 > Int64(BodyFetch.limit):
                if wasTree { return .useless("it is a file, where a tree was") }
                services.store.remember(information, for: url.text, checkedAt: wallClock())
                return fileSource(url, information)
            case .failure(let failure): return .failure(failure)
            case .information, .unchanged, nil: break
            }
        }
        switch wait({ BodyFetch.start(url, limit: deadline - now(), services, $0) }) {
        case .document(let document): return interpret(document, url, until: deadline)
        case .unchanged: return .useless("304 to a request without a condition")
        case .failure(let failure): return .failure(failure)
        case nil: return .failure(.timedOut)
        }
    }

    /// What is asked keeps its own time; the limit here is the belt to its braces.
    private func wait<Answer: Sendable>(_ ask: (@escaping @Sendable (Answer) -> Void) -> Void) -> Answer? {
        let answer = Monitor<Answer?>(nil)
        ask { result in answer.withLock { $0 = result } }
        return answer.wait(atMost: services.options.timeout + .seconds(5)) { $0 }
    }

    private func interpret(_ document: BodyFetch.Document, _ url: ResourceURL, until deadline: Duration) -> Found {
        guard document.isWhole else { return .failure(.interrupted("\(url.origin): the page has no end")) }
        let head = document.head
        let found = SourceDocument(document.bytes, mediaType: head.mediaType, source: url, place: head.url)
        if let format = found.format {
            do throws(SourceError) {
                let entries = try entries(
                    of: document.bytes, format, base: found.base, name: url.description, until: deadline)
                return .source(.list(entries), .list)
            } catch {
                // The name is said around it.
                if case .notUsable(_, let reason) = error { return .useless(reason) }
                return .useless("\(error)")
            }
        }
        do throws(ListingError) {
            let entries = try Listing.parse(
                document.bytes, mediaType: head.mediaType, url: found.folder, isOver: services.isOver(at: deadline))
            return .source(.listing(found.folder, entries), .listing)
        } catch {
            if error == .stopped { return .failure(.timedOut) }
            if url.path.hasSuffix("/") || wasTree {
                return .useless("it is no directory listing (\(error))")
            }
            let validator = Validator(entityTag: head.entityTag, lastModified: head.lastModified)
            return fileSource(url, ContentInformation(length: head.contentLength, validator: validator))
        }
    }

    private func fileSource(_ url: ResourceURL, _ information: ContentInformation) -> Found {
        .source(.file(fileEntry(url, information)), .file)
    }

    private func fileEntry(_ url: ResourceURL, _ information: ContentInformation?) -> SourceEntry {
        let bytes = url.lastSegment.isEmpty ? Array(url.host.utf8) : url.lastSegment
        return SourceEntry(
            name: SafeName.make(bytes), url: url, isDirectory: false, length: information?.length,
            modified: information?.validator.lastModified)
    }

    // MARK: Memory

    /// A fresh listing, with what stays of the remembered one.
    private func compared(_ entries: EntryList, of folder: ResourceURL) -> EntryList {
        var news = ListingNews(entries)
        _ = services.store.listing(folder.text, begin: { news = ListingNews(entries) }) { news.compare($0) }
        for url in news.contradicted { services.doubt(url) }
        return news.list
    }

    private func remember(_ entries: EntryList, for url: ResourceURL) {
        services.store.remember(
            RememberedListing(entries: entries, fetchedAt: wallClock(), complete: true), for: url.text)
    }

    /// A login page, a notice or an error with status 200 is no film, where a library was.
    private var wasTree: Bool { kind == .listing || kind == .list }

    private var kind: Kind? { services.store.setting("kind").flatMap { Kind(rawValue: $0) } }

    private func hasEntries(_ folder: ResourceURL) -> Bool {
        services.store.hasEntries(folder.text)
    }

    /// Whether `remembered` would find something, without a list that may be long.
    private func isRemembered(_ url: ResourceURL) -> Bool {
        kind == .list ? services.store.hasListing(url.text) : remembered(url) != nil
    }

    private func remembered(_ url: ResourceURL) -> Source? {
        switch kind {
        case .file:
            return .file(fileEntry(url, services.store.information(for: url.text)?.information))
        case .listing:
            // Where the source led to, which its listings are remembered under.
            return services.store.setting("folder").flatMap { url.resolve($0) }.map { .listing($0, nil) }
        case .list:
            return services.store.entries(under: url).map { .list($0.entries) }
        case nil: return nil
        }
    }
}

/// The bytes of a local list. Only of a regular file: a pipe or a device might keep the mount waiting for ever.
private func contents(of path: String) throws(SourceError) -> [UInt8] {
    let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    guard descriptor >= 0 else { throw .notFound(path) }
    defer { Glibc.close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
        throw .notUsable(path, "it is no regular file")
    }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    while bytes.count <= BodyFetch.limit {
        let count = Glibc.read(descriptor, &buffer, buffer.count)
        if count < 0 { throw .notFound(path) }
        if count == 0 { return bytes }
        bytes += buffer[..<count]
    }
    throw .notUsable(path, "a list has \(BodyFetch.limit >> 20) MiB at most")
}
