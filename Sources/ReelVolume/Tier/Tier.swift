import Logging
import ReelCache
import ReelCore
import ReelSources
import ReelThreads

/// A bucket that the mounts of a fleet share, as the program names it (`--tier`).
package struct TierPlace: Sendable {
    /// The name as the user wrote it.
    let name: String
    let source: S3Source
    let root: ResourceURL
    private(set) var seal: TierSeal
    /// The origin is asked in the bucket's place after so much silence.
    var patience = Mirrors.longestSilence
    /// Starts a transport that knows the keys of the bucket, and no other secret; nil where the system has no thread.
    let connect: @Sendable (Line) -> TierConnection?

    package init(
        _ address: S3Address, name: String, seal: TierSeal, connect: @escaping @Sendable (Line) -> TierConnection?
    ) {
        (self.name, source, root, self.seal) = (name, S3Source(address), address.root, seal)
        self.connect = connect
    }

    /// The same for the versions of one source. - Parameter name: as `Store.scoped` has it.
    func scoped(_ name: String) -> TierPlace {
        var place = self
        place.seal = seal.scoped(name)
        return place
    }
}

/// The transport to a bucket, and what ends it.
package struct TierConnection: Sendable {
    let origin: any Transport
    let end: @Sendable () -> Void

    package init(_ origin: any Transport, end: @escaping @Sendable () -> Void) {
        (self.origin, self.end) = (origin, end)
    }
}

/// The layer of a bucket between disk and origin: it answers requests for bytes of a version that the cache keeps, and
/// has the layer below answer for bytes that the bucket lacks, and all other requests.
///
/// What the bucket says is believed only behind a seal (`TierSlice`); where it is silent, fails, or stays slow, nothing
/// is asked of it for a while.
///
///     asked ──silence, failure──▶ avoided ──time──▶ one request tries ──answer──▶ asked
///                                    ▲────────────────────┘ no answer
final class Tier: Origin {
    /// Bytes that the bucket is asked for.
    private struct Asked {
        let url: ResourceURL
        let range: ByteRange
        /// The head of the answer has come.
        var isAnswered = false
    }

    private struct State {
        /// Requests that have not ended.
        var requests: [RequestHandle: TierRequest] = [:]
        /// Requests that ask the bucket now, and for which bytes. One that waits for another mount does not.
        var asking: [RequestHandle: Asked] = [:]
        /// On the clock of `now()`.
        var avoidedUntil = Duration.zero
        /// When it failed last.
        var failedAt = Duration.zero
        /// It failed, and has not answered since.
        var doubt: String?
        var isDoubted: Bool { doubt != nil }
        var answeredAt = Duration.zero
        /// The first trouble of late, and the last.
        var troubles: ClosedRange<Duration>?
        var readBytes: Int64 = 0

        let patience: Duration

        func isAlive(_ moment: Duration) -> Bool { moment - answeredAt < patience }

        /// Whether trouble is that of a bucket that answers others meanwhile, and not for long.
        mutating func isOnlyBusy(_ moment: Duration) -> Bool {
            guard isAlive(moment) else { return false }
            let since = troubles.flatMap { moment - $0.upperBound < Tier.avoidance * 2 ? $0.lowerBound : nil } ?? moment
            troubles = since...moment
            return moment - since <= Tier.longestBusyTime
        }
    }

    private static let avoidance = Duration.seconds(30)
    /// When many mounts begin a film at once, their bucket is busy for some seconds. One that stays so, or is so again
    /// soon after, is slow.
    private static let longestBusyTime = Duration.seconds(10)

    let place: TierPlace
    let writer: TierWriter
    let claims: TierClaims
    let below: any Origin
    /// Its thread calls the receivers, and its log has the requests to the bucket.
    let upstream: Upstream
    private let connection: TierConnection
    private let logger: Logger
    private let state: Lock<State>

    /// nil if the user names none, or the system has no thread for it.
    init?(_ place: TierPlace?, over below: any Origin, _ upstream: Upstream, _ logger: Logger) {
        guard let place else { return nil }
        guard let connection = place.connect(upstream.transport.line) else {
            logger.error("the transport of the tier \(place.name) cannot start: the mount goes on without it")
            return nil
        }
        (self.place, self.connection, self.logger) = (place, connection, logger)
        (self.below, self.upstream) = (below, upstream)
        state = Lock(State(patience: place.patience))
        writer = TierWriter(place, connection.origin, logger)
        claims = TierClaims(place, connection.origin, upstream.ticker)
    }

    /// The transport to the bucket.
    var origin: any Transport { connection.origin }

    /// The end of the mount: what is not written yet is not written.
    func shutdown() {
        writer.stop()
        connection.end()
    }

    // MARK: Requests

    func start(_ handle: RequestHandle, _ request: OriginRequest, _ receiver: any OriginReceiver) {
        guard let stored = request.stored, let version = request.version else {
            return below.start(handle, request, receiver)
        }
        if let range = request.range, Self.keeps(version), request.reason != .hedge {
            let started = TierRequest(request, range, stored, version, handle, receiver, self)
            state.withLock { $0.requests[handle] = started }
            handle.connect(to: started)
            return upstream.transport.perform { started.start() }
        }
        var (request, receiver) = (request, receiver)
        if request.reason == .hedge, let offset = request.range?.lower, serves(request.url, at: offset) {
            receiver = TierHedge(receiver, beside: self, request.url, at: offset)
            // The bucket is slow, and no place of the source.
            request.isBesideSlow = false
        }
        below.start(handle, request, receiver)
    }

