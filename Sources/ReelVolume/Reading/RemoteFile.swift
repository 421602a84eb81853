import ReelCache
import ReelCore
import ReelFilesystem
import ReelThreads
import Synchronization

/// One version of one resource: its bytes in the cache, and the requests under way to the others. All handles share it.
///
/// The state is one value behind one lock: `decide` asks it under the lock, and `perform` acts on the answer outside.
final class RemoteFile: Sendable {
    let object: CacheObject
    let services: Services
    private let state: Lock<FileState>
    let concurrency: ConcurrencyLimits.Shared
    /// A reader has played the file through. Looked at after each read, so not under the lock.
    private let wantsNext = Atomic(false)
    /// nil unless the file may grow.
    let growth: Growth.Shared?

    init(_ url: ResourceURL, _ information: ContentInformation, _ object: CacheObject, _ services: Services) {
        self.object = object
        self.services = services
        let ledger = Ledger(
            object.present, acceptsRanges: information.acceptsRanges, cacheCap: services.store.usage.cap,
            alignment: services.options.alignment)
        concurrency = services.upstream.concurrency[url]
        let mayGrow = services.options.growing && !object.present.isOpenEnded
        growth = mayGrow ? Growth.Shared(wait: services.options.timeout) : nil
        let hasMirror = services.hasOtherPlace(for: url, information, hasBytes: object.filledBytes > 0)
        state = Lock(FileState(ledger, url, information, hasMirror: hasMirror), .file)
    }

    /// Reads the state.
    func ask<Answer>(_ question: (FileState) -> sending Answer) -> sending Answer {
        state.withLock { question($0) }
    }

    /// Changes the state, under these limits, and reports the changes of its statistics.
    func decide<Answer>(
        under limits: Ledger.Limits? = nil, _ body: (inout FileState) -> sending Answer
    ) -> sending Answer {
        state.withLock { state in
            if let limits { state.limit(limits) }
            defer { state.report(to: services.counters) }
            return body(&state)
        }
    }

    /// The place that the next request asks.
    var url: ResourceURL { ask { $0.url } }

    /// The file is opened under this URL, as this version: the same, but maybe with another date or tag.
    /// - Parameter url: nil if it stays.
    func move(to url: ResourceURL?, _ information: ContentInformation) {
        decide { ($0.url, $0.information) = (url ?? $0.url, information) }
    }

    /// Bytes; `BlockSize.openEnd` until its end is known.
    var length: Int64 { object.length }
    var isOpenEnded: Bool { length == BlockSize.openEnd }

    /// The information of the last open, with the length once it is known.
    var information: ContentInformation {
        var information = ask { $0.information }
        if information.length == nil, !isOpenEnded { information.length = length }
        return information
    }

    /// The program that the file's requests are for, as far as it is known.
    var program: String? { ask { $0.reader.program }?.name }

    private func note(_ thread: Int32?) {
        guard let thread, thread != ask({ $0.reader.thread }) else { return }
        let program = programName(ofThread: thread).map { services.programs[$0] }
        let (isNew, isBeginning) = decide { $0.waits(thread, of: program) }
        guard let program else { return }
        // A child may read what its parent opened.
        if isNew { program.reads() }
        if isBeginning { begins(program, now()) }
    }

    /// The program's first requests for bytes of this file are due.
    func begins(_ program: ProgramTally, _ moment: Duration) {
        program.begins(now: moment)
        services.scans.look(services.kernelCache, services.ticker, now: moment)
    }

    /// A program has opened it. Its hits ask for no name: they would be slower.
    func opened(by name: String) {
        let program = services.programs[name]
        if decide({ $0.opened(by: program) }).isNew { program.reads() }
    }

    // MARK: Reading

    /// Answers a read at once where its bytes are there; else it waits.
    /// - Parameters:
    ///   - buffer: as long as the read; cut at the end of the file.
    ///   - node: of the handle.
    func read(
        _ offset: Int64, into buffer: UnsafeMutableRawBufferPointer, of node: NodeID, park: () -> any ParkedRead
    ) -> ReadAnswer {
        let range = bounds(offset, buffer.count)
        let moment = now()
        if range.isEmpty {
            guard let growth else { return .read(0) }
            return readAtEnd(offset, buffer.count, of: node, at: moment, growth, park: park)
        }
        if let count = hit(range, into: buffer, of: node, at: moment) {
            counted(moment)
            return .read(count)
        }
        services.counters.misses.add(1, ordering: .relaxed)
        let parked = park()
        note(parked.thread)
        wait(parked, for: range, of: node, until: moment + services.options.timeout)
        return .parked
    }

    /// Counts a hit, and times some: a look at the clock costs a hundredth of the shortest read.
    private func counted(_ start: Duration) {
        let isInMemory = services.store.bytesInMemory > 0 && object.isInMemory
        let counters = services.counters
        let number =
            isInMemory
            ? counters.memoryHits.add(1, ordering: .relaxed).newValue
            : counters.diskHits.add(1, ordering: .relaxed).newValue
        guard number % Counters.hitsPerTime == 0 else { return }
        services.times[isInMemory ? .memory : .disk].add(now() - start, weight: Counters.hitsPerTime)
    }

