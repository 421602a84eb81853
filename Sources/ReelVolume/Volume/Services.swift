import Logging
import ReelCache
import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads
import Synchronization

/// The objects that all files of a mount share.
final class Services: Sendable {
    let origin: any Transport
    let store: Store
    let options: VolumeOptions
    let logger: Logger
    let counters = Counters()
    let times = ReadTimes()
    /// The programs that open files.
    let programs = ProgramTallies()
    let scans: ScanWatch
    /// For which names the end of a file is asked for with its beginning.
    let tails = TailGuess()
    /// What was asked for in the last hours.
    let requests: RequestLog
    /// How each origin fares.
    let origins = OriginTable()
    /// Directories whose listing could not be refreshed.
    let health: ListingHealth
    /// nil: files are asked for at their URLs.
    let resolver: Resolver?
    /// nil: the source has none, and no shared cache.
    let mirrors: Mirrors?
    /// nil: the user names none.
    let tier: Tier?
    /// Changes each request before it leaves; nil until the source is known.
    private let source = Lock<(any Source)?>(nil)
    /// Makes files of several resources; nil before the volume is made, and after its end.
    private let joined = Lock<JoinedFiles?>(nil)
    /// For links that have expired.
    let links = LinkRenewal()
    /// The kernel's cache; nil before the mount.
    let kernel = Lock<(any KernelCache)?>(nil)
    let ticker = Ticker()
    let answers = SerialQueue("answers")
    /// For work that takes a while and would hold up the transport's thread or the kernel's: it parses listings and
    /// writes them down.
    let chores = SerialQueue("chores")
    /// Origins that are away and looked for.
    private let missed = Lock<Set<String>>([])
    /// For a local list, whose disk may hang; nil if the source is none.
    private let lists: SerialQueue?
    /// How many requests at a time each origin is worth.
    let concurrency = ConcurrencyLimits()
    /// The bytes that may be fetched before a read asks for them.
    let budget: Lock<SpeculationBudget>
    private let answerBuffer = AnswerBuffer()
    /// Set when the mount ends: the documents that are being read are then of no use.
    private let isEnding = Atomic(false)

    /// - Parameters:
    ///   - source: as the user names it, nil for a local list.
    ///   - scope: of the source, which tells it from others in the tier.
    ///   - finder: the user's resolver.
    init(
        _ source: ResourceURL?, scope: String, origin: any Transport, store: Store, options: VolumeOptions,
        finder: (any PlaceFinder)? = nil, logger: Logger
    ) {
        self.store = store
        lists = source == nil ? SerialQueue("local-list") : nil
        scans = ScanWatch(programs)
        requests = RequestLog(options.requestLog, logger)
        health = ListingHealth(refresh: options.refresh)
        resolver = finder.map { finder in
            Resolver(finder, timeout: options.timeout, logger) { store.remember(key: $1.key, of: $0) }
        }
        let mirrors = Mirrors(options.mirrors, via: options.via, of: source, logger)
        self.mirrors = mirrors
        tier = Tier(options.tier?.scoped(scope), origin.line, ticker, logger)
        // As much as two films need, and a quarter of the cache at most.
        budget = Lock(SpeculationBudget(unreadLimit: min(2 * Readahead.longest, store.usage.cap / 4)))
        self.options = options
        self.logger = logger
        self.origin = origin
        origin.watchOutages(deadline: options.timeout) { [weak self, health] origin, outage in
            if let outage {
                logger.notice("\(origin) is away (\(outage.rawValue)): only what is cached can be read")
                if options.news != nil { self?.lookForReturn(of: origin) }
            } else {
                logger.notice("\(origin) is back")
                mirrors?.isBack(origin)
                health.isBack(origin)
            }
            options.news?.trust()
        }
    }

    /// Has an origin looked for until it is back: programs that wait for the news of it ask for nothing themselves.
    private func lookForReturn(of origin: String) {
        if missed.withLock({ $0.insert(origin).inserted }) { lookAgain(for: origin) }
    }

