import Testing

@testable import ReelCore

/// A player, scanners and a command on one line, shared evenly by all requests that bring bytes. The player's requests
/// are those of a ledger, its reads those of the kernel; the clock is scripted.
private struct SharedLine {
    private struct Request {
        var next: Int64
        var end: Int64
        /// Bytes come from then on.
        var from: Duration
        var hasBegun = false
        var isPaused = false
        /// Bytes that are on their way and were not handed over yet.
        var gathered = 0.0
    }

    private final class Film: Sendable {}

    private static let step = Duration.milliseconds(5)
    private static let piece: Int64 = 128 << 10
    private static let trip = Duration.milliseconds(40)
    /// The work of a scanner: what it asks for, and how long it is busy with it.
    private static let probe: (bytes: Int64, rest: Duration) = (256 << 10, .milliseconds(60))
    /// What comes of a request that takes no bytes, until its socket is full.
    private static let socket = 512.0 * 1024

    let capacity: Double
    let rate: Double
    /// The rate of one request; what a server or TCP lets it have.
    var most = Double.infinity
    /// When no byte comes, since the start.
    var silence = Duration.zero..<Duration.zero
    /// A command fetches a file meanwhile, with one request that began before the film.
    var isPrefetching = false
    /// A copy of another file goes on meanwhile, over this many requests.
    var copies = 0
    private let film = Film()
    private let copied = Film()
    private var share = LineShare()
    private var limit = ConcurrencyLimit()
    private var ledger: Ledger
    private var requests: [Ledger.StreamID: Request] = [:]
    private var scanners: [Request]
    private let start = Duration.seconds(100)
    private var now = Duration.seconds(100)
    private var toldAt = Duration.zero
    /// The kernel's reads: what it has asked for, and which of it has not come.
    private var asked: Int64 = 0
    private var parked: [Ledger.ReadID: ByteRange] = [:]

    private(set) var stalls: [Duration] = []
    private(set) var scannedBytes: Int64 = 0
    private(set) var prefetchedBytes: Int64 = 0
    private(set) var copiedBytes: Int64 = 0
    /// The state of the command's request, what stands in its socket, nil if it has not begun.
    private var held: Double?

    init(capacity: Double, rate: Double, scanners: Int, seconds: Int64, isKnown: Bool = false) {
        (self.capacity, self.rate) = (capacity, rate)
        ledger = Ledger(length: Int64(rate) * seconds)
        ledger.opened()
        if isKnown { ledger.learn(seconds: Double(seconds)) }
        self.scanners = (0..<scanners).map { _ in Request(next: 0, end: 0, from: .seconds(100)) }
    }

    /// The film as a player shows it that has no buffer of its own: late where bytes come more than 0.2 s late.
    /// - Parameter end: since the start.
    mutating func play(until end: Duration = .seconds(3600)) {
        if isPrefetching { while now < start + .seconds(5) { advance() } }
        prefetchedBytes = 0
        // The open has asked for the beginning.
        noteWait()
        let begin = now
        var (place, late) = (Int64(0), Duration.zero)
        while place < ledger.length, now - start < end {
            let due = begin + late + .seconds(Double(place) / rate)
            while now < due { advance() }
            askAhead(of: place)
            while parked.values.contains(where: { $0.lower < place + Self.piece && $0.upper > place }) { advance() }
            if now - due > .milliseconds(200) {
                late += now - due
                stalls.append(now - start)
            }
            place += Self.piece
        }
    }

    /// Asks as the kernel does: half a mebibyte ahead, in reads of two blocks.
    private mutating func askAhead(of place: Int64) {
        while asked < min(ledger.length, place + 4 * BlockSize.block) {
            let range = ByteRange(asked, min(ledger.length, asked + 2 * BlockSize.block))
            asked = range.upper
            if ledger.hit(range, now: now) {
                if ledger.wantsReadahead(now: now) { perform(ledger.readAhead(now: now)) }
                continue
            }
            let id = Ledger.ReadID(range.lower)
            let requests =
                ledger.isUnderrun(range)
                ? limit.underrun(ObjectIdentifier(film), rate: ledger.rate, now: now) : limit.share
            ledger.limits.requests = copies > 0 ? max(requests, 3) : requests
            ledger.limits.isContended = copies > 0
            parked[id] = range
            perform(ledger.park(id, range, deadline: now + .seconds(30), now: now))
            tell()
        }
    }

