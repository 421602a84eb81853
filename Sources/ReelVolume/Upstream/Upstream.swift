import Logging
import ReelCache
import ReelCore
import ReelSources
import ReelThreads
import Synchronization

/// The layer over the transport: sends each request the way that the source wants, to a place that has the bytes, and
/// knows how origins fare.
final class Upstream: Origin {
    let transport: any Transport
    let store: Store
    let keys: FileKeys
    let counters: Counters
    let ticker: Ticker
    /// The time after which a read, an open or a request for a listing fails.
    let timeout: Duration
    /// nil if files are asked for at their URLs.
    let resolver: Resolver?
    /// nil if the source has none, and no shared cache.
    let mirrors: Mirrors?
    /// What was asked for in the last hours.
    let requests: RequestLog
    let failures = LastFailures()
    /// How each origin fares.
    let origins: OriginTable
    /// How many requests at a time each origin is worth.
    let concurrency = ConcurrencyLimits()
    /// For links that have expired.
    private let links = LinkRenewal()

    private struct State {
        /// Changes each request before it leaves; nil until the source is known.
        var source: (any Source)?
        /// Origins that are away and looked for.
        var missed: Set<String> = []
    }

    private let state = Lock(State())
    /// The source's list had signatures when it was read last.
    private let wasSigned = Atomic(false)
    private let logger: Logger

    /// - Parameters:
    ///   - source: as the user names it, nil for a local list.
    ///   - finder: the user's resolver.
    ///   - isBack: called with the name of an origin that was away.
    init(
        _ source: ResourceURL?, over transport: any Transport, _ finder: (any PlaceFinder)?, _ store: Store,
        _ keys: FileKeys, _ counters: Counters, _ ticker: Ticker, _ options: VolumeOptions, _ logger: Logger,
        isBack: @escaping @Sendable (String) -> Void
    ) {
        (self.transport, self.store, self.keys, self.logger) = (transport, store, keys, logger)
        (self.counters, self.ticker, timeout) = (counters, ticker, options.timeout)
        requests = RequestLog(options.requestLog, logger)
        origins = OriginTable(options.loginTrouble)
        resolver = finder.map { finder in
            Resolver(finder, timeout: options.timeout, logger) { store.remember(key: $1.key, of: $0) }
        }
        let mirrors = Mirrors(options.mirrors, via: options.via, of: source, logger)
        self.mirrors = mirrors
        transport.watchOutages(deadline: options.timeout) { [weak self] origin, outage in
            if let outage {
                logger.notice("\(origin) is away (\(outage.rawValue)): only what is cached can be read")
                if options.news != nil { self?.lookForReturn(of: origin) }
            } else {
                logger.notice("\(origin) is back")
                mirrors?.isBack(origin)
                isBack(origin)
            }
            options.news?.trust()
        }
    }

    /// Has an origin looked for until it is back: programs that wait for the news of it ask for nothing themselves.
    private func lookForReturn(of origin: String) {
        if state.withLock({ $0.missed.insert(origin).inserted }) { lookAgain(for: origin) }
    }

    private func lookAgain(for origin: String) {
        guard let url = ResourceURL(trusted: origin), transport.outage(of: url) != nil else {
            return state.withLock { _ = $0.missed.remove(origin) }
        }
        if !transport.line.isOffline { transport.noteInterest(in: url) }
        // Before probes rest, which they do a minute after the last request.
        ticker.after(.seconds(30), { [weak self] in self?.lookAgain(for: origin) }, atEnd: {})
    }

    // MARK: The source

    private var source: (any Source)? { state.withLock { $0.source } }

    /// Sends all further requests the way that the source wants.
    /// - Parameter wasSigned: whether its list had signatures when it was read last.
    func connect(_ source: any Source, wasSigned: Bool = false) {
        state.withLock { $0.source = source }
        self.wasSigned.store(wasSigned, ordering: .relaxed)
    }

    /// Whether the lists that were read have signatures; nil if none was.
    var isSigned: Bool? { source.flatMap(\.isSigned) }

    /// Lets the origins that the user's own list names get the user's secrets, once a document of it was read.
    func trustNamedOrigins() {
        guard let named = source?.namedOrigins, !named.isEmpty else { return }
        transport.trust(named)
    }

    /// Has links that have expired wait until the list was listed again.
    func renewLinks(by list: @escaping LinkRenewal.List) { links.connect(list) }

    /// How a file is made of several resources, nil if it is one.
    func joined(_ url: ResourceURL) -> JoinedFile? { source?.joined(url) }

    /// What a request for the URL asks in the end: the playlist of a joined file, else the URL itself.
    func place(of url: ResourceURL) -> SourcePlace { joined(url)?.playlist ?? .url(url) }

    /// The request as the source wants it.
    func made(_ request: OriginRequest) -> OriginRequest {
        var request = request
        request.subject = request.subject ?? request.url
        return source?.request(request) ?? request
    }

    // MARK: Requests

    func start(_ handle: RequestHandle, _ request: OriginRequest, _ receiver: any OriginReceiver) {
        let sent = made(request)
        let awaitsList = wasSigned.load(ordering: .relaxed) && isSigned == nil
        // A listing that waited for a listing would wait forever.
        guard awaitsList || isExpired(sent), request.reason != .listing else {
            return Exchange(sent, as: handle, to: receiver, self).begin()
        }
        let goOn: @Sendable () -> Void = { [self] in
            let sent = made(request)
            if isExpired(sent), links.isNews() {
                let end = httpDateText(sent.expires ?? 0)
                logger.warning("\(request.url): its link has expired at \(end); its list has to give a new one")
            }
            Exchange(sent, as: handle, to: receiver, self).begin()
        }
        if !awaitsList { return links.renew(goOn) }
        let once = ticker.once(
            within: Self.firstList, elseOnly: false, by: { [transport] job in transport.perform(job) }
        ) { _ in goOn() }
        links.renew { once(true) }
    }

    /// What requests wait for the first list since the start: its server may be silent, and theirs not.
    private static let firstList = Duration.seconds(2)

    private func isExpired(_ request: OriginRequest) -> Bool { request.expires.map { $0 < wallClock() } ?? false }
}