    private func lookAgain(for origin: String) {
        guard let url = ResourceURL(trusted: origin), self.origin.outage(of: url) != nil else {
            return missed.withLock { _ = $0.remove(origin) }
        }
        if !self.origin.line.isOffline { self.origin.noteInterest(in: url) }
        // Before probes rest, which they do a minute after the last request.
        ticker.after(.seconds(30), { [weak self] in self?.lookAgain(for: origin) }, atEnd: {})
    }

    /// The kernel's cache; nil before the mount.
    var kernelCache: (any KernelCache)? { kernel.withLock { $0 } }

    /// Sends all further requests the way that the source wants.
    func connect(_ source: any Source) { self.source.withLock { $0 = source } }

    /// Lets the origins that the user's own list names get the user's secrets, once a document of it was read.
    func trustNamedOrigins() {
        guard let named = source.withLock({ $0 })?.namedOrigins, !named.isEmpty else { return }
        origin.trust(named)
    }

    /// Sends all further requests for joined files there.
    func connect(_ joined: JoinedFiles) { self.joined.withLock { $0 = joined } }

    /// Starts a request the way that the source wants it to be sent.
    /// - Parameter version: that the answer has to be of, with which a mirror is compared, nil for the remembered one.
    @discardableResult
    func send(
        _ request: OriginRequest, of version: ContentInformation? = nil, as handle: RequestHandle = RequestHandle(),
        to receiver: any OriginReceiver
    ) -> RequestHandle {
        if let file = source.withLock({ $0 })?.joined(request.url), let joined = joinedFiles {
            joined.start(handle, request, file, receiver)
            return handle
        }
        let sent = made(request)
        // A listing that waited for a listing would wait forever.
        guard isExpired(sent), request.reason != .listing else {
            Exchange(sent, of: version, as: handle, to: receiver, self).begin()
            return handle
        }
        links.renew { [self] in
            let sent = made(request)
            if isExpired(sent), links.isNews() {
                let end = httpDateText(sent.expires ?? 0)
                logger.warning("\(request.url): its link has expired at \(end); its list has to give a new one")
            }
            Exchange(sent, of: version, as: handle, to: receiver, self).begin()
        }
        return handle
    }

    /// The request as the source wants it.
    func made(_ request: OriginRequest) -> OriginRequest {
        var request = request
        request.subject = request.subject ?? request.url
        return source.withLock { $0 }?.request(request) ?? request
    }

    private func isExpired(_ request: OriginRequest) -> Bool { request.expires.map { $0 < wallClock() } ?? false }

    /// nil before the volume is made, and after its end.
    var joinedFiles: JoinedFiles? { joined.withLock { $0 } }

    /// Whether a file is made of several resources.
    func isJoined(_ url: ResourceURL) -> Bool { source.withLock { $0 }?.joined(url) != nil }

    /// What a request for the URL asks in the end: the playlist of a joined file, else the URL itself.
    func place(of url: ResourceURL) -> SourcePlace { source.withLock { $0 }?.joined(url)?.playlist ?? .url(url) }

    /// Lends the buffer of the `answers` queue to one of its jobs: they run one after another.
    func withAnswerBuffer(_ count: Int, _ body: (UnsafeMutableRawBufferPointer) -> Void) {
        body(answerBuffer.bytes(count))
    }

    /// Ends the threads where no volume was made.
    func shutdown() {
        resolver?.stop()
        ticker.stop()
        tier?.shutdown()
        endQueues()
    }

    /// Asks whether the reading of a document should end, at the caller's deadline or at the end of the mount.
    /// - Parameter deadline: on the clock of `now()`.
    func isOver(at deadline: Duration) -> @Sendable () -> Bool {
        { [self] in isEnding.load(ordering: .relaxed) || now() > deadline }
    }

    /// The mount ends, and no request follows.
    var hasEnded: Bool { isEnding.load(ordering: .relaxed) }