    private mutating func tell() {
        toldAt = now
        let rank = ledger.rank(now: now)
        share.tell(ObjectIdentifier(film), ahead: ledger.secondsAhead(now: now), by: rank, now: now)
        if copies > 0 { share.tell(ObjectIdentifier(copied), ahead: 0, by: .filler, now: now) }
    }

    private mutating func perform(_ actions: [Ledger.Action]) {
        for action in actions {
            switch action {
            case .start(let id, let range, let isDemanded):
                if isDemanded { noteWait() }
                requests[id] = Request(next: range.lower, end: range.upper, from: now + Self.trip)
                ledger.requested(id, now: now)
            case .stop(let id): requests[id] = nil
            case .resume(let id): requests[id]?.isPaused = false
            case .promote: noteWait()
            case .complete(let id):
                guard let range = parked.removeValue(forKey: id) else { continue }
                _ = ledger.hit(range, now: now, wasParked: true)
            case .completeInPart, .fail: Issue.record("\(action)")
            }
        }
    }

    /// Does what the gate does for requests that a read waits for, and that are no player's.
    private mutating func noteWait() {
        guard !ledger.hasPlayer(now: now) else { return }
        if share.readerWaits(as: ledger.rank(now: now), now: now).contains(.command) { held = nil }
    }

    private mutating func advance() {
        now += Self.step
        if now - toldAt >= .milliseconds(100) {
            tell()
            perform(ledger.tick(now: now))
        }
        if silence.contains(now - start) { return }
        beginScans()
        let flowing = requests.filter { $0.value.from <= now && !$0.value.isPaused }.map(\.key)
        let scanning = scanners.indices.filter { scanners[$0].next < scanners[$0].end && scanners[$0].from <= now }
        let isFilling = isPrefetching && takeHeld()
        let copying = share.pause(of: .filler, now: now) == nil ? copies : 0
        let flows = Double(flowing.count + scanning.count + copying + (isFilling ? 1 : 0))
        guard flows > 0 else { return }
        let each = min(capacity / flows, most) * Self.step.seconds
        if isFilling { held? += each }
        if copying > 0 {
            let count = Int64(each * Double(copying))
            copiedBytes += count
            share.took(count, charged: count, by: .filler, now: now)
        }
        for index in scanning { deliver(each, toScanner: index) }
        for id in flowing.sorted() { deliver(each, to: id) }
    }

    /// - Returns: whether more comes of the command's request.
    private mutating func takeHeld() -> Bool {
        guard share.pause(of: .command, now: now) == nil else { return held.map { $0 < Self.socket } ?? false }
        if held == nil { share.pay(Self.piece, by: .command, now: now) }
        let count = Int64(held ?? 0)
        held = 0
        prefetchedBytes += count
        share.took(count, charged: count, by: .command, now: now)
        return true
    }

    private mutating func beginScans() {
        for index in scanners.indices where scanners[index].next >= scanners[index].end && scanners[index].from <= now {
            if share.pause(now: now) != nil { continue }
            share.pay(Self.piece, now: now)
            scanners[index] = Request(next: 0, end: Self.probe.bytes, from: now + Self.trip)
        }
    }

    /// What has begun comes whole: it stands in sockets.
    private mutating func deliver(_ count: Double, toScanner index: Int) {
        let before = scanners[index].next
        scanners[index].next += Int64(count)
        scannedBytes += Int64(count)
        let charged = max(0, scanners[index].next - max(before, Self.piece))
        share.took(Int64(count), charged: charged, now: now)
        if scanners[index].next >= scanners[index].end { scanners[index].from = now + Self.probe.rest }
    }

