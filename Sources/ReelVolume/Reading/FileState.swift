import ReelCore
import ReelFilesystem

/// The state of a `RemoteFile`, one value behind its lock: the ledger, and the reads and requests that the ledger
/// names.
///
/// Extensions of `RemoteFile` change it by the events below, and read what it shows.
struct FileState {
    private(set) var ledger: Ledger
    private(set) var reads = ParkedReads()
    /// Where its bytes come from now: under one key a file may have several URLs, one after another.
    var url: ResourceURL
    /// The version, with the information of the last open.
    var information: ContentInformation
    /// Whether a second try asks another origin, as the last tick has found.
    var hasMirror: Bool
    /// What its first bytes say of its layout.
    var layout = FileLayout()
    /// The reads that the ledger holds no more, and whose answers are on their way: their bytes stay.
    private var answered: [Ledger.ReadID: ByteRange] = [:]
    /// Where its last bytes came from.
    private(set) var answerPlace = AnswerPlace.origin
    /// The last thread that had to wait, and its program; thread 0 is that of an open.
    private(set) var reader: (thread: Int32, program: ProgramTally?) = (0, nil)
    /// The commands that fetch the file, each with the function that hears of the end of each request.
    private var prefetches: [ObjectIdentifier: PrefetchReport] = [:]
    /// Requests of the ledger's streams.
    private var requests: [Ledger.StreamID: RequestHandle] = [:]
    private var reported = ReportedStatistics()
    private var rate = RateMeter()
    /// The volume has gone: nothing starts any more.
    private(set) var isOver = false
    /// The rank of its requests.
    private var rank = LineRank.reader
    /// Programs that opened the file, had to wait for bytes of it, or are read ahead of, the last one last.
    private var programs: [(tally: ProgramTally, hasBegun: Bool)] = []
    private var askedNeed = Duration.zero
    /// When bytes came last.
    private var lastBytes = Duration.zero
    /// Set while the transport's thread writes received bytes to the cache.
    private var isWriting = false
    /// Reads that kept a reader waiting, since the first open, and the last of them.
    private(set) var stalls: (count: Int, last: ReadWait.Stall?) = (0, nil)

    /// Called on the origin's thread. - Parameter failure: nil where the request ended well.
    typealias PrefetchReport = @Sendable (_ failure: OriginFailure?) -> Void

    init(_ ledger: Ledger, _ url: ResourceURL, _ information: ContentInformation, hasMirror: Bool) {
        self.ledger = ledger
        self.url = url
        self.information = information
        self.hasMirror = hasMirror
    }

    /// Reads wait or requests run: the clock may bring something.
    var hasWork: Bool { !ledger.isIdle || reads.queuedCount > 0 }

    /// No handle is open and nothing runs.
    var isDone: Bool { ledger.openHandles == 0 && !hasWork && !isWriting }

    // MARK: Reads

    /// What is due after a hit.
    struct Hit {
        /// The reader has too little before it.
        var wantsMore: Bool
        /// The reader plays the file through, and the next item may be fetched.
        var wantsNext: Bool
        /// Bytes that the reader has left behind.
        var behind: ByteRange?
    }

    /// The hit path. - Returns: nil where bytes are missing.
    mutating func hit(_ range: ByteRange, now: Duration, wasParked: Bool) -> Hit? {
        guard ledger.hit(range, now: now, wasParked: wasParked) else { return nil }
        // First: it may find that bytes before the reader have left the cache.
        let wantsNext = ledger.takeWantsNext()
        return Hit(
            wantsMore: ledger.wantsReadahead(now: now), wantsNext: wantsNext, behind: ledger.takeBehind())
    }

    /// - Returns: false where the read is for the ledger at once.
    mutating func enqueue(_ read: ParkedReads.Read) -> Bool { !isOver && reads.enqueue(read) }