    /// It has ended.
    func left(_ handle: RequestHandle) { state.withLock { $0.requests[handle] = nil } }

    /// - Parameter range: what a request asks the bucket for, nil if it asks for nothing now.
    func asks(_ handle: RequestHandle, _ url: ResourceURL, _ range: ByteRange?) {
        state.withLock { $0.asking[handle] = range.map { Asked(url: url, range: $0) } }
    }

    /// The head of an answer has come.
    func answers(_ handle: RequestHandle) { state.withLock { $0.asking[handle]?.isAnswered = true } }

    /// Whether the bucket is asked for bytes of a file at this moment. - Parameter offset: for this byte, nil for any.
    func serves(_ url: ResourceURL, at offset: Int64? = nil) -> Bool {
        state.withLock { state in
            state.asking.values.contains { $0.url == url && offset.map($0.range.contains) ?? true }
        }
    }

    /// Whether the bytes of a version are shared: only if they are the source's, and its validator distinguishes it
    /// from all others.
    static func keeps(_ information: ContentInformation) -> Bool {
        information.acceptsRanges && information.validator.mirror == 0 && information.isProven(by: information)
    }

    func slice(of version: Version, at offset: Int64) -> TierSlice { place.seal.slice(of: version, at: offset) }

    // MARK: What comes of it

    /// Whether to ask now. Of those that come after an outage, one tries.
    func mayAsk() -> Bool {
        if origin.line.isOffline { return false }
        let moment = now()
        return state.withLock { state in
            guard state.avoidedUntil <= moment else { return false }
            if state.isDoubted { state.avoidedUntil = moment + place.patience }
            return true
        }
    }

    /// Whether it has answered a moment ago.
    var isAlive: Bool { state.withLock { $0.isAlive(now()) } }

    /// - Parameter asked: when; an answer to what was asked before a failure does not say that it is over.
    func answered(asked: Duration) {
        let isNews = state.withLock { state in
            guard asked >= state.failedAt else { return false }
            defer { (state.doubt, state.avoidedUntil, state.answeredAt) = (nil, .zero, now()) }
            return state.isDoubted
        }
        if isNews { logger.notice("the tier \(place.name) answers again") }
    }

    /// The origin was faster, as it was asked beside it for a byte of a file.
    func wasSlow(_ url: ResourceURL, at offset: Int64) {
        let isTooSlow = state.withLock { state in
            guard let asked = state.asking.values.first(where: { $0.url == url && $0.range.contains(offset) })
            else { return false }
            // One that stops in an answer is not busy with others.
            return asked.isAnswered || !state.isOnlyBusy(now())
        }
        if isTooSlow { avoid("the origin was faster") }
    }

    /// Asks nothing of it for a while.
    func avoid(_ reason: String) {
        let isNews = state.withLock { state in
            let moment = now()
            defer { (state.doubt, state.avoidedUntil, state.failedAt) = (reason, moment + Self.avoidance, moment) }
            return !state.isDoubted
        }
        if isNews { logger.warning("the tier \(place.name) is left out for a while: \(reason)") }
    }

    func took(_ count: Int64) { state.withLock { $0.readBytes += count } }

    /// An object does not hold what it should: it is not asked for again before it has been written again.
    func found(damaged slice: TierSlice) {
        guard writer.distrust(slice) else { return }
        logger.warning("the tier \(place.name): \(slice.name) does not hold what was sealed, and is ignored")
    }

    var readBytes: Int64 { state.withLock { $0.readBytes } }

    var status: VolumeStatus.Tier {
        let moment = now()
        let (written, waiting, left, damaged) = writer.counts
        let trouble = writer.trouble
        return state.withLock { state in
            VolumeStatus.Tier(
                name: place.name, readBytes: state.readBytes, writtenBytes: written, waitingBytes: waiting,
                leftOutBytes: left, isAvoided: state.avoidedUntil > moment, damagedObjects: damaged,
                trouble: state.doubt ?? trouble)
        }
    }
}

/// Takes the answer of the origin that was asked beside a silent tier.
final class TierHedge: ForwardingReceiver {
    let receiver: any OriginReceiver
    private let tier: Tier
    private let url: ResourceURL
    private let offset: Int64

    init(_ receiver: any OriginReceiver, beside tier: Tier, _ url: ResourceURL, at offset: Int64) {
        (self.receiver, self.tier, self.url, self.offset) = (receiver, tier, url, offset)
    }

    func head(_ head: ResponseHead) -> OriginFailure? { receiver.head(head) }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        tier.wasSlow(url, at: offset)
        return receiver.body(bytes)
    }

    func ended(_ failure: OriginFailure?) { receiver.ended(failure) }
}

extension Services {
    /// Whether there are places beside the source itself.
    var hasOtherPlaces: Bool { upstream.mirrors != nil || tier != nil }

    /// Whether a second try beside a silent request of the file asks another place.
    /// - Parameter hasBytes: some of the version are cached.
    func hasOtherPlace(for url: ResourceURL, _ version: ContentInformation, hasBytes: Bool) -> Bool {
        upstream.mirrors?.serve(url, version, hasBytes: hasBytes) ?? false || tier?.serves(url) ?? false
    }

    /// Whether the mounts of a fleet may have what came of a file. What a mirror gives of segments is compared with
    /// nothing.
    func shares(_ file: RemoteFile) -> Bool {
        Tier.keeps(file.information) && !(upstream.mirrors?.areSome == true && upstream.joined(file.url) != nil)
    }
}

extension OriginFailure {
    /// The same sentence of the server that holds the tier.
    var reasonOfBucket: String { reason.replacing("the origin", with: "the bucket") }
}
