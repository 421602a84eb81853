import ReelCache
import ReelCore

/// Compares a block of a mirror with one that is in the cache, before a byte of the mirror is used; or a block of the
/// source with what the cache has of a mirror, where there was nothing to compare before.
///
/// All of it runs on the transport's thread.
final class MirrorProof: OriginReceiver, @unchecked Sendable {
    /// Bytes of a version in the cache, of one block.
    struct Block: Sendable {
        let object: CacheObject
        let range: ByteRange
    }

    private let url: ResourceURL
    private let version: ContentInformation
    private let place: Mirrors.Place
    private let block: Block
    private let services: Services
    private var bytes: [UInt8] = []

    private init(
        _ url: ResourceURL, _ version: ContentInformation, _ place: Mirrors.Place, _ block: Block, _ services: Services
    ) {
        (self.url, self.version, self.place, self.block, self.services) = (url, version, place, block, services)
    }

    /// Settles what is known of the mirror.
    /// - Parameters:
    ///   - request: the one that is made if the mirror agrees.
    ///   - handle: of that request.
    static func start(
        _ request: OriginRequest, as handle: RequestHandle, _ version: ContentInformation, at place: Mirrors.Place,
        _ block: Block,
        _ services: Services
    ) {
        let limit = min(request.stallLimit, Mirrors.longestSilence)
        var question = OriginRequest(
            url: request.url, range: block.range, isDemanded: request.isDemanded, reason: .probe, stallLimit: limit)
        question.subject = request.subject
        let proof = MirrorProof(request.url, version, place, block, services)
        Exchange(question, of: version, as: RequestHandle(for: handle), to: proof, services, at: place).begin()
    }

    func head(_ head: ResponseHead) -> OriginFailure? {
        switch judge(head, to: url, asked: block.range, isConditional: false, known: version) {
        case .range: nil
        case .failure(let failure): failure
        case .whole, .unchanged: .wrongAnswer("a mirror without ranges")
        }
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        services.counters.demandedBytes(bytes.count)
        self.bytes += bytes
        return .more
    }

    func ended(_ failure: OriginFailure?) {
        let isSame = failure == nil ? isSame : nil
        if place == 0 {
            if let isSame { services.mirrors?.settleUnproven(url, version, isSame: isSame) }
            if isSame == false { discard() }
        } else if isSame == false {
            services.mirrors?.leaveOut(url, version, at: place, "its bytes are others")
        }
        services.mirrors?.settle(url, version, at: place, isSame: isSame)
    }

    /// Nobody knows which of the bytes came from where.
    private func discard() {
        let length = block.object.length
        do throws(CacheError) {
            try block.object.discard(BlockSize.blocks(touching: ByteRange(0, length), length: length))
        } catch {
            services.logger.warning("\(url): what a mirror gave wrongly stays in the cache: \(error)")
        }
    }

    /// Whether the cache has the same bytes; nil where they have left it meanwhile.
    private var isSame: Bool? {
        var own = [UInt8](repeating: 0, count: Int(block.range.count))
        let read = own.withUnsafeMutableBytes { block.object.read(into: $0, at: block.range.lower) }
        return read == .bytes(bytes.count) ? own == bytes : nil
    }
}

extension Services {
    /// Bytes of a version in the cache to compare a mirror with; nil where there are none.
    /// - Parameter offset: of a byte that has to be among them; nil: any.
    func cachedBlock(
        of url: ResourceURL, _ information: ContentInformation, at offset: Int64? = nil
    ) -> MirrorProof.Block? {
        guard let length = information.length, cachedBytes(of: url, length) > 0 else { return nil }
        let version = Version(key: key(of: url, information), validator: information.validator, length: length)
        guard let object = try? store.object(for: version) else { return nil }
        let start = object.present.firstCovered(from: offset ?? 0, limit: offset.map { $0 + 1 } ?? length)
        if let offset, start > offset { return nil }
        let block = BlockSize.bytes(of: Int(start / BlockSize.block), length: length)
        let range = ByteRange(start, object.present.firstMissing(from: start, limit: block.upper))
        return range.isEmpty ? nil : MirrorProof.Block(object: object, range: range)
    }

    /// The remembered version of a file; nil: none, or its length is not known.
    func known(_ request: OriginRequest) -> ContentInformation? {
        guard request.reason != .listing else { return nil }
        let known = store.information(for: request.url.text)?.information
        return known?.length == nil ? nil : known
    }

    /// Whether a mirror may answer. - Parameter version: that the answer has to be of.
    func mayMirror(_ request: OriginRequest, _ version: ContentInformation?) -> Bool {
        switch request.reason {
        // A listing that is there stays, whatever fails: a mirror's may lack some of it.
        case .listing: !store.hasListing(request.url.text)
        // They find the version out.
        case .head, .probe: true
        case .demand, .ahead, .tail, .index, .nextItem, .prefetch, .hedge, .retry: version != nil
        }
    }
}