    /// - Returns: nil where the read fails, as the volume has gone.
    mutating func park(_ read: ParkedReads.Read, now: Duration) -> [Ledger.Action]? {
        guard !isOver else { return nil }
        var read = read
        if !read.isRepair, ledger.isUnderrun(read.range), ledger.mayPlay(at: read.range) {
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

    /// The bytes of a read are there. - Parameter part: those that it gets, nil for all.
    mutating func takeForAnswer(_ id: Ledger.ReadID, _ part: ByteRange?, now: Duration) -> ParkedReads.Read? {
        guard var read = take(id, now: now) else { return nil }
        read.range = part ?? read.range
        if !read.isRepair { answered[id] = read.range }
        return read
    }

    /// The answer is given, or the read waits again.
    mutating func endAnswer(of id: Ledger.ReadID) { answered[id] = nil }

    /// The blocks of `blocks` that can go. - Parameter sparingReadahead: as in the ledger.
    func expendable(_ blocks: [Range<Int>], sparingReadahead: Bool) -> [Range<Int>] {
        ledger.expendable(blocks, sparingReadahead: sparingReadahead, answered: Array(answered.values))
    }

    mutating func note(_ stall: ReadWait.Stall) { stalls = (stalls.count + 1, stall) }

    mutating func abandon(_ caller: any ParkedRead) {
        if let id = reads.remove(caller) { ledger.abandon(id) }
    }

    /// Takes the queued reads whose deadline has passed, and those for the ledger: the ones whose bytes have come, and
    /// the oldest of the others as far as it has room.
    /// - Parameter looksAtAll: false: of the late ones alone it is found out whether their bytes have come.
    mutating func takeQueued(
        _ now: Duration, looksAtAll: Bool
    ) -> (late: [ParkedReads.Read], next: [ParkedReads.Read]) {
        let there = reads.takeQueued { [ledger] in (looksAtAll || $0.deadline <= now) && ledger.isThere($0.range) }
        let (late, next) = (reads.takeLate(now), there + reads.takeNext())
        // Some of their bytes may be there: the ledger finds out.
        if ledger.isOpenEnded { return ([], late + next) }
        for read in late { ledger.expire(read.range, now: now) }
        return (late, next)
    }

    /// A program has opened it. - Returns: as `note`.
    mutating func opened(by program: ProgramTally) -> (isNew: Bool, isBeginning: Bool) {
        // Until one waits it is the one that reads.
        if ledger.openHandles == 1 || reader.program == nil { reader = (0, program) }
        return note(program, hasBegun: false)
    }

    /// Another thread has to wait. - Returns: as `note`.
    mutating func waits(_ thread: Int32, of program: ProgramTally?) -> (isNew: Bool, isBeginning: Bool) {
        reader = (thread, program)
        return program.map { note($0, hasBegun: true) } ?? (false, false)
    }

    /// The program that read last is to be read ahead of. - Returns: it, if it has begun the file by that.
    mutating func isReadAhead() -> ProgramTally? {
        // Mostly it is known, and nothing changes.
        guard let program = reader.program, programs.last.map({ $0.tally !== program || !$0.hasBegun }) != false else {
            return nil
        }
        return note(program, hasBegun: true).isBeginning ? program : nil
    }

    /// A program opened the file, had to wait for bytes of it, or is read ahead of.
    /// - Returns: whether the program is new to the file, and whether it causes requests for the first time.
    private mutating func note(_ program: ProgramTally, hasBegun: Bool) -> (isNew: Bool, isBeginning: Bool) {
        let index = programs.firstIndex { $0.tally === program }
        let known = index.map { programs.remove(at: $0) }
        let hadBegun = known?.hasBegun ?? false
        programs.append((program, hasBegun || hadBegun))
        if programs.count > Readahead.cursorLimit { programs.removeFirst() }
        return (known == nil, hasBegun && !hadBegun)
    }

    // MARK: Bytes ahead

    mutating func readAhead(now: Duration) -> [Ledger.Action] { ledger.readAhead(now: now) }
    mutating func takeSeekIndex() -> [ByteRange] { ledger.takeSeekIndex() }
    mutating func takeWithoutSeconds() -> Container? { ledger.hasReadOn ? layout.takeWithoutSeconds() : nil }
    mutating func writeOff() { ledger.writeOff() }

    mutating func prebuffer(_ ranges: [ByteRange], now: Duration) -> [Ledger.Action] {
        ranges.flatMap { ledger.prebuffer($0, now: now) }
    }

    mutating func cancelPrebuffer() -> [Ledger.Action] { ledger.cancelPrebuffer() }

    mutating func addPrefetch(of command: FileFetch, _ report: @escaping PrefetchReport) {
        prefetches[ObjectIdentifier(command)] = report
    }

    mutating func prefetch(now: Duration) -> [Ledger.Action] { ledger.prefetch(now: now) }

    mutating func cancelPrefetch(of command: FileFetch) -> [Ledger.Action] {
        prefetches[ObjectIdentifier(command)] = nil
        return prefetches.isEmpty ? ledger.cancelPrefetch() : []
    }

    /// The first bytes show the layout, or never will. - Returns: the container, once.
    mutating func learn(_ reading: Container.Reading) -> Container? {
        let container = layout.take(reading)
        if let container { ledger.learn(container) }
        return container
    }

    mutating func learn(seconds: Double) {
        layout.learn(seconds: seconds)
        ledger.learn(seconds: seconds)
    }

    /// Looks whether bytes have left the cache, and counts those that were not read as wasted.
    mutating func notice() { ledger.notice() }

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
        if rank != .reader { request.rank = rank }
        requests[id] = request
    }

    /// The need as `LineShare.tell` takes it.
    struct Need {
        var ahead: Double?
        var rank: LineRank
    }

    /// What the file's player needs of the line, nil if it was asked a moment ago. Puts the file's requests in their
    /// rank.
    /// - Parameter isNews: it may be another one than a moment ago.
    mutating func need(_ now: Duration, isNews: Bool) -> Need? {
        guard isNews || now - askedNeed >= .milliseconds(100) else { return nil }
        askedNeed = now
        // Where nothing comes for so long the origin is silent, and others on the line change nothing about it.
        let isSilent = now - max(lastBytes, ledger.waitsSince ?? now) > .seconds(1)
        let ahead = isSilent || ledger.openHandles == 0 ? nil : ledger.secondsAhead(now: now)
        let rank = ledger.rank(now: now)
        if self.rank != rank {
            self.rank = rank
            for request in requests.values { request.rank = rank }
        }
        return Need(ahead: ahead, rank: rank)
    }

    mutating func yield(_ id: Ledger.StreamID) -> Bool { ledger.yield(id) }

    mutating func began(_ id: Ledger.StreamID, isWhole: Bool, now: Duration) -> [Ledger.Action] {
        ledger.began(id, isWhole: isWhole, now: now)
    }

    /// Bytes of a stream came. - Returns: where they go; `wrote` follows. nil where they are not wanted.
    mutating func place(
        of id: Ledger.StreamID, count: Int64, from place: AnswerPlace, now: Duration
    ) -> ByteRange? {
        answerPlace = place
        rate.add(count, now)
        lastBytes = now
        let range = ledger.place(of: id, count: count)
        ledger.dropped(count - (range?.count ?? 0))
        isWriting = range != nil
        return range
    }

    mutating func wrote() { isWriting = false }

    /// Bytes of a stream are in the cache.
    /// - Parameters:
    ///   - news: those of them that were not there before.
    ///   - writing: for so long the origin's thread waited for the disk, and with it all reads that wait for bytes.
    mutating func arrived(
        _ id: Ledger.StreamID, _ range: ByteRange, news: [ByteRange], writing: Duration, now: Duration
    ) -> (actions: [Ledger.Action], answer: BodyAnswer) {
        // Seldom: a write goes to memory.
        if writing > .milliseconds(1) { reads.tellWaits { $0.wrote(writing) } }
        return ledger.arrived(id, range, news: news, now: now)
    }

    /// The cache did not take the bytes of a stream, which ends.
    mutating func lost(
        _ id: Ledger.StreamID, _ range: ByteRange, _ failure: OriginFailure, now: Duration
    ) -> [Ledger.Action] {
        ledger.dropped(range.count)
        return ledger.ended(id, failure, now: now, random: 0)
    }

    /// The request of a stream is over. The commands that fetch the file hear of it after the actions (`reports`).
    mutating func ended(
        _ id: Ledger.StreamID, _ failure: OriginFailure?, now: Duration, random: Double
    ) -> [Ledger.Action] {
        requests[id] = nil
        return ledger.ended(id, failure, now: now, random: random)
    }

    var reports: [PrefetchReport] { Array(prefetches.values) }

    /// The body of a version with an open end cannot be had again.
    mutating func breakOff() { ledger.breakOff(.failed) }

    /// Bytes a second over the last few seconds.
    func rate(_ now: Duration) -> Int64 { rate.perSecond(now) }

    // MARK: The version

    mutating func supersede() -> [Ledger.Action] { ledger.supersede() }
    mutating func revive() { if !isOver { ledger.revive() } }

    // MARK: The mount

    mutating func tick(now: Duration) -> [Ledger.Action] { ledger.tick(now: now) }

    /// - Parameter limits: `room` without the bytes that this file has taken; `hasMirror` is the file's own.
    mutating func limit(_ limits: Ledger.Limits) {
        ledger.limits = limits
        ledger.limits.room += reported.ahead
        ledger.limits.hasMirror = hasMirror
    }

    /// Adds the news of the ledger's statistics to the counters of the mount.
    mutating func report(to counters: Counters) { reported.report(ledger, to: counters, programs.last?.tally) }

    mutating func opened() { ledger.opened() }

    /// A handle is closed.
    /// - Returns: whether it was the last one, and the bytes that its program had read in a row by then: it may have
    ///   opened the file again, and read of it, before the kernel tells of the close.
    mutating func close(now: Duration, isReadWhole: Bool) -> (isLast: Bool, headRun: Int64?) {
        // What the kernel read itself was not read through the mount.
        reported.settle(ledger.statistics, programs.last?.tally)
        return (ledger.closed(now: now, isReadWhole: isReadWhole), ledger.headRun)
    }

    /// The volume goes. - Returns: the actions, and the reads of the queue, which fail.
    mutating func end() -> ([Ledger.Action], queued: [ParkedReads.Read]) {
        isOver = true
        return (ledger.supersede(), reads.takeQueue())
    }
}
