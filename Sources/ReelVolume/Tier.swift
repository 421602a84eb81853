import Logging
import ReelCache
import ReelCore
import ReelSources
import ReelThreads

/// A bucket that the mounts of a fleet share, as the program names it (`--tier`).
package struct TierPlace: Sendable {
    /// As the user wrote it.
    let name: String
    let source: S3Source
    let root: ResourceURL
    let seal: TierSeal
    /// Starts a transport that knows the keys of the bucket, and no other secret; nil where the system has no thread.
    let connect: @Sendable (Line) -> TierConnection?

    package init(
        _ address: S3Address, name: String, seal: TierSeal, connect: @escaping @Sendable (Line) -> TierConnection?
    ) {
        (self.name, source, root, self.seal) = (name, S3Source(address), address.root, seal)
        self.connect = connect
    }
}

/// The transport to a bucket, and what ends it.
package struct TierConnection: Sendable {
    let origin: any Origin
    let end: @Sendable () -> Void

    package init(_ origin: any Origin, end: @escaping @Sendable () -> Void) { (self.origin, self.end) = (origin, end) }
}

/// A bucket between disk and origin. What it says is believed only behind a seal (`TierSlice`); where it is silent or
/// fails, nothing is asked of it for a while.
///
///     asked ──silence, failure──▶ avoided ──time──▶ one request tries ──answer──▶ asked
///                                    ▲────────────────────┘ no answer
final class Tier: Sendable {
    private struct State {
        /// Those that have not ended.
        var requests: [RequestHandle: TierRequest] = [:]
        /// Those of them that ask the bucket now, and for what.
        var asking: [RequestHandle: ResourceURL] = [:]
        /// On the clock of `now()`.
        var avoidedUntil = Duration.zero
        /// It failed, and has not answered since.
        var isDoubted = false
        var readBytes: Int64 = 0
    }

    /// The origin is asked in its place after so much silence.
    static let longestSilence = Mirrors.longestSilence
    private static let avoidance = Duration.seconds(30)

    let place: TierPlace
    let writer: TierWriter
    let claims: TierClaims
    private let connection: TierConnection
    private let logger: Logger
    private let state = Lock(State())

    /// nil: the user names none, or the system has no thread for it.
    init?(_ place: TierPlace?, _ line: Line, _ logger: Logger) {
        guard let place else { return nil }
        guard let connection = place.connect(line) else {
            logger.error("the transport of the tier \(place.name) cannot start: the mount goes on without it")
            return nil
        }
        (self.place, self.connection, self.logger) = (place, connection, logger)
        writer = TierWriter(place, connection.origin, logger)
        claims = TierClaims(place, connection.origin)
    }

    var origin: any Origin { connection.origin }

    /// The end of the mount: what is not written yet is not written.
    func shutdown() {
        writer.stop()
        connection.end()
    }

    // MARK: Requests

    /// Starts a request for bytes of a version that the bucket may have. - Returns: false where it is not asked.
    func start(
        _ request: OriginRequest, of version: Version, _ information: ContentInformation, as handle: RequestHandle,
        to receiver: any OriginReceiver, _ services: Services
    ) -> Bool {
        guard let range = request.range, Self.keeps(information), request.reason != .hedge else { return false }
        let started = TierRequest(request, range, version, information, handle, receiver, self, services)
        state.withLock { $0.requests[handle] = started }
        services.origin.perform { started.start() }
        return true
    }

    /// - Returns: false where the request is another's.
    func withRequest(
        _ handle: RequestHandle, _ services: Services, _ job: @escaping @Sendable (TierRequest) -> Void
    ) -> Bool {
        guard let request = state.withLock({ $0.requests[handle] }) else { return false }
        services.origin.perform { job(request) }
        return true
    }

    /// It has ended.
    func left(_ handle: RequestHandle) { state.withLock { $0.requests[handle] = nil } }

    /// - Parameter url: what the request asks the bucket for; nil: it asks for nothing now.
    func asks(_ handle: RequestHandle, _ url: ResourceURL?) { state.withLock { $0.asking[handle] = url } }

