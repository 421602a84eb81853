import ReelCache
import ReelCore
import ReelSources
import ReelThreads

/// The layer of files that are joined of pieces: their versions, their keys, and the requests for their bytes. It hands
/// all other requests on to the layer below.
final class Segments: Origin {
    typealias Found<Value> = @Sendable (Result<Value, OriginFailure>) -> Void

    private struct Known {
        var version: JoinedVersion
        var mark: FolderMark?
        /// On the clock of `now()`.
        var askedAt: Duration
        /// The playlist has to be asked for again.
        var isDoubted = false

        func isFresh(_ moment: Duration) -> Bool {
            !isDoubted && moment - askedAt < (version.isGrowing ? Segments.growingFreshFor : Segments.freshFor)
        }

        /// Whether a newer playlist may go on from this one: its first segments may have gone.
        func isFollowed(_ moment: Duration) -> Bool {
            version.isGrowing && moment - askedAt < Segments.followedFor
        }
    }

    private struct State {
        var known: [ResourceURL: Known] = [:]
        var finding: [ResourceURL: [Found<JoinedVersion>]] = [:]
        /// In memory alone.
        var keys: [ResourceURL: [UInt8]] = [:]
        var asking: [ResourceURL: [Found<[UInt8]>]] = [:]
        var requests: [RequestHandle: JoinedRequest] = [:]
        /// nil before the volume is made, and after its end: no file is joined then.
        var lengths: PieceLengths?
    }

    /// The time that a file's confirmation holds: programs open a file several times in a row.
    private static let freshFor = Duration.seconds(5)
    /// The same for one that grows: less than there is between two looks (`Growth`).
    private static let growingFreshFor = Duration.seconds(1)
    /// A file that grows, and that nobody has looked at for so long, begins again where its playlist begins.
    private static let followedFor = Duration.seconds(60)
    /// Pieces of all versions in memory: some hundred bytes each.
    private static let mostPieces = 2 * HLSPlaylist.mostPieces
    private static let mostKeys = 10_000

    private let state = Lock(State())
    let below: Upstream

    init(over below: Upstream) { self.below = below }

    /// Joins files from now on.
    func connect(_ lengths: PieceLengths) { state.withLock { $0.lengths = lengths } }

    // MARK: Requests

    func start(_ handle: RequestHandle, _ request: OriginRequest, _ receiver: any OriginReceiver) {
        guard let file = below.joined(request.url), let lengths = state.withLock({ $0.lengths }) else {
            return below.start(handle, request, receiver)
        }
        let joined = JoinedRequest(handle, request, file, receiver, self, lengths)
        state.withLock { $0.requests[handle] = joined }
        handle.connect(to: joined)
        below.transport.perform { joined.start() }
    }

    /// Ends all requests, also those that wait for a playlist or for a key and not for the transport.
    func end() {
        let (all, _) = state.withLock { (Array($0.requests.values), $0.lengths.take()) }
        below.transport.perform { for request in all { request.cancel() } }
    }

    /// It has ended.
    func left(_ handle: RequestHandle) { state.withLock { $0.requests[handle] = nil } }

    // MARK: Versions

    /// The version in memory, nil if none.
    func version(of url: ResourceURL) -> JoinedVersion? { state.withLock { $0.known[url]?.version } }

    /// Has the playlist and the lengths of its pieces asked for again at the next look. One that grows goes on from
    /// what is known, as its first pieces may have gone.
    func forget(_ url: ResourceURL) {
        state.withLock { state in
            if state.known[url]?.version.isGrowing == true {
                state.known[url]!.isDoubted = true
            } else {
                state.known[url] = nil
            }
        }
    }

    /// The version that a known one has become, where that has all of it at the same places; nil if there is none.
    func continuation(of known: ContentInformation, at url: ResourceURL) -> ContentInformation? {
        version(of: url).flatMap { $0.continues(known) ? $0.information : nil }
    }

