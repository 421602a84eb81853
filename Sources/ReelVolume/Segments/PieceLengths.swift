import ReelCache
import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads

/// Finds the lengths of pieces: many at once, each asked for once and remembered in the index for good.
final class PieceLengths: Sendable {
    /// Pieces asked about at once: more than the loader has requests under way, and few enough for its queue.
    private static let most = 32

    /// Its own: the requests for joined files hold places in another's queue while they wait for this.
    private let loader: InformationLoader
    let services: Services

    init(_ files: FileTable, _ services: Services) {
        loader = InformationLoader(files, services)
        self.services = services
    }

    /// - Parameters:
    ///   - file: the joined file's URL.
    ///   - isGrowing: more are to come: a resource that holds several of them becomes longer.
    ///   - keys: deciphers the ends of encrypted pieces, which show the padding.
    func find(
        _ pieces: [PieceList.Piece], of file: ResourceURL, isGrowing: Bool, keys: Segments,
        _ completion: @escaping Segments.Found<[JoinedVersion.Part]>
    ) {
        if pieces.isEmpty { return completion(.success([])) }
        let search = Search(pieces, file, isGrowing, self, keys, completion)
        for _ in 0..<min(Self.most, pieces.count) { search.next() }
    }

    /// One list.
    private final class Search: Sendable {
        private struct State {
            var parts: [JoinedVersion.Part?]
            var next = 0
            var left: Int
            var isOver = false
        }

        private let pieces: [PieceList.Piece]
        private let file: ResourceURL
        private let isGrowing: Bool
        private let lengths: PieceLengths
        private let keys: Segments
        private let state: Lock<State>
        private let completion: Segments.Found<[JoinedVersion.Part]>

        init(
            _ pieces: [PieceList.Piece], _ file: ResourceURL, _ isGrowing: Bool, _ lengths: PieceLengths,
            _ keys: Segments, _ completion: @escaping Segments.Found<[JoinedVersion.Part]>
        ) {
            self.pieces = pieces
            self.file = file
            self.isGrowing = isGrowing
            self.lengths = lengths
            self.keys = keys
            self.completion = completion
            state = Lock(State(parts: Array(repeating: nil, count: pieces.count), left: pieces.count))
        }

        /// Asks about the next piece. Pieces that are remembered are done at once, in a loop and not one in another.
        func next() {
            while true {
                let place = state.withLock { state -> Int? in
                    guard !state.isOver, state.next < state.parts.count else { return nil }
                    state.next += 1
                    return state.next - 1
                }
                guard let place else { return }
                let piece = pieces[place]
                if let part = (isGrowing ? lengths.growing(piece) : nil) ?? lengths.remembered(piece) {
                    found(place, part)
                    continue
                }
                lengths.loader.load(piece.url, of: file, isDemanded: false) { [self] result in
                    switch result {
                    case .failure(let error): fail(error.failure)
                    case .success(let information):
                        lengths.measure(piece, of: information, file, keys) { [self] result in
                            switch result {
                            case .failure(let failure): fail(failure)
                            case .success(let part):
                                found(place, part)
                                next()
                            }
                        }
                    }
                }
                return
            }
        }

        private func found(_ place: Int, _ part: JoinedVersion.Part) {
            let parts = state.withLock { state -> [JoinedVersion.Part]? in
                state.parts[place] = part
                state.left -= 1
                guard state.left == 0, !state.isOver else { return nil }
                state.isOver = true
                return state.parts.compactMap { $0 }
            }
            if let parts { completion(.success(parts)) }
        }

        private func fail(_ failure: OriginFailure) {
            let isFirst = state.withLock { state in
                defer { state.isOver = true }
                return !state.isOver
            }
            if isFirst { completion(.failure(failure)) }
        }
    }

    // MARK: One piece

    /// A range says its own length, and nothing holds of a resource that becomes longer.
    private func growing(_ piece: PieceList.Piece) -> JoinedVersion.Part? {
        guard let range = piece.range, piece.cipher == nil else { return nil }
        return JoinedVersion.Part(piece: piece, resource: nil, length: range.count)
    }

    /// What the index has of a piece, nil if something is missing, or was contradicted.
    private func remembered(_ piece: PieceList.Piece) -> JoinedVersion.Part? {
        guard let known = services.store.information(for: piece.url.text), !known.isDoubted,
            case .success(let length) = stored(piece, of: known.information)
        else { return nil }
        if piece.cipher == nil { return JoinedVersion.Part(piece: piece, resource: known.information, length: length) }
        guard let plain = services.store.information(for: piece.key)?.information,
            plain.validator == known.information.validator, let inner = plain.length,
            (length - PieceCipher.block..<length).contains(inner)
        else { return nil }
        return JoinedVersion.Part(piece: piece, resource: known.information, length: inner)
    }

