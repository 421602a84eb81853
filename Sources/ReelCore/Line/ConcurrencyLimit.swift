/// Decides how many requests at a time fetch for one reader of one origin: events in, a number out.
///
/// One, until a reader underruns (it has to wait although its bytes are fetched ahead) at an origin whose single
/// connections are slow: then six. While readers keep underrunning, three and then one are tried now and then, and stay
/// where they bring as much. A refusal (429, 503) leaves one, for longer each time.
///
///     one ──underrun──▶ six ──trial──▶ three ──trial──▶ one
///      ▲                 └─◀─ less ────┘ └─◀─ less ─────┘
///      └──refused── from everywhere
package struct ConcurrencyLimit: Sendable {
    /// Browsers open as many connections to one host.
    package static let most = 6
    /// For all readers together: the transport leaves as many connections to requests that no read waits for.
    private static let mostOfAll = 2 * most
    /// Bytes a second of one connection from which more connections only cost: half a gigabit.
    private static let fast = 64e6
    /// Connections open, and TCP windows grow, before their bytes are counted.
    private static let settling = Duration.milliseconds(300)
    private static let epoch = Duration.seconds(1)
    /// Fewer requests are good enough where they bring this share of the bytes that more bring.
    private static let enough = 0.85

    /// Requests at a time while a single reader underruns.
    package private(set) var requests = 1
    /// Until then there is one request at a time.
    private var heldUntil = Duration.zero
    /// Until then the origin wants fewer requests, as it has said.
    private var refusedUntil = Duration.zero
    /// When each reader underran last.
    private var underruns: [ObjectIdentifier: Duration] = [:]
    private var refusals = 0
    private var lastUnderrun = Duration.zero
    private var countedFrom = Duration.zero
    private var bytes: Int64 = 0
    /// While fewer are tried: how many requests there were, and their bytes a second.
    private var wider: (requests: Int, rate: Double)?
    private var nextTrial = Duration.zero
    private var trialPause = Duration.seconds(30)

    /// One request at a time.
    package init() {}

    /// Requests for one of the readers that underrun: together they stay within `mostOfAll`.
    package var share: Int { max(1, min(requests, Self.mostOfAll / max(1, underruns.count))) }

    /// A reader waits for bytes that were fetched ahead.
    /// - Parameters:
    ///   - file: the file that it reads.
    ///   - rate: of one connection, bytes a second, nil if unknown.
    /// - Returns: `share` from now on.
    package mutating func underrun(_ file: ObjectIdentifier, rate: Double?, now: Duration) -> Int {
        lastUnderrun = now
        underruns[file] = now
        if underruns.count > 1 { underruns = underruns.filter { now - $1 < Readahead.underrunTime } }
        if requests == 1, wider == nil, now >= heldUntil, let rate, rate < Self.fast {
            become(Self.most, now)
            nextTrial = now + .seconds(2)
        }
        return share
    }

    /// Bytes of any body came. - Returns: `share` from now on.
    package mutating func took(_ count: Int64, now: Duration) -> Int {
        if requests > 1 || wider != nil, now >= countedFrom {
            bytes += count
            let elapsed = now - countedFrom
            if elapsed >= Self.epoch { judge(elapsed, now) }
        }
        return share
    }

    /// - Parameter elapsed: since the bytes are counted.
    private mutating func judge(_ elapsed: Duration, _ now: Duration) {
        let rate = Double(bytes) / elapsed.seconds
        countedFrom = now
        bytes = 0
        // A reader that lacks nothing says nothing about the line, nor does a time in which nothing was asked for: any
        // number of requests would bring as much.
        guard elapsed < Self.epoch * 2, now - lastUnderrun < .milliseconds(500) else { return }
        if let wider {
            self.wider = nil
            if rate >= Self.enough * wider.rate {
                nextTrial = now + .seconds(2)
                if requests == 1 { heldUntil = now + .seconds(60) }
            } else {
                become(wider.requests, now)
                nextTrial = now + trialPause
                trialPause = min(trialPause * 2, .seconds(600))
            }
        } else if now >= nextTrial {
            wider = (requests, rate)
            become(requests == Self.most ? Self.most / 2 : 1, now)
        }
    }

    /// A request has ended.
    package mutating func ended(_ failure: OriginFailure?, now: Duration) {
        guard let failure, failure.meaning.isOverloaded else { return }
        // Requests that were under way together are refused together.
        if requests > 1 || now >= heldUntil { refusals = min(refusals + 1, 6) }
        wider = nil
        become(1, now)
        refusedUntil = max(refusedUntil, now + max(.seconds(15 << refusals), failure.retryAfter ?? .zero))
        heldUntil = max(heldUntil, refusedUntil)
    }

    /// Whether the origin has refused requests, so that there is one at a time, whoever else needs the line.
    package func isRefused(now: Duration) -> Bool { now < refusedUntil }

    private mutating func become(_ count: Int, _ now: Duration) {
        requests = count
        bytes = 0
        countedFrom = now + Self.settling
    }
}