    /// Whether the bucket is asked for bytes of a file at this moment.
    func serves(_ url: ResourceURL) -> Bool { state.withLock { $0.asking.values.contains(url) } }

    /// Whether the bytes of a version are shared: only where its validator tells it from all others.
    static func keeps(_ information: ContentInformation) -> Bool {
        information.acceptsRanges && information.isProven(by: information)
    }

    func slice(of version: Version, at offset: Int64) -> TierSlice { place.seal.slice(of: version, at: offset) }

    // MARK: What comes of it

    /// Whether to ask now. Of those that come after an outage, one tries.
    func mayAsk() -> Bool {
        if origin.line.isOffline { return false }
        let moment = now()
        return state.withLock { state in
            guard state.avoidedUntil <= moment else { return false }
            if state.isDoubted { state.avoidedUntil = moment + Self.longestSilence }
            return true
        }
    }

    func answered() {
        let isNews = state.withLock { state in
            defer { (state.isDoubted, state.avoidedUntil) = (false, .zero) }
            return state.isDoubted
        }
        if isNews { logger.notice("the tier \(place.name) answers again") }
    }

    /// It failed, or was slower than the origin.
    func avoid(_ reason: String) {
        let isNews = state.withLock { state in
            defer { (state.isDoubted, state.avoidedUntil) = (true, now() + Self.avoidance) }
            return !state.isDoubted
        }
        if isNews { logger.warning("the tier \(place.name) is left out for a while: \(reason)") }
    }

    func took(_ count: Int64) { state.withLock { $0.readBytes += count } }

    /// An object does not hold what it should: it is not asked for again before it has been written anew.
    func found(damaged slice: TierSlice) {
        guard writer.distrust(slice) else { return }
        logger.warning("the tier \(place.name): \(slice.name) does not hold what was sealed, and is ignored")
    }

    var readBytes: Int64 { state.withLock { $0.readBytes } }

    var status: VolumeStatus.Tier {
        let moment = now()
        let (written, waiting, left, damaged) = writer.counts
        return state.withLock { state in
            VolumeStatus.Tier(
                name: place.name, readBytes: state.readBytes, writtenBytes: written, waitingBytes: waiting,
                leftOutBytes: left, isAvoided: state.avoidedUntil > moment, damagedObjects: damaged)
        }
    }
}

/// Takes the answer of the origin that was asked beside a silent tier.
final class TierHedge: ForwardingReceiver {
    let receiver: any OriginReceiver
    private let tier: Tier

    init(_ receiver: any OriginReceiver, beside tier: Tier) { (self.receiver, self.tier) = (receiver, tier) }

    func head(_ head: ResponseHead) -> OriginFailure? { receiver.head(head) }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        tier.avoid("the origin was faster")
        return receiver.body(bytes)
    }

    func ended(_ failure: OriginFailure?) { receiver.ended(failure) }
}

extension Services {
    /// Fetches bytes of a version: from the tier as far as it has them, else from the origin.
    func fetch(
        _ request: OriginRequest, of version: Version, _ information: ContentInformation, as handle: RequestHandle,
        to receiver: any OriginReceiver
    ) {
        guard let tier else {
            send(request, of: information, as: handle, to: receiver)
            return
        }
        if tier.start(request, of: version, information, as: handle, to: receiver, self) { return }
        let isBeside = request.reason == .hedge && tier.serves(request.url)
        send(request, of: information, as: handle, to: isBeside ? TierHedge(receiver, beside: tier) : receiver)
    }

    /// Whether there are places beside the source itself.
    var hasOtherPlaces: Bool { mirrors != nil || tier != nil }

    /// Whether a second try beside a silent request of the file asks another place.
    func hasOtherPlace(for url: ResourceURL, _ version: ContentInformation) -> Bool {
        mirrors?.serve(url, version) ?? false || tier?.serves(url) ?? false
    }
}
