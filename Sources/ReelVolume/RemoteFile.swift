import ReelCache
import ReelCore
import ReelThreads
import Synchronization

/// One version of one resource: its bytes in the cache, and the requests under way to the others. All handles share it.
///
/// The state is one value behind one lock: ask the ledger under the lock, act on its answer outside.
final class RemoteFile: Sendable {
    let url: ResourceURL
    private let told: ContentInformation
    let object: CacheObject
    let services: Services
    let state: Lock<State>
    /// How far a cursor's readahead may grow while the disk takes what is written.
    let windowLimit: Int64
    let concurrency: ConcurrencyLimits.Shared
    /// Goes up each time that a reader plays the file through and the next item may be fetched.
    let plays = Atomic<UInt64>(0)

    struct Parked {
        var read: any ParkedRead
        /// Of the handle.
        var node: NodeID
        var range: ByteRange
        var deadline: Duration
        /// It waits for the bytes to be in the cache, and wants no answer.
        var isRepair = false
    }

    struct State {
        var ledger: Ledger
        var parked: [Ledger.ReadID: Parked] = [:]
        /// Reads that wait until `parked` has room, oldest first.
        var queue: [Parked] = []
        var requests: [Ledger.StreamID: RequestHandle] = [:]
        var nextRead: Ledger.ReadID = 1
        var rate = RateMeter()
        /// What of the ledger's statistics was added to the counters of the mount.
        var reported = FetchStatistics.Sums()
        var reportedAhead: Int64 = 0
        /// Set when the volume goes away: what is started now is stopped at once.
        var isOver = false
        /// The origin's thread is between asking where bytes go and telling that they are there.
        var isWriting = false
    }

    init(_ url: ResourceURL, _ information: ContentInformation, _ object: CacheObject, _ services: Services) {
        self.url = url
        told = information
        self.object = object
        self.services = services
        let ledger = Ledger(
            object.present, acceptsRanges: information.acceptsRanges, cacheCap: services.store.usage.cap)
        windowLimit = ledger.windowLimit
        concurrency = services.concurrency[url]
        state = Lock(State(ledger: ledger), .file)
    }

    /// Bytes; `BlockSize.openEnd` until its end is known.
    var length: Int64 { object.length }
    var isOpenEnded: Bool { length == BlockSize.openEnd }

    /// What the first answer told, and the length once it is known.
    var information: ContentInformation {
        var information = told
        if information.length == nil, !isOpenEnded { information.length = length }
        return information
    }

    // MARK: Reading

    /// - Parameters:
    ///   - buffer: as long as the read; cut at the end of the file.
    ///   - node: of the handle.
    func read(
        _ offset: Int64, into buffer: UnsafeMutableRawBufferPointer, of node: NodeID, park: () -> any ParkedRead
    ) -> ReadAnswer {
        let range = bounds(offset, buffer.count)
        if range.isEmpty { return .read(0) }
        if let count = hit(range, into: buffer, of: node) {
            services.counters.hits.add(1, ordering: .relaxed)
            return .read(count)
        }
        services.counters.misses.add(1, ordering: .relaxed)
        wait(park(), for: range, of: node, until: now() + services.options.timeout)
        return .parked
    }

    private func bounds(_ offset: Int64, _ count: Int) -> ByteRange {
        guard offset < length else { return ByteRange(length, length) }
        return ByteRange(offset, min(length, offset + Int64(count)))
    }

    /// Copies bytes that are there: no allocation, no lock held over the system call. nil where some are missing.
    private func hit(
        _ range: ByteRange, into buffer: UnsafeMutableRawBufferPointer, of node: NodeID, wasParked: Bool = false
    ) -> Int? {
        let moment = now()
        let (isHit, wantsMore, behind) = state.withLock { state in
            let isHit = state.ledger.hit(range, now: moment, wasParked: wasParked)
            guard isHit else { return (false, false, nil as Behind?) }
            report(&state)
            if state.ledger.takeWantsNext() { plays.add(1, ordering: .relaxed) }
            return (true, state.ledger.wantsReadahead(now: moment), Behind(&state))
        }
        guard isHit else { return nil }
        // The end may have become known since the range was made.
        let range = range.clamped(to: ByteRange(0, length))
        if wantsMore { readAhead(moment) }
        if let behind { leave(behind, of: node) }
        let buffer = UnsafeMutableRawBufferPointer(rebasing: buffer[..<Int(range.count)])
        switch object.read(into: buffer, at: range.lower) {
        case .bytes(let count):
            services.counters.bytesServed.add(Int64(count), ordering: .relaxed)
            return count
        case .missing: return nil
        case .damaged(let blocks):
            services.logger.warning(
                "\(url): \(blocks.reduce(0) { $0 + $1.count }) damaged blocks in the cache are fetched again")
            return nil
        }
    }

    /// - Parameter isRepair: nothing is read ahead, and the answer has no bytes.
    func wait(
        _ read: any ParkedRead, for range: ByteRange, of node: NodeID, until deadline: Duration, isRepair: Bool = false
    ) {
        let parked = Parked(read: read, node: node, range: range, deadline: deadline, isRepair: isRepair)
        if !queue(parked) { park(parked) }
    }

