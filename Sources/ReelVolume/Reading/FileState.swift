import ReelCore
import ReelFilesystem

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
    private var isPlayers = false
    /// That opened the file or had to wait for bytes of it, the last one last.
    private var programs: [(tally: ProgramTally, hasWaited: Bool)] = []
    private var askedNeed = Duration.zero
    /// When bytes came last.
    private var lastBytes = Duration.zero
    /// The origin's thread is between asking where bytes go and telling that they are there.
    private var isWriting = false
    /// Reads that kept a reader waiting, since the first open, and the last of them.
    private(set) var stalls: (count: Int, last: ReadWait.Stall?) = (0, nil)

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
        var read = read
        if !read.isRepair, ledger.isUnderrun(read.range) {
            read.wait = ReadWait(now: now, isSent: ledger.isAsked(for: read.range))
        }
        return ledger.park(
            reads.hold(read), read.range, deadline: read.deadline, now: now, readsOn: !read.isRepair)
    }

    /// A read has its answer, or will have it from the cache; nil where its caller has gone.
    mutating func take(_ id: Ledger.ReadID, now: Duration) -> ParkedReads.Read? {
        var read = reads.take(id)
        read?.wait?.came(now: now)
        return read
    }

    mutating func note(_ stall: ReadWait.Stall) { stalls = (stalls.count + 1, stall) }

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

    /// A program opened the file, or had to wait for bytes of it.
    /// - Returns: whether it is the first time that either is told of it, and the first time that it waits.
    mutating func note(_ program: ProgramTally, hasWaited: Bool) -> (isNew: Bool, isFirstWait: Bool) {
        let index = programs.firstIndex { $0.tally === program }
        let known = index.map { programs.remove(at: $0) }
        let hadWaited = known?.hasWaited ?? false
        programs.append((program, hasWaited || hadWaited))
        if programs.count > Readahead.cursorLimit { programs.removeFirst() }
        return (known == nil, hasWaited && !hadWaited)
    }

    // MARK: Requests

    /// The request of a stream has left the queue. - Parameter isTimed: as in the ledger.
    mutating func sent(_ id: Ledger.StreamID, isTimed: Bool, now: Duration) {
        ledger.requested(id, now: now, isTimed: isTimed)
        if let rest = ledger.rest(of: id) { reads.tellWaits(of: rest) { $0.sent(now: now) } }
    }

    func request(of id: Ledger.StreamID) -> RequestHandle? { requests[id] }

    /// The request of a stream is over, or has to end.
    mutating func takeRequest(of id: Ledger.StreamID) -> RequestHandle? { requests.removeValue(forKey: id) }

    /// A request is about to start. - Returns: whether its bytes are still wanted, and whether a read waits for them by
    /// now.
    mutating func start(_ request: RequestHandle, _ id: Ledger.StreamID) -> (isWanted: Bool, isDemanded: Bool) {
        let isWanted = ledger.isLive(id) && !isOver
        if isWanted { keep(request, id) }
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
        keep(request, id)
        return id
    }

    private mutating func keep(_ request: RequestHandle, _ id: Ledger.StreamID) {
        request.isForPlayer.store(isPlayers, ordering: .relaxed)
        requests[id] = request
    }

    /// As `LineShare.tell` takes it.
    struct Need {
        var ahead: Double?
    }

    /// What the file's player needs of the line; nil: it was asked a moment ago. Puts the file's requests in their
    /// rank.
    /// - Parameter isNews: it may be another one than a moment ago.
    mutating func need(_ now: Duration, isNews: Bool) -> Need? {
        guard isNews || now - askedNeed >= .milliseconds(100) else { return nil }
        askedNeed = now
        // Where nothing comes for so long the origin is silent, and others on the line change nothing about it.
        let isSilent = now - max(lastBytes, ledger.waitsSince ?? now) > .seconds(1)
        let ahead = isSilent || ledger.openHandles == 0 ? nil : ledger.secondsAhead(now: now)
        let hasPlayer = ledger.hasPlayer(now: now)
        if isPlayers != hasPlayer {
            isPlayers = hasPlayer
            for request in requests.values { request.isForPlayer.store(isPlayers, ordering: .relaxed) }
        }
        return Need(ahead: ahead)
    }

    /// Bytes of a stream came. - Returns: where they go; `wrote` follows. nil where they are not wanted.
    mutating func place(of id: Ledger.StreamID, count: Int64, now: Duration) -> ByteRange? {
        rate.add(count, now)
        lastBytes = now
        let range = ledger.place(of: id, count: count)
        ledger.dropped(count - (range?.count ?? 0))
        isWriting = range != nil
        return range
    }

    mutating func wrote() { isWriting = false }

    /// The origin's thread waited for the disk, and with it all reads that wait for bytes.
    mutating func waited(forDisk time: Duration) {
        // Seldom: a write goes to memory.
        if time > .milliseconds(1) { reads.tellWaits { $0.wrote(time) } }
    }

    /// Bytes a second over the last few seconds.
    func rate(_ now: Duration) -> Int64 { rate.perSecond(now) }

    // MARK: The mount

    /// - Parameter limits: `room` without the bytes that this file has taken.
    mutating func limit(_ limits: Ledger.Limits) {
        ledger.limits = limits
        ledger.limits.room += reported.ahead
    }

    /// Adds the news of the ledger's statistics to the counters of the mount.
    mutating func report(to counters: Counters) { reported.report(ledger, to: counters, programs.last?.tally) }

    /// A handle is closed. - Returns: whether it was the last one.
    mutating func close(now: Duration, isReadWhole: Bool) -> Bool {
        // What the kernel read itself was not read through the mount.
        reported.settle(ledger.statistics, programs.last?.tally)
        return ledger.closed(now: now, isReadWhole: isReadWhole)
    }

    /// The volume goes. - Returns: the actions, and the reads of the queue, which fail.
    mutating func end() -> ([Ledger.Action], queued: [ParkedReads.Read]) {
        isOver = true
        return (ledger.supersede(), reads.takeQueue())
    }
}