    /// Does a job on the `chores` queue; at once where the mount has ended the queue, so that no caller waits for the
    /// job forever.
    func later(_ job: @escaping @Sendable () -> Void) {
        if !chores.add(job) { job() }
    }

    /// Does a job on a thread for local lists, whose disk may hang: the end of the mount does not wait for it.
    /// - Returns: false where that thread has ended, or the source is no local list: the job is not done.
    func readLocally(_ job: @escaping @Sendable () -> Void) -> Bool { lists?.add(job) ?? false }

    /// Does the jobs that are left, and ends the queues.
    func endQueues() {
        isEnding.store(true, ordering: .relaxed)
        joined.withLock { $0.take() }?.end()
        answers.stop()
        chores.stop()
        lists?.stop(atMost: .zero)
        requests.stop()
    }
}

/// `@unchecked Sendable`: only the thread of the `answers` queue uses it.
private final class AnswerBuffer: @unchecked Sendable {
    private var memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 2 * Int(BlockSize.block), alignment: 4096)

    deinit { memory.deallocate() }

    func bytes(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if count > memory.count {
            memory.deallocate()
            memory = .allocate(byteCount: count, alignment: 4096)
        }
        return UnsafeMutableRawBufferPointer(rebasing: memory[..<count])
    }
}

/// The options of a mount that concern its tree and its reads.
package struct VolumeOptions: Sendable {
    /// The time after which a read, an open or a request for a listing fails.
    package var timeout: Duration
    /// The age at which the next look at a listing refreshes it in the background.
    package var refresh: Duration
    /// The bytes of the next file to fetch once one is played through; 0: none.
    package let prebuffer: Int64
    /// The bytes of one file that one program may cause to be fetched beyond what it reads.
    package let probeLimit: Int64
    /// What files are known by in the cache.
    package let cacheKey: CacheKey
    /// Further bases of the source's tree, in order of preference.
    package let mirrors: [ResourceURL]
    /// The bucket between disk and origin, nil if none.
    package let tier: TierPlace?
    /// Asked before the source, nil if there is none.
    package let via: SharedCache?
    /// Requests for parts of a file begin and end at multiples of this many bytes: a power of two, a block or more.
    package let alignment: Int64
    /// Which folders to list once the source is open.
    package let warm: Warming
    /// Shows `NAME.rclonelink` as the symbolic link NAME.
    package let links: Bool
    /// Told of each request that has ended, on a thread that may wait for a disk, nil if nobody asks.
    package let requestLog: (@Sendable (RequestRecord) -> Void)?
    /// Told what becomes of the tree, nil if nobody asks.
    package let news: TreeNews?
    /// Opens a list on the local disk.
    let openList: @Sendable (String) -> OpenedList

    package init(
        timeout: Duration = .seconds(30), refresh: Duration = .seconds(300), prebuffer: Int64 = 4 << 20,
        probeLimit: Int64 = 4 << 20, cacheKey: CacheKey = .url, mirrors: [ResourceURL] = [],
        via: SharedCache? = nil, alignment: Int64 = BlockSize.block, tier: TierPlace? = nil, warm: Warming = .none,
        links: Bool = false,
        requestLog: (@Sendable (RequestRecord) -> Void)? = nil, news: TreeNews? = nil,
        openList: @escaping @Sendable (String) -> OpenedList = OpenedList.open
    ) {
        self.openList = openList
        (self.warm, self.tier) = (warm, tier)
        self.links = links
        self.requestLog = requestLog
        self.news = news
        self.probeLimit = max(0, probeLimit)
        self.mirrors = mirrors
        self.via = via
        self.alignment = alignment
        self.cacheKey = cacheKey
        self.timeout = timeout
        self.refresh = refresh
        self.prebuffer = min(max(0, prebuffer), BlockSize.longestFile)
    }
}

/// What a mount lists in the background before a program asks.
package enum Warming: Sendable {
    case none
    /// The whole tree, where its folders are at one place (`Source.listsAhead`).
    case cheap
    /// The whole tree, wherever its folders are.
    case all
}