    /// Finds the version that the playlist describes now. Joins the search for it that is under way.
    /// - Parameters:
    ///   - url: what the file is known by.
    ///   - limit: for the playlist, with its retries.
    func find(
        _ file: JoinedFile, as url: ResourceURL, limit: Duration, _ lengths: PieceLengths,
        _ completion: @escaping Found<JoinedVersion>
    ) {
        let moment = now()
        let (known, isFirst) = state.withLock { state -> (Known?, Bool) in
            if let known = state.known[url], known.isFresh(moment) { return (known, false) }
            state.finding[url, default: []].append(completion)
            return (nil, state.finding[url]?.count == 1)
        }
        if let known { return completion(.success(known.version)) }
        guard isFirst else { return }
        let last = state.withLock { $0.known[url] }
        let box = Box<PieceList?>(nil)
        let reader = DocumentReader(file.playlist) { answer, isOver throws(SourceRefusal) in
            let pieces = try file.pieces(answer, isOver)
            box.put(pieces)
            return .entries(EntryList([]))
        }
        FolderFetch.start(reader, of: url, known: last?.mark, limit: limit, lengths.services) { [self] outcome in
            switch outcome {
            case .unchanged:
                guard let last else { return finish(url, .failure(.wrongAnswer("304 without a condition"))) }
                finish(url, .success(Known(version: last.version, mark: last.mark, askedAt: now())))
            case .refused(let refusal): finish(url, .failure(.wrongAnswer(refusal.reason)))
            case .failure(let failure): finish(url, .failure(failure))
            case .entries(_, let mark, _):
                guard let list = box.value else { return finish(url, .failure(.wrongAnswer("no playlist"))) }
                let followed = last.flatMap { $0.isFollowed(moment) ? $0.version : nil }
                let rest = followed.flatMap { list.rest(after: $0.parts.map(\.piece)) }
                let before = rest == nil ? nil : followed
                // Of a film that was encrypted again the key may be another in the same place, and what the old one
                // makes of a segment ends like a good one now and then.
                if rest == nil, last?.version.parts.map(\.piece) != list.pieces {
                    for key in Set(list.pieces.compactMap { $0.cipher?.key }) { forget(key: key) }
                }
                lengths.find(rest ?? list.pieces, of: url, isGrowing: list.isGrowing, keys: self) { [self] result in
                    let found = result.flatMap { parts in
                        JoinedVersion(parts, mediaType: list.mediaType, isGrowing: list.isGrowing, after: before)
                            .map { .success(Known(version: $0, mark: mark, askedAt: now())) }
                            ?? .failure(.wrongAnswer("segments longer than any file"))
                    }
                    finish(url, found)
                }
            }
        }
    }

    private func finish(_ url: ResourceURL, _ result: Result<Known, OriginFailure>) {
        let waiting = state.withLock { state in
            if case .success(let known) = result {
                let count = state.known.values.reduce(known.version.parts.count) { $0 + $1.version.parts.count }
                if count > Self.mostPieces { state.known = [:] }
                state.known[url] = known
            }
            return state.finding.removeValue(forKey: url) ?? []
        }
        for completion in waiting { completion(result.map(\.version)) }
    }

    // MARK: Keys

    /// It opens nothing: the next piece asks for it again.
    func forget(key url: ResourceURL) { state.withLock { $0.keys[url] = nil } }

    /// A key, 16 bytes. Joins the request for it that is under way.
    /// - Parameter file: the joined file's URL.
    func key(
        at url: ResourceURL, of file: ResourceURL, limit: Duration, _ services: Services,
        _ completion: @escaping Found<[UInt8]>
    ) {
        let (known, isFirst) = state.withLock { state -> ([UInt8]?, Bool) in
            if let key = state.keys[url] { return (key, false) }
            state.asking[url, default: []].append(completion)
            return (nil, state.asking[url]?.count == 1)
        }
        if let known { return completion(.success(known)) }
        guard isFirst else { return }
        let box = Box<[UInt8]?>(nil)
        let reader = DocumentReader(.url(url)) { answer, _ throws(SourceRefusal) in
            guard answer.bytes.count == PieceCipher.block else { throw .foreign("it is no key of 16 bytes") }
            box.put(answer.bytes)
            return .entries(EntryList([]))
        }
        FolderFetch.start(reader, of: file, limit: limit, services) { [self] outcome in
            var result = Result<[UInt8], OriginFailure>.failure(.wrongAnswer("it is no key of 16 bytes"))
            if let key = box.value { result = .success(key) }
            if case .failure(let failure) = outcome { result = .failure(failure) }
            let waiting = state.withLock { state in
                if case .success(let key) = result {
                    if state.keys.count >= Self.mostKeys { state.keys = [:] }
                    state.keys[url] = key
                }
                return state.asking.removeValue(forKey: url) ?? []
            }
            for completion in waiting { completion(result) }
        }
    }
}

/// Takes what a reader finds.
private final class Box<Value: Sendable>: Sendable {
    private let state: Lock<Value>

    init(_ value: Value) { state = Lock(value) }

    var value: Value { state.withLock { $0 } }
    func put(_ value: Value) { state.withLock { $0 = value } }
}