    private func bounds(_ offset: Int64, _ count: Int) -> ByteRange {
        guard offset < length else { return ByteRange(length, length) }
        return ByteRange(offset, min(length, offset + Int64(count)))
    }

    /// Copies bytes that are there: no allocation, no lock held over the system call. nil where some are missing.
    private func hit(
        _ range: ByteRange, into buffer: UnsafeMutableRawBufferPointer, of node: NodeID, at moment: Duration,
        wasParked: Bool = false
    ) -> Int? {
        guard isHit(range, of: node, at: moment, wasParked: wasParked) else { return nil }
        // The end may have become known since the range was made.
        let range = range.clamped(to: ByteRange(0, length))
        let buffer = UnsafeMutableRawBufferPointer(rebasing: buffer[..<Int(range.count)])
        switch object.read(into: buffer, at: range.lower) {
        case .bytes(let count):
            services.counters.bytesServed.add(Int64(count), ordering: .relaxed)
            return count
        case .missing: return nil
        case .damaged(let blocks):
            let damaged = blocks.reduce(0) { $0 + $1.count }
            let what = damaged == 1 ? "a damaged block in the cache is" : "\(damaged) damaged blocks in the cache are"
            services.logger.warning("\(url): \(what) fetched again")
            return nil
        }
    }

    /// Whether the bytes are there. If so a reader is counted at their end, and what it needs next is fetched.
    private func isHit(_ range: ByteRange, of node: NodeID, at moment: Duration, wasParked: Bool = false) -> Bool {
        guard let hit = decide({ $0.hit(range, now: moment, wasParked: wasParked) }) else { return false }
        if hit.wantsNext { wantsNext.store(true, ordering: .relaxed) }
        if hit.wantsMore { readAhead(moment) }
        if let behind = hit.behind { leave(behind, of: node) }
        return true
    }

    /// True once after a reader has played the file through, so that the next item may be fetched.
    func takeWantsNext() -> Bool {
        wantsNext.load(ordering: .relaxed) && wantsNext.exchange(false, ordering: .relaxed)
    }

    /// Lends bytes for sendfile(2), which counts as a hit; nil where they have to be read.
    func lend(_ range: ByteRange, of node: NodeID) -> LentBytes? {
        let moment = now()
        guard let loan = object.lend(range), isHit(range, of: node, at: moment) else { return nil }
        counted(moment)
        services.counters.bytesServed.add(range.count, ordering: .relaxed)
        return LentBytes(descriptor: loan.descriptor, range: range, owner: loan)
    }

    /// Keeps a read until its bytes have come. - Parameter isRepair: nothing is read ahead, and the answer has no
    /// bytes.
    func wait(
        _ read: any ParkedRead, for range: ByteRange, of node: NodeID, until deadline: Duration, isRepair: Bool = false
    ) {
        let read = ParkedReads.Read(caller: read, node: node, range: range, deadline: deadline, isRepair: isRepair)
        if decide({ $0.enqueue(read) }) { services.ticker.add(self) } else { park(read) }
    }

    /// Hands a read that waits to the ledger.
    private func park(_ read: ParkedReads.Read) {
        let moment = now()
        let (range, isRepair) = (read.range, read.isRepair)
        let (isUnderrun, rate) = ask { (!isRepair && $0.ledger.isUnderrun(range), $0.ledger.rate) }
        let requests = concurrency.value.withLock { limit in
            isUnderrun ? limit.underrun(ObjectIdentifier(self), rate: rate, now: moment) : limit.share
        }
        guard let actions = decide(under: limits(requests, moment), { $0.park(read, now: moment) }) else {
            return read.caller.fail(.failed)
        }
        services.ticker.add(self)
        tellLine(moment, isNews: true)
        perform(actions)
        readsOn()
    }

    /// Fails queued reads whose deadline has passed, and hands others to the ledger. - Parameter looksAtAll: as in
    /// `FileState`.
    func moveQueue(_ now: Duration, looksAtAll: Bool = false) {
        let (late, next) = decide { $0.takeQueued(now, looksAtAll: looksAtAll) }
        for read in late { read.caller.fail(.timedOut) }
        for read in next { park(read) }
    }

    func abandon(_ caller: any ParkedRead) {
        growth?.withLock { $0.abandon(caller) }
        decide { $0.abandon(caller) }
    }

