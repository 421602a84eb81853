/// How many requests at a time fetch for one reader of one origin: events in, a number out.
///
/// One, until a reader has to wait although its bytes are fetched ahead, from an origin whose single connections are slow:
/// then six. While readers keep waiting, fewer are tried now and then, three and then one, and stay where they bring as
/// much. A refusal (429, 503) leaves one, for longer each time.
///
///     one ──starved──▶ six ──trial──▶ three ──trial──▶ one
///      ▲                └─◀─ less ────┘ └─◀─ less ─────┘
///      └──refused── from everywhere
package struct Parallelism: Sendable {
    /// What browsers open to one host.
    package static let most = 6
    /// Of all readers together: what the transport gives to requests that nobody waits for.
    private static let mostOfAll = 12
    /// Bytes a second of one connection from which more of them only cost: half a gigabit.
    private static let fast = 64e6
    /// Connections open, and windows of TCP grow, before it counts what they bring.
    private static let settling = Duration.milliseconds(300)
    private static let epoch = Duration.seconds(1)
    /// Fewer that bring this share of what more bring are as good.
    private static let enough = 0.85

    package private(set) var lanes = 1
    /// Not more than one before this.
    private var heldUntil = Duration.zero
    /// Who had to wait lately, and when.
    private var hungry: [ObjectIdentifier: Duration] = [:]
    private var refusals = 0
    private var lastStarved = Duration.zero
    private var countedFrom = Duration.zero
    private var bytes: Int64 = 0
    /// While fewer are tried: how many there were, and their bytes a second.
    private var wider: (lanes: Int, rate: Double)?
    private var nextTrial = Duration.zero
    private var trialPause = Duration.seconds(30)

    package init() {}

    /// What one of the hungry readers may use: all together stay within what one host is asked at a time.
    package var share: Int { max(1, min(lanes, Self.mostOfAll / max(1, hungry.count))) }

    /// A reader waits for bytes that were fetched ahead.
    /// - Parameters:
    ///   - file: whose reader it is.
    ///   - rate: of one connection, bytes a second; nil: unknown.
    package mutating func starved(_ file: ObjectIdentifier, rate: Double?, now: Duration) {
        lastStarved = now
        hungry[file] = now
        if hungry.count > 1 { hungry = hungry.filter { now - $1 < .seconds(1) } }
        guard lanes == 1, wider == nil, now >= heldUntil, let rate, rate < Self.fast else { return }
        become(Self.most, now)
        nextTrial = now + .seconds(2)
    }

    /// Bytes of any body came.
    package mutating func took(_ count: Int64, now: Duration) {
        guard lanes > 1 || wider != nil, now >= countedFrom else { return }
        bytes += count
        let elapsed = now - countedFrom
        guard elapsed >= Self.epoch else { return }
        let rate = Double(bytes) / elapsed.seconds
        countedFrom = now
        bytes = 0
        // A reader that has what it wants says nothing about the line.
        guard now - lastStarved < .milliseconds(500) else { return }
        if let wider {
            self.wider = nil
            if rate >= Self.enough * wider.rate {
                nextTrial = now + .seconds(2)
                if lanes == 1 { heldUntil = now + .seconds(60) }
            } else {
                become(wider.lanes, now)
                nextTrial = now + trialPause
                trialPause = min(trialPause * 2, .seconds(600))
            }
        } else if now >= nextTrial {
            wider = (lanes, rate)
            become(lanes > 3 ? 3 : 1, now)
        }
    }

    /// The origin has had enough of us.
    package mutating func refused(retryAfter: Duration?, now: Duration) {
        // What was under way together is refused together.
        if lanes > 1 || now >= heldUntil { refusals = min(refusals + 1, 6) }
        wider = nil
        become(1, now)
        heldUntil = max(heldUntil, now + max(.seconds(15 << refusals), retryAfter ?? .zero))
    }

    private mutating func become(_ count: Int, _ now: Duration) {
        lanes = count
        bytes = 0
        countedFrom = now + Self.settling
    }
}