    /// Hands a read that waits to the ledger.
    func park(_ parked: Parked) {
        let moment = now()
        let (range, isRepair) = (parked.range, parked.isRepair)
        let (isUnderrun, rate) = state.withLock { (!isRepair && $0.ledger.isUnderrun(range), $0.ledger.rate) }
        let requests = concurrency.value.withLock { limit in
            isUnderrun ? limit.underrun(ObjectIdentifier(self), rate: rate, now: moment) : limit.share
        }
        let actions = decide(limits(requests, moment)) { state -> [Ledger.Action]? in
            guard !state.isOver else { return nil }
            let id = state.nextRead
            state.nextRead += 1
            state.parked[id] = parked
            return state.ledger.park(id, range, deadline: parked.deadline, now: moment, readsOn: !isRepair)
        }
        guard let actions else { return parked.read.fail(.failed) }
        services.ticker.add(self)
        perform(actions)
    }

    func abandon(_ read: any ParkedRead) {
        state.withLock { state in
            guard !Self.unqueue(read, &state), let id = state.parked.first(where: { $0.value.read === read })?.key
            else { return }
            state.parked[id] = nil
            state.ledger.abandon(id)
        }
    }

    /// Answers a read whose bytes have come, on the `answers` thread. Where they were evicted again already it waits
    /// anew.
    func answer(_ parked: Parked, _ buffer: UnsafeMutableRawBufferPointer) {
        if let count = hit(parked.range, into: buffer, of: parked.node, wasParked: true) {
            parked.read.succeed(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        } else {
            wait(parked.read, for: parked.range, of: parked.node, until: parked.deadline)
        }
    }

    // MARK: Life

    func opened() {
        object.touch()
        state.withLock { $0.ledger.openHandles += 1 }
    }

    /// - Returns: whether it was the last handle.
    @discardableResult
    func closed() -> Bool {
        // A file that the kernel read itself counts as used and read as a whole.
        let isShared = object.isShared
        if isShared { object.useAll() } else { object.touch() }
        return decide { state in
            if isShared { state.ledger.readAll() }
            state.ledger.openHandles -= 1
            state.ledger.lastClose = now()
            return state.ledger.openHandles == 0
        }
    }

    /// True while more of a file with an open end may come.
    var isGrowing: Bool { state.withLock { $0.ledger.isOpenEnded && !$0.ledger.isIdle } }

    /// Where the body of a file with an open end has come to; nil of any other file, and where its stream was let go
    /// of.
    func end(of stream: Ledger.StreamID) -> Int64? {
        state.withLock { $0.ledger.isOpenEnded ? $0.ledger.place(of: stream, count: 0)?.lower : nil }
    }

    /// The body of a file with an open end came whole, and the cache has not all of it: what is gone does not come
    /// again.
    func breakOff() { state.withLock { $0.ledger.brokenOff = .failed } }

    /// Whether the last reader has read half of it and more in a row.
    var isPlayed: Bool { state.withLock { $0.ledger.isPlayed } }

    /// Whether nothing is left to fetch for a reader that plays it through.
    var isPlayedFromCache: Bool { state.withLock { $0.ledger.isPlayedFromCache } }
    var isComplete: Bool { object.present.isComplete }

    /// Fails all reads that wait and stops all streams.
    func shutdown() {
        let (actions, queued) = state.withLock { state in
            state.isOver = true
            defer { state.queue = [] }
            return (state.ledger.supersede(), state.queue)
        }
        for parked in queued { parked.read.fail(.failed) }
        perform(actions)
    }

    /// The origin has another version: from here on this one serves what it has.
    func supersede() { perform(state.withLock { $0.ledger.supersede() }) }

    var isSuperseded: Bool { state.withLock { $0.ledger.isSuperseded } }
    var openHandles: Int { state.withLock { $0.ledger.openHandles } }
    var cachedBytes: Int64 { object.filledBytes }
    var rate: Int64 { state.withLock { $0.rate.perSecond(now()) } }

    var isOver: Bool { state.withLock { $0.isOver } }

    /// No handle is open and nothing runs.
    var isDone: Bool {
        state.withLock { $0.ledger.openHandles == 0 && $0.ledger.isIdle && $0.queue.isEmpty && !$0.isWriting }
    }

    func revive() {
        state.withLock { state in
            if !state.isOver { state.ledger.revive() }
        }
    }

    func size(_ block: Int) -> Int64 { BlockSize.bytes(of: block, length: length).count }

    /// Frees the blocks that no row will tell of. - Precondition: no open can take the file meanwhile.
    func giveBackFragments() {
        do {
            try object.abandonFragments()
        } catch {
            services.logger.warning("\(error)")
        }
    }
}

extension RemoteFile: Ticking {
    func tick(_ now: Duration) -> Bool {
        perform(decide { $0.ledger.tick(now: now) })
        moveQueue(now)
        return state.withLock { $0.ledger.isTicking || !$0.queue.isEmpty }
    }
}
