import ReelCore
import ReelSources

/// The outcome of a request for a source.
package enum SourceOutcome<Value> {
    case found(Value)
    case refused(SourceRefusal)
    case failure(OriginFailure)
}

/// Sends the requests of a ``SourceSearch``.
package protocol SourceRequests {
    /// The entries of a root, and what else came with them.
    associatedtype Listing

    /// Whether a tree is remembered of the place.
    var wasTree: Bool { get }
    /// Whether a file is remembered of the place.
    var wasFile: Bool { get }
    /// Asks for content information, nil if there is no answer to judge by.
    func information(of url: ResourceURL) -> Result<ContentInformation, OriginFailure>?
    /// Notes that the place is a file.
    func found(_ information: ContentInformation, of file: ResourceURL)
    /// Reads a document.
    func document(at place: SourcePlace) -> SourceOutcome<SourceAnswer>
    /// Lists the root of a source. - Parameter first: a document that need not be asked for.
    func list(_ source: any Source, first: SourceAnswer?) -> SourceOutcome<Listing>
}

/// Finds out what is at a place: a file, or which kind of source. A mount and `reelfs doctor` go this one way, each
/// with requests of its own.
package struct SourceSearch<Requests: SourceRequests> {
    package typealias Found = SourceOutcome<(source: any Source, listing: Requests.Listing)>

    private let kinds: [any Source.Type]
    private let requests: Requests
    /// Like `Source.growing`.
    private let mayGrow: Bool

    package init(_ kinds: [any Source.Type], _ requests: Requests, mayGrow: Bool = false) {
        (self.kinds, self.requests, self.mayGrow) = (kinds, requests, mayGrow)
    }

    /// A source that its address names: a folder, or else a file. - Parameter isFile: as is remembered.
    package func open(_ own: any Source, isFile: Bool) -> Found {
        guard let file = own.file else { return list(own) }
        if isFile { return find(.url(file)) }
        let folder = list(own)
        guard case .failure(let failure) = folder, failure.maySayFile else { return folder }
        let found = find(.url(file))
        if case .found = found { return found }
        return folder
    }

    /// A film is known by its first byte; what may be a document is read.
    package func find(_ place: SourcePlace) -> Found {
        // What a file server has is a file, be it a list or not: an FTP or SFTP server is named by the user alone.
        if case .url(let url) = place, url.fileProtocol != nil || !kinds.expectDocument(at: url) {
            switch requests.information(of: url) {
            case .success(let information)
            where !kinds.expectDocument(of: information.mediaType)
                || information.length ?? 0 > Int64(SourceAnswer.limit):
                if requests.wasTree { return .refused(.foreign("it is a file, where a tree was")) }
                requests.found(information, of: url)
                return list(FileSource(url, information))
            case .failure(let failure): return find(url, after: failure)
            case .success, nil: break
            }
        }
        switch requests.document(at: place) {
        case .found(let answer): return recognise(answer)
        case .refused(let refusal): return .refused(refusal)
        case .failure(let failure): return find(place.url, after: failure)
        }
    }

    /// Where a plain GET is refused: by the requests of the kinds that have others.
    private func find(_ url: ResourceURL?, after failure: OriginFailure) -> Found {
        guard let url, url.fileProtocol == nil, case .status(let status, _) = failure, !requests.wasFile else {
            return .failure(failure)
        }
        for source in kinds.lazy.compactMap({ $0.recognise(url, refusedWith: status) }) {
            switch list(source) {
            case .found(let found): return .found(found)
            // The source exists, but not with these credentials.
            case .failure(.status(401, let retryAfter)): return .failure(.status(401, retryAfter: retryAfter))
            case .refused, .failure: break
            }
        }
        return .failure(failure)
    }

    private func recognise(_ answer: SourceAnswer) -> Found {
        var refusal = SourceRefusal.foreign("it is no list of URLs (plain text, M3U, PLS or XSPF)")
        var login: OriginFailure?
        for kind in kinds {
            guard let source = kind.recognise(answer) else { continue }
            if source is FileSource, requests.wasTree { break }
            let found = list(source, first: answer)
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

    func list(_ source: any Source, first: SourceAnswer? = nil) -> Found {
        let source = mayGrow ? source.growing : source
        return switch requests.list(source, first: first) {
        case .found(let listing): .found((source, listing))
        case .refused(let refusal): .refused(refusal)
        case .failure(let failure): .failure(failure)
        }
    }
}

extension OriginFailure {
    /// Whether a server may end the listing of a file so; some SFTP servers break off.
    var maySayFile: Bool {
        if case .interrupted = self { true } else { meaning.isMissing }
    }
}

extension SourceRefusal {
    /// Whether it may be a document of another kind.
    package var isForeign: Bool {
        switch self {
        case .foreign, .cutShort: true
        case .useless, .stopped: false
        }
    }

    /// For a sentence.
    package var reason: String {
        switch self {
        case .foreign(let text), .useless(let text): text
        case .cutShort: "it seems to be cut short"
        case .stopped: "it took too long to read"
        }
    }
}
