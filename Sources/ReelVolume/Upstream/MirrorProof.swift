import ReelCache
import ReelCore

/// Compares a block of a place with one that is in the cache, before a byte of that place is used: of a mirror, or of
/// the source if the version is a mirror's.
///
/// All of it except `start` runs on the transport's thread.
final class MirrorProof: OriginReceiver, @unchecked Sendable {
    /// Bytes of a version in the cache, of one block.
    struct Block: Sendable {
        let object: CacheObject
        let range: ByteRange
    }

    /// The fewest bytes that prove anything, of a file that has more.
    static let least: Int64 = 4096

    private let url: ResourceURL
    private let version: ContentInformation
    private let place: Mirrors.Place
    private let range: ByteRange
    /// The bytes as the cache has them; nil where they have left it meanwhile.
    private let own: [UInt8]?
    private let upstream: Upstream
    private var bytes: [UInt8] = []
    /// Ends a body that never stops dripping.
    private var timer: UInt64?

    private init(
        _ url: ResourceURL, _ version: ContentInformation, _ place: Mirrors.Place, _ block: Block, _ upstream: Upstream
    ) {
        (self.url, self.version, self.place, self.upstream) = (url, version, place, upstream)
        range = block.range
        var own = [UInt8](repeating: 0, count: Int(range.count))
        let read = own.withUnsafeMutableBytes { block.object.read(into: $0, at: block.range.lower) }
        // The object itself is not kept: a version that turns out to be the source's is renamed.
        self.own = read == .bytes(own.count) ? own : nil
    }

    /// Settles what is known of the place.
    /// - Parameters:
    ///   - request: the one that is made if the place agrees, as the source sends it.
    ///   - handle: of that request.
    static func start(
        _ request: OriginRequest, as handle: RequestHandle, _ version: ContentInformation, at place: Mirrors.Place,
        _ block: Block, _ upstream: Upstream
    ) {
        var question = request
        (question.range, question.condition, question.version) = (block.range, nil, version)
        (question.reason, question.isHeadEnough, question.limit) = (.probe, false, nil)
        question.stallLimit = min(request.stallLimit, Mirrors.longestSilence)
        let proof = MirrorProof(request.resource, version, place, block, upstream)
        let handle = RequestHandle(for: handle)
        let cancel = { @Sendable in handle.cancel() }
        proof.timer = upstream.ticker.after(upstream.timeout, cancel, atEnd: cancel)
        Exchange(question, as: handle, to: proof, upstream, at: place).begin()
    }

    func head(_ head: ResponseHead) -> OriginFailure? {
        switch judge(head, to: url, asked: range, isConditional: false, known: version) {
        case .range: nil
        case .failure(let failure): failure
        case .whole, .unchanged: .wrongAnswer("no range, where one was to be compared")
        }
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        upstream.counters.demandedBytes(bytes.count)
        self.bytes += bytes
        return .more
    }

    func ended(_ failure: OriginFailure?) {
        if let timer { upstream.ticker.cancel(timer) }
        let isSame = failure == nil ? own.map { $0 == bytes } : nil
        if isSame == false { upstream.mirrors?.leaveOut(url, version, at: place, "its bytes are others") }
        upstream.mirrors?.settle(url, version, at: place, isSame: isSame)
    }
}

extension Upstream {
    /// Bytes of a version in the cache to compare another place with; nil where there are too few: those of another
    /// version may be the same by chance.
    func cachedBlock(of url: ResourceURL, _ information: ContentInformation) -> MirrorProof.Block? {
        guard let length = information.length, keys.cachedBytes(of: url, length) > 0 else { return nil }
        let version = Version(key: keys.key(of: url, information), validator: information.validator, length: length)
        guard let object = try? store.object(for: version) else { return nil }
        return object.present.firstRun(ofAtLeast: min(MirrorProof.least, length)).map {
            MirrorProof.Block(object: object, range: $0)
        }
    }

    /// Finds out whether the source has the bytes that a mirror gave under this version.
    /// - Returns: false where none of them is cached, or no mirror is named any more: it is not asked then.
    func prove(
        _ url: ResourceURL, _ version: ContentInformation,
        _ completion: @escaping @Sendable (MirrorClaims.Standing) -> Void
    ) -> Bool {
        guard let mirrors, let block = cachedBlock(of: url, version) else { return false }
        let request = made(OriginRequest(url: url, reason: .probe, stallLimit: Mirrors.longestSilence))
        let ask = { [self] in MirrorProof.start(request, as: RequestHandle(), version, at: 0, block, self) }
        mirrors.find(request.resource, version, at: 0, ask: ask, completion)
        return true
    }

    /// The remembered version of a file, nil if none, or its length is not known.
    func known(_ request: OriginRequest) -> ContentInformation? {
        guard request.reason != .listing else { return nil }
        let known = store.information(for: request.resource.text)?.information
        return known?.length == nil ? nil : known
    }

    /// Whether a mirror may answer. - Parameter version: that the answer has to be of.
    func mayMirror(_ request: OriginRequest, _ version: ContentInformation?) -> Bool {
        switch request.reason {
        // A listing that is there stays, whatever fails: a mirror's may lack some of it.
        case .listing: !store.hasListing(request.resource.text)
        // They find the version out.
        case .head, .probe: true
        case .demand, .ahead, .tail, .index, .nextItem, .prefetch, .hedge, .retry: version != nil
        }
    }
}
