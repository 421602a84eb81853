import Logging
import ReelCache
import ReelCore
import ReelSources
import ReelThreads
import Synchronization

/// What every file of a mount shares.
final class Services: Sendable {
    let origin: any Origin
    let store: Store
    let options: VolumeOptions
    let logger: Logger
    let counters = Counters()
    /// What a request becomes before it leaves; nil before the mount.
    private let source = Lock<(any Source)?>(nil)
    /// When the log last said that a link has expired: those of a list expire together.
    private let expiryTold = Lock<Duration?>(nil)
    /// Is told what to forget; nil before the mount.
    let kernel = Lock<(any KernelCache)?>(nil)
    let ticker = Ticker()
    let answers = SerialQueue("answers")
    /// Work that may take a while and belongs neither on the transport's thread nor on the kernel's: parsing listings,
    /// writing them down.
    let chores = SerialQueue("chores")
    /// How many requests at a time each origin is worth.
    let concurrency = ConcurrencyLimits()
    /// What may be fetched before a read asks for it.
    let budget: Lock<SpeculationBudget>
    private let answerBuffer = AnswerBuffer()
    /// Set once the mount ends: what is being read then is no longer of use.
    private let isEnding = Atomic(false)

    init(origin: any Origin, store: Store, options: VolumeOptions, logger: Logger) {
        self.store = store
        // What two films need, and never more than a quarter of the cache.
        budget = Lock(SpeculationBudget(unreadLimit: min(2 * Readahead.longest, store.usage.cap / 4)))
        self.options = options
        self.logger = logger
        self.origin = origin
        origin.watchOutages(deadline: options.timeout) { origin, outage in
            if let outage {
                logger.notice("\(origin) is away (\(outage.rawValue)): only what is cached can be read")
            } else {
                logger.notice("\(origin) is back")
            }
        }
    }

    /// The kernel's cache; nil before the mount.
    var kernelCache: (any KernelCache)? { kernel.withLock { $0 } }

    func connect(_ source: any Source) { self.source.withLock { $0 = source } }

    /// Starts a request the way that the source wants it to be sent.
    @discardableResult
    func send(
        _ request: OriginRequest, as handle: RequestHandle = RequestHandle(), to receiver: any OriginReceiver
    ) -> RequestHandle {
        let sent = source.withLock { $0 }?.request(request) ?? request
        if let end = sent.expires, end < wallClock() { tell(request.url, expired: end) }
        origin.start(handle, sent, receiver)
        return handle
    }

    private func tell(_ url: ResourceURL, expired end: Int64) {
        let moment = now()
        let isDue = expiryTold.withLock { told in
            if let last = told, moment - last < .seconds(60) { return false }
            told = moment
            return true
        }
        guard isDue else { return }
        logger.warning("\(url): its link has expired at \(httpDateText(end)); its list has to give a new one")
    }

    /// For jobs of the `answers` queue only: they run one after another, so one buffer serves all.
    func withAnswerBuffer(_ count: Int, _ body: (UnsafeMutableRawBufferPointer) -> Void) {
        body(answerBuffer.bytes(count))
    }

    /// Ends what runs where no volume came of it.
    func shutdown() {
        ticker.stop()
        endLines()
    }

    /// Ends the reading of a document: at the caller's deadline, or at the end of the mount.
    /// - Parameter deadline: on the clock of `now()`.
    func isOver(at deadline: Duration) -> @Sendable () -> Bool {
        { [self] in isEnding.load(ordering: .relaxed) || now() > deadline }
    }

    /// Does a job on the `chores` queue; at once where that has ended with the mount, so that nothing that waits for
    /// the job waits for ever.
    func later(_ job: @escaping @Sendable () -> Void) {
        if !chores.add(job) { job() }
    }

    func endLines() {
        isEnding.store(true, ordering: .relaxed)
        answers.stop()
        chores.stop()
    }
}

/// Only ever touched by the thread of the `answers` queue.
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

package struct VolumeOptions: Sendable {
    /// How long a read, a listing or an open may take before it fails.
    package var timeout: Duration
    /// A listing this old is asked for again in the background when it is next used.
    package var refresh: Duration
    /// Bytes of the next file that are fetched when one is played through; 0: none.
    package let prebuffer: Int64
    /// More than any file has, and no product of it overflows.
    private static let largestPrebuffer: Int64 = 1 << 44

    package init(
        timeout: Duration = .seconds(30), refresh: Duration = .seconds(300), prebuffer: Int64 = 4 << 20
    ) {
        self.timeout = timeout
        self.refresh = refresh
        self.prebuffer = min(max(0, prebuffer), VolumeOptions.largestPrebuffer)
    }
}

final class Counters: Sendable {
    let bytesServed = Atomic<Int64>(0)
    let hits = Atomic<Int64>(0)
    let misses = Atomic<Int64>(0)
    /// As in `FetchStatistics`, of all files; what is asked beside them (listings, content information) is demanded.
    /// All bytes from the origin are either demanded or speculative.
    let demanded = Atomic<Int64>(0)
    let speculative = Atomic<Int64>(0)
    let wasted = Atomic<Int64>(0)
    /// Fetched ahead and not read, or asked for, of the files in the table.
    let ahead = Atomic<Int64>(0)
    let early = Atomic<Int64>(0)

    func demandedBytes(_ count: Int) {
        demanded.add(Int64(count), ordering: .relaxed)
    }

    func droppedBytes(_ count: Int) {
        speculative.add(Int64(count), ordering: .relaxed)
        wasted.add(Int64(count), ordering: .relaxed)
    }
}
