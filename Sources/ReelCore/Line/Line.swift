import ReelThreads
import Synchronization

/// The line of a mount: its files report what their players need, and its transports ask what is left for the rest.
package final class Line: Sendable {
    private let share = Lock(LineShare())
    private let isCut = Atomic(false)
    /// The rate of all requests together.
    package let limit: RateLimit

    /// No player is known. - Parameter minute: as `RateLimit` asks for it.
    package init(_ schedule: RateSchedule = .off, minute: @escaping @Sendable () -> Int = { 0 }) {
        limit = RateLimit(schedule, minute: minute)
    }

    /// Whether the user wants nothing to be asked for: every request ends with `Outage.offline`.
    package var isOffline: Bool { isCut.load(ordering: .relaxed) }

    /// - Returns: whether that is news.
    @discardableResult
    package func setOffline(_ isOffline: Bool) -> Bool { isCut.exchange(isOffline, ordering: .relaxed) != isOffline }

    /// Like `LineShare.tell`.
    package func tell(_ file: ObjectIdentifier, ahead: Double?, by rank: LineRank = .player, now: Duration) {
        share.withLock { $0.tell(file, ahead: ahead, by: rank, now: now) }
    }

    /// Like `LineShare.readerWaits`.
    @discardableResult
    package func readerWaits(as rank: LineRank = .reader, now: Duration) -> Set<LineRank> {
        share.withLock { $0.readerWaits(as: rank, now: now) }
    }

    /// Like `LineShare.took`.
    package func took(_ count: Int64, charged: Int64, by rank: LineRank = .reader, now: Duration) {
        share.withLock { $0.took(count, charged: charged, by: rank, now: now) }
    }

    /// Like `LineShare.pay`.
    package func pay(_ count: Int64, by rank: LineRank = .reader, now: Duration) {
        share.withLock { $0.pay(count, by: rank, now: now) }
    }

    /// Like `LineShare.pause`.
    package func pause(of rank: LineRank = .reader, now: Duration) -> Duration? {
        let most = limit.rate(now: now)
        return share.withLock { $0.pause(of: rank, now: now, limit: most) }
    }

    /// Like `LineShare.isContended`.
    package func isContended(besides file: ObjectIdentifier, now: Duration) -> Bool {
        share.withLock { $0.isContended(besides: file, now: now) }
    }
}
