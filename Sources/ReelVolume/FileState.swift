import ReelCore

/// The state of a `RemoteFile`, one value behind its lock: the ledger, and the reads and requests that the ledger
/// names.
struct FileState {
    var ledger: Ledger
    private(set) var reads = ParkedReads()
    /// Those of the ledger's streams.
    private var requests: [Ledger.StreamID: RequestHandle] = [:]
    private var reported = ReportedStatistics()
    private var rate = RateMeter()
    /// The volume has gone: nothing starts any more.
    private(set) var isOver = false
    /// The origin's thread is between asking where bytes go and telling that they are there.
    private var isWriting = false

    init(_ ledger: Ledger) { self.ledger = ledger }

    /// Reads wait or requests run: the clock may bring something.
    var hasWork: Bool { !ledger.isIdle || reads.queuedCount > 0 }

    /// No handle is open and nothing runs.
    var isDone: Bool { ledger.openHandles == 0 && !hasWork && !isWriting }

    // MARK: Reads

    /// - Returns: false where the read is for the ledger at once.
    mutating func enqueue(_ read: ParkedReads.Read) -> Bool { !isOver && reads.enqueue(read) }

    /// - Returns: nil where the read fails, as the volume has gone.
    mutating func park(_ read: ParkedReads.Read, now: Duration) -> [Ledger.Action]? {
        guard !isOver else { return nil }
        return ledger.park(
            reads.hold(read), read.range, deadline: read.deadline, now: now, readsOn: !read.isRepair)
    }

    /// A read has its answer; nil where its caller has gone.
    mutating func take(_ id: Ledger.ReadID) -> ParkedReads.Read? { reads.take(id) }

    mutating func abandon(_ caller: any ParkedRead) {
        if let id = reads.remove(caller) { ledger.abandon(id) }
    }

    /// Takes the queued reads whose deadline has passed, and the oldest of the others as far as the ledger has room.
    mutating func takeQueued(_ now: Duration) -> (late: [ParkedReads.Read], next: [ParkedReads.Read]) {
        let (late, next) = (reads.takeLate(now), reads.takeNext())
        // Some of their bytes may be there: the ledger finds out.
        if ledger.isOpenEnded { return ([], late + next) }
        for read in late { ledger.expire(read.range, now: now) }
        return (late, next)
    }

    // MARK: Requests

    func request(of id: Ledger.StreamID) -> RequestHandle? { requests[id] }

    /// The request of a stream is over, or has to end.
    mutating func takeRequest(of id: Ledger.StreamID) -> RequestHandle? { requests.removeValue(forKey: id) }

    /// A request is about to start. - Returns: whether its bytes are still wanted, and whether a read waits for them by
    /// now.
    mutating func start(_ request: RequestHandle, _ id: Ledger.StreamID) -> (isWanted: Bool, isDemanded: Bool) {
        let isWanted = ledger.isLive(id) && !isOver
        if isWanted { requests[id] = request }
        return (isWanted, ledger.isDemanded(id))
    }

    /// - Returns: the stream that the request becomes, and whether its bytes are wanted.
    mutating func adopt(
        _ request: RequestHandle, _ range: ByteRange, isWhole: Bool, now: Duration
    ) -> (Ledger.StreamID, isWanted: Bool) {
        let id = ledger.adopt(range, isWhole: isWhole, now: now)
        return (id, start(request, id).isWanted)
    }

    /// - Returns: nil where its bytes are not wanted.
    mutating func adoptBeside(_ request: RequestHandle, _ range: ByteRange, now: Duration) -> Ledger.StreamID? {
        guard !isOver, let id = ledger.adoptBeside(range, now: now) else { return nil }
        requests[id] = request
        return id
    }

    /// Bytes of a stream came. - Returns: where they go; `wrote` follows. nil where they are not wanted.
    mutating func place(of id: Ledger.StreamID, count: Int64, now: Duration) -> ByteRange? {
        rate.add(count, now)
        let range = ledger.place(of: id, count: count)
        ledger.dropped(count - (range?.count ?? 0))
        isWriting = range != nil
        return range
    }

    mutating func wrote() { isWriting = false }

    /// Bytes a second over the last few seconds.
    func rate(_ now: Duration) -> Int64 { rate.perSecond(now) }

    // MARK: The mount

    /// - Parameter limits: `room` without the bytes that this file has taken.
    mutating func limit(_ limits: Ledger.Limits) {
        ledger.limits = limits
        ledger.limits.room += reported.ahead
    }

    /// Adds the news of the ledger's statistics to the counters of the mount.
    mutating func report(to counters: Counters) { reported.report(ledger, to: counters) }

    /// The volume goes. - Returns: the actions, and the reads of the queue, which fail.
    mutating func end() -> ([Ledger.Action], queued: [ParkedReads.Read]) {
        isOver = true
        return (ledger.supersede(), reads.takeQueue())
    }
}
