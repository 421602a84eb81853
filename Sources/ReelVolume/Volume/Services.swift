import Logging
import ReelCache
import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads
import Synchronization

/// The objects that all files of a mount share.
final class Services: Sendable {
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
    /// Directories whose listing could not be refreshed.
    let health: ListingHealth
    let keys: FileKeys
    let upstream: Upstream
    let segments: Segments
    /// nil if the user names none.
    let tier: Tier?
    /// The uppermost of these layers, which gets every request: a layer answers it, or hands it on to the one below.
    let origin: any Origin
    /// The kernel's cache; nil before the mount.
    let kernel = Lock<(any KernelCache)?>(nil)
    let ticker = Ticker()
    let answers = AnswerQueue()
    /// For work that takes a while and would hold up the transport's thread or the kernel's: it parses listings and
    /// writes them down.
    let chores = SerialQueue("chores")
    /// For a local list, whose disk may hang; nil if the source is none.
    private let lists: SerialQueue?
    /// The bytes that may be fetched before a read asks for them.
    let budget: Lock<SpeculationBudget>
    /// Set when the mount ends: the documents that are being read are then of no use.
    private let isEnding = Atomic(false)

    /// - Parameters:
    ///   - source: as the user names it, nil for a local list.
    ///   - scope: of the source, which distinguishes it from others in the tier.
    ///   - finder: the user's resolver.
    init(
        _ source: ResourceURL?, scope: String, origin transport: any Transport, store: Store, options: VolumeOptions,
        finder: (any PlaceFinder)? = nil, logger: Logger
    ) {
        (self.store, self.options, self.logger) = (store, options, logger)
        lists = source == nil ? SerialQueue("local-list") : nil
        scans = ScanWatch(programs)
        health = ListingHealth(refresh: options.refresh)
        keys = FileKeys(options.cacheKey, isResolved: finder != nil, in: store)
        // As much as two films need, and a quarter of the cache at most.
        budget = Lock(SpeculationBudget(unreadLimit: min(2 * Readahead.longest, store.usage.cap / 4)))
        upstream = Upstream(
            source, over: transport, finder, store, keys, counters, ticker, options, logger
        ) { [health] in health.isBack($0) }
        segments = Segments(over: upstream)
        tier = Tier(options.tier?.scoped(scope), over: segments, upstream, logger)
        origin = tier ?? segments
    }

    /// The lowest layer: calls all receivers, and knows the state of the origins.
    var transport: any Transport { upstream.transport }

    /// The kernel's cache; nil before the mount.
    var kernelCache: (any KernelCache)? { kernel.withLock { $0 } }

    /// Ends the threads where no volume was made.
    func shutdown() {
        upstream.resolver?.stop()
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
        segments.end()
        answers.stop()
        chores.stop()
        lists?.stop(atMost: .zero)
        upstream.requests.stop()
    }
}
