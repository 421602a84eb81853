/// Measures how fast an origin answers: the time that a new request costs, as bytes that a running one would bring
/// meanwhile.
package struct Pace: Sendable {
    private struct Body {
        var requested: Duration
        /// Since its head, or since a second ago.
        var since: Duration
        var bytes: Int64 = 0
    }

    /// Smoothed seconds from a request to its head, and how much they vary.
    private var timeToHead = 0.05
    private var deviation = 0.05
    /// Bytes a second that one running body brings, smoothed; nil before the first.
    package private(set) var rate: Double?
    /// The same with the time until the head came, which says more about short bodies, as they come in one piece.
    package private(set) var wholeRate: Double?
    private var running: [UInt64: Body] = [:]
    private var requested: [UInt64: Duration] = [:]

    /// Nothing is measured yet.
    package init() {}

    private static let most = Double(Readahead.most / 2)

    /// Bytes that one body brings in the time that a new request takes to be answered.
    package var handover: Int64 { Int64(min((rate ?? 4e6) * timeToHead, Self.most)) }

    /// The same by the lower of the two rates: the least that a pause of a connection between two requests costs.
    package var turnaround: Int64 { Int64(min((wholeRate ?? 0) * timeToHead, Self.most)) }

    /// Bytes up to this far before a stream are better waited for than asked for by another: from 1 MiB, the most that
    /// the kernel asks for at once, to `most`, as more is not worth fetching twice.
    package var joinDistance: Int64 { max(handover, Readahead.near) }

    /// Silence of this length is unusual: longer than this origin hardly ever takes, and no less than a wireless line
    /// takes to recover.
    package var hedgeAfter: Duration { max(.milliseconds(1500), .seconds(timeToHead + 4 * deviation)) }

    /// The same where a second try asks another origin: soon enough that a reader has its bytes within a second and a
    /// half.
    package var mirrorAfter: Duration {
        min(max(.milliseconds(500), .seconds(timeToHead + 4 * deviation)), .milliseconds(800))
    }

    /// A request was sent.
    package mutating func started(_ id: UInt64, now: Duration) { requested[id] = now }

    /// The head of its answer came.
    package mutating func head(of id: UInt64, now: Duration) {
        guard let start = requested.removeValue(forKey: id) else { return }
        let seconds = (now - start).seconds
        deviation = 0.75 * deviation + 0.25 * abs(seconds - timeToHead)
        timeToHead = 0.75 * timeToHead + 0.25 * seconds
        running[id] = Body(requested: start, since: now)
    }

    /// Bytes of its body came.
    package mutating func bytes(_ count: Int64, of id: UInt64, now: Duration) {
        guard var body = running[id] else { return }
        body.bytes += count
        // A body that came at once was as fast as memory: no clock measures better.
        let elapsed = max((now - body.since).seconds, 0.0002)
        if body.bytes >= 64 << 10 {
            let fresh = Double(body.bytes) / elapsed
            rate = rate.map { 0.5 * $0 + 0.5 * fresh } ?? fresh
            let whole = Double(body.bytes) / max((now - body.requested).seconds, 0.0002)
            wholeRate = wholeRate.map { 0.5 * $0 + 0.5 * whole } ?? whole
        }
        if elapsed > 1 { body = Body(requested: now, since: now) }
        running[id] = body
    }

    /// It goes on after a pause, which does not count.
    package mutating func resumed(_ id: UInt64, now: Duration) {
        if running[id] != nil { running[id] = Body(requested: now, since: now) }
    }

    /// It is over.
    package mutating func ended(_ id: UInt64) {
        running[id] = nil
        requested[id] = nil
    }
}

extension Duration {
    /// In seconds.
    package var seconds: Double { Double(components.seconds) + Double(components.attoseconds) * 1e-18 }
}