    /// Answers a read whose bytes have come, on the `answers` thread. Where they were evicted again already it waits
    /// again.
    func answer(_ read: ParkedReads.Read, _ buffer: UnsafeMutableRawBufferPointer) {
        let moment = now()
        if let count = hit(read.range, into: buffer, of: read.node, at: moment, wasParked: true) {
            let place = ask { $0.answerPlace }
            services.times[ReadTimes.Answer(place)].add(moment - (read.deadline - services.options.timeout))
            read.caller.succeed(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        } else {
            wait(read.caller, for: read.range, of: read.node, until: read.deadline)
        }
    }

    /// Copies bytes that are there, for a reader for whom nothing is fetched.
    func readCached(_ offset: Int64, into buffer: UnsafeMutableRawBufferPointer) -> ReadAnswer {
        let range = bounds(offset, buffer.count)
        if range.isEmpty { return .read(0) }
        let buffer = UnsafeMutableRawBufferPointer(rebasing: buffer[..<Int(range.count)])
        guard case .bytes(let count) = object.read(into: buffer, at: range.lower) else { return .failed(.offline) }
        services.counters.diskHits.add(1, ordering: .relaxed)
        services.counters.bytesServed.add(Int64(count), ordering: .relaxed)
        return .read(count)
    }

    // MARK: Life

    func opened() {
        object.touch()
        decide { $0.opened() }
    }

    /// A handle was closed. - Returns: whether it was the last one.
    @discardableResult
    func closed() -> Bool {
        // A file that the kernel read itself counts as used and read as a whole.
        let isShared = object.isShared
        if isShared { object.useAll() } else { object.touch() }
        let (closing, program, url) = decide {
            ($0.close(now: now(), isReadWhole: isShared), $0.reader.program, $0.url)
        }
        guard closing.isLast else { return false }
        // What is opened next must not wait for a player that has gone.
        tellLine(now(), isNews: true)
        if let program, let run = closing.headRun { program.ends(url.fileExtension, bytes: run) }
        return true
    }

    /// True while more of a file with an open end may come.
    var isGrowing: Bool { ask { $0.ledger.isOpenEnded && !$0.ledger.isIdle } }

    /// The end of the bytes that have come of a file with an open end; nil of any other file, and where its stream was
    /// let go of.
    func end(of stream: Ledger.StreamID) -> Int64? {
        ask { $0.ledger.isOpenEnded ? $0.ledger.place(of: stream, count: 0)?.lower : nil }
    }

    /// The body of a file with an open end came whole, and the cache has not all of it: the rest does not come again.
    func breakOff() { decide { $0.breakOff() } }

    /// Whether the last reader has read half of it and more in a row.
    var isPlayed: Bool { ask { $0.ledger.isPlayed } }

    /// Whether the last reader has read most of it in a row, to its end.
    var isReadToEnd: Bool { ask { $0.ledger.isReadToEnd } }

    /// Whether nothing is left to fetch for a reader that plays it through.
    var isPlayedFromCache: Bool { ask { $0.ledger.isPlayedFromCache } }
    var isComplete: Bool { object.present.isComplete }

    /// Fails all reads that wait and stops all streams.
    func shutdown() {
        let (actions, queued) = decide { $0.end() }
        for read in queued { read.caller.fail(.failed) }
        perform(actions)
        endReads()
    }

    /// The origin has another version: from here on this one serves only the bytes that it has.
    func supersede() {
        perform(decide { $0.supersede() })
        endReads()
    }

    var isSuperseded: Bool { ask { $0.ledger.isSuperseded } }
    /// What its bytes were fetched for, since its first open.
    var statistics: FetchStatistics { ask { $0.ledger.statistics } }
    /// A player reads it now.
    var isShownPlaying: Bool { ask { $0.ledger.openHandles > 0 && $0.ledger.isShownPlaying(now: now()) } }
    var openHandles: Int { ask { $0.ledger.openHandles } }
    /// The same, without those of commands that fetch all of it.
    var programHandles: Int { ask { $0.ledger.openHandles - $0.reports.count } }
    var cachedBytes: Int64 { object.filledBytes }
    var rate: Int64 { ask { $0.rate(now()) } }
    var isOver: Bool { ask { $0.isOver } }

    /// No handle is open and nothing runs.
    var isDone: Bool { ask { $0.isDone } && growth?.withLock { $0.isComparing } != true }

    func revive() { decide { $0.revive() } }

    /// Frees the blocks that no row of the index will cover. - Precondition: no open can take the file meanwhile.
    func giveBackFragments() { attempt { () throws(CacheError) in try object.abandonFragments() } }

    /// - Returns: false if the cache failed, which is logged.
    @discardableResult
    func attempt(_ body: () throws(CacheError) -> Void) -> Bool {
        do {
            try body()
            return true
        } catch {
            services.logger.error("\(error)")
            return false
        }
    }
}

extension RemoteFile: Ticking {
    func tick(_ now: Duration) -> Bool {
        if services.hasOtherPlaces {
            let hasMirror = services.hasOtherPlace(for: url, information, hasBytes: object.filledBytes > 0)
            decide { $0.hasMirror = hasMirror }
        }
        tellLine(now)
        perform(decide(under: limits(concurrency.share, now)) { $0.tick(now: now) })
        moveQueue(now, looksAtAll: true)
        let isFollowed = follow(now)
        return ask { $0.hasWork } || isFollowed
    }
}