    /// Bytes of a piece as its resource has them.
    private func stored(_ piece: PieceList.Piece, of resource: ContentInformation) -> Result<Int64, OriginFailure> {
        guard let whole = resource.length else { return .failure(.wrongAnswer("a segment tells no length")) }
        guard piece.range?.upper ?? whole <= whole else {
            return .failure(.wrongAnswer("a byte range beyond the end of its resource"))
        }
        let length = piece.range?.count ?? whole
        guard piece.cipher == nil || length > 0 && length % PieceCipher.block == 0 else {
            return .failure(.wrongAnswer("an encrypted segment that is not made of whole blocks"))
        }
        return .success(length)
    }

    private func measure(
        _ piece: PieceList.Piece, of resource: ContentInformation, _ file: ResourceURL, _ keys: Segments,
        _ completion: @escaping Segments.Found<JoinedVersion.Part>
    ) {
        let length: Int64
        switch stored(piece, of: resource) {
        case .failure(let failure):
            // It may have become longer since.
            services.doubt(piece.url)
            return completion(.failure(failure))
        case .success(let found): length = found
        }
        let part = JoinedVersion.Part(piece: piece, resource: resource, length: length)
        guard let cipher = piece.cipher else { return completion(.success(part)) }
        if let part = remembered(piece) { return completion(.success(part)) }
        let limit = services.options.timeout
        keys.key(at: cipher.key, of: file, limit: limit, services) { [self] result in
            switch result {
            case .failure(let failure): completion(.failure(failure))
            case .success(let key):
                readPadding(part, in: resource, of: file, key, limit) { found in
                    // The film may be encrypted again, with another key at the same URL.
                    if case .failure(.wrongAnswer) = found { keys.forget(key: cipher.key) }
                    completion(found)
                }
            }
        }
    }

    /// Reads the last block of an encrypted piece, whose last byte is the length of its padding (PKCS #7).
    private func readPadding(
        _ part: JoinedVersion.Part, in resource: ContentInformation, of file: ResourceURL, _ key: [UInt8],
        _ limit: Duration, _ completion: @escaping Segments.Found<JoinedVersion.Part>
    ) {
        let end = ByteRange(part.length - PieceCipher.block, part.length)
        retrying(until: now() + limit, services) { [services] left, done in
            let collector = BlockCollector(services, done)
            let request = PieceRequest(
                part.piece, of: resource, end, key: key, isDemanded: true, reason: .probe, of: file,
                stallLimit: left, to: collector)
            guard let request else { return done(.failed(.wrongAnswer("a key that is none"))) }
            services.origin.start(request.request, request)
        } completion: { [services] (outcome: BlockCollector.Outcome) in
            switch outcome {
            case .failed(let failure):
                // The piece is another one than what is remembered of it, which the next look asks for again.
                if failure.meaning.isContradiction { services.doubt(part.piece.url) }
                completion(.failure(failure))
            case .block(let bytes):
                guard let count = bytes.last, (1...16).contains(count),
                    bytes.suffix(Int(count)).allSatisfy({ $0 == count })
                else { return completion(.failure(.wrongAnswer("an encrypted segment that its key does not open"))) }
                let plain = JoinedVersion.Part(
                    piece: part.piece, resource: resource, length: part.length - Int64(count))
                services.store.remember(
                    ContentInformation(length: plain.length, validator: resource.validator), for: part.piece.key,
                    checkedAt: wallClock())
                completion(.success(plain))
            }
        }
    }
}

extension PieceList.Piece {
    /// Under which the index has the length of the deciphered bytes: no URL has a `#`. Another key means other bytes,
    /// and so another validator of the resource; where keys are is not written down, as it may be a secret.
    fileprivate var key: String {
        let vector = cipher.map { "\($0.initialVector.high)-\($0.initialVector.low)" } ?? ""
        return "\(url.text)#\(range?.description ?? "") \(vector)"
    }
}

extension VolumeError {
    /// What a request that ended so failed with, as far as that is known.
    fileprivate var failure: OriginFailure {
        switch self {
        case .accessDenied: .status(403, retryAfter: nil)
        case .stale: .status(404, retryAfter: nil)
        case .timedOut: .timedOut
        case .unreachable, .offline: .unreachable("the origin of a segment")
        default: .wrongAnswer("a segment that cannot be asked for")
        }
    }
}

/// Collects the bytes of one small answer.
private final class BlockCollector: OriginReceiver {
    enum Outcome: Attempted {
        case block([UInt8])
        case failed(OriginFailure)

        var failure: OriginFailure? { if case .failed(let failure) = self { failure } else { nil } }
    }

    private let bytes = Lock<[UInt8]>([])
    private let services: Services
    private let done: @Sendable (Outcome) -> Void

    init(_ services: Services, _ done: @escaping @Sendable (Outcome) -> Void) {
        self.services = services
        self.done = done
    }

    func head(_: ResponseHead) -> OriginFailure? { nil }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        services.counters.demandedBytes(bytes.count)
        self.bytes.withLock { $0 += bytes }
        return .more
    }

    func ended(_ failure: OriginFailure?) {
        done(failure.map { .failed($0) } ?? .block(bytes.withLock { $0 }))
    }
}