    private mutating func deliver(_ count: Double, to id: Ledger.StreamID) {
        guard var request = requests[id] else { return }
        if !request.hasBegun { perform(ledger.began(id, isWhole: false, now: now)) }
        request.hasBegun = true
        request.gathered += count
        let rest = request.end - request.next
        guard request.gathered >= 16_384 || Int64(request.gathered) >= rest else { return requests[id] = request }
        let range = ByteRange(request.next, request.next + min(rest, Int64(request.gathered)))
        request.gathered = 0
        request.next = range.upper
        requests[id] = request
        share.took(range.count, charged: 0, now: now)
        ledger.limits.requests = limit.took(range.count, now: now)
        guard let place = ledger.place(of: id, count: range.count) else { return requests[id] = nil }
        let (actions, answer) = ledger.arrived(id, place, now: now)
        perform(actions)
        switch answer {
        case .more: break
        case .pause: requests[id]?.isPaused = true
        case .stop: requests[id] = nil
        }
        guard request.next >= request.end || answer == .stop else { return }
        requests[id] = nil
        perform(
            ledger.ended(id, answer == .stop && request.next < request.end ? .cancelled : nil, now: now, random: 0.5))
    }
}

@Suite struct SharedLineTests {
    struct Case: Sendable {
        /// Bytes a second.
        var capacity = 5e6
        var rate = 2.5e6
        var scanners = 8
        var most = Double.infinity
        var silence = Duration.zero..<Duration.zero
        var stalls = 1

        static let all = [
            Case(), Case(scanners: 16),
            // It needs three of four parts of the line; it begins late a second time.
            Case(rate: 3.75e6, stalls: 2),
            // One request does not bring what it takes.
            Case(capacity: 20e6, most: 1.5e6), Case(most: 1.5e6, stalls: 2),
            Case(scanners: 0, most: 1.5e6, stalls: 2), Case(capacity: 12e6, rate: 6e6, most: 4e6),
            // The line is silent for longer than it has ahead by then.
            Case(silence: .seconds(2)..<Duration.milliseconds(2600), stalls: 2),
        ]
    }

    @Test(arguments: Case.all) func aFilmBesideAScanStallsWhileItBeginsAndTheScanGoesOn(_ line: Case) {
        var shared = SharedLine(capacity: line.capacity, rate: line.rate, scanners: line.scanners, seconds: 60)
        (shared.most, shared.silence) = (line.most, line.silence)
        shared.play()
        #expect(shared.stalls.count <= line.stalls, "\(shared.stalls)")
        let left = line.scanners == 0 ? 0 : (line.capacity - line.rate) * 60
        #expect(Double(shared.scannedBytes) >= left / 4, "the scan has starved: \(shared.scannedBytes)")
    }

    @Test(arguments: [0, 8]) func aFilmOfKnownRateBesideACopyStallsWhileItBeginsAndTheCopyGoesOn(_ scanners: Int) {
        var shared = SharedLine(capacity: 5e6, rate: 2.5e6, scanners: scanners, seconds: 60, isKnown: true)
        shared.copies = 4
        shared.play()
        #expect(shared.stalls.count <= 1, "\(shared.stalls)")
        let left = 2.5e6 * 60
        #expect(Double(shared.copiedBytes + shared.scannedBytes) >= 0.5 * left)
        #expect(Double(shared.copiedBytes) >= left / 8, "the copy has starved: \(shared.copiedBytes)")
    }

    @Test func aFilmBesideAPrefetchNeverStallsAndThePrefetchHasTheRest() {
        var shared = SharedLine(capacity: 5e6, rate: 2.5e6, scanners: 0, seconds: 60)
        shared.isPrefetching = true
        shared.play()
        #expect(shared.stalls.isEmpty, "\(shared.stalls)")
        #expect(Double(shared.prefetchedBytes) >= 0.5 * 2.5e6 * 60, "it has starved: \(shared.prefetchedBytes)")
    }

    /// Forty-eight films with a third of a megabyte each: it would take three seconds and a half alone.
    @Test func aScanThatBeginsWithAFilmIsOverInFourTimesItsTimeAlone() {
        var shared = SharedLine(capacity: 5e6, rate: 2.5e6, scanners: 8, seconds: 60)
        shared.play(until: .seconds(13))
        #expect(shared.scannedBytes >= 16_000_000, "\(shared.scannedBytes)")
        #expect(shared.stalls.count <= 1, "\(shared.stalls)")
    }
}
