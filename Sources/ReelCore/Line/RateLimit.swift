import ReelThreads

/// A limit that may change at any time, and that all requests share to which it applies: those of a mount, or of one
/// command.
package final class RateLimit: Sendable {
    private struct State {
        var schedule: RateSchedule
        var bucket = TokenBucket()
        /// When the time of day was last looked at, nil if not yet, or if the schedule is new.
        var lookedAt: Duration?
    }

    /// A change of the schedule is noticed within this time.
    private static let interval = Duration.seconds(1)

    private let state: Lock<State>
    private let minute: @Sendable () -> Int

    /// - Parameter minute: since midnight, now; asked for about once a second, on any thread.
    package init(_ schedule: RateSchedule = .off, minute: @escaping @Sendable () -> Int) {
        state = Lock(State(schedule: schedule))
        self.minute = minute
    }

    /// Holds from now on.
    package var schedule: RateSchedule {
        get { state.withLock { $0.schedule } }
        set {
            state.withLock { state in
                state.schedule = newValue
                state.lookedAt = nil
            }
        }
    }

    /// Bytes a second that hold now, nil for no limit.
    package func rate(now: Duration) -> Double? {
        look(now)
        return state.withLock { $0.bucket.rate }
    }

    /// Like `TokenBucket.took`.
    package func took(_ count: Int64, now: Duration) { state.withLock { $0.bucket.took(count, now: now) } }

    /// Like `TokenBucket.pause`.
    package func pause(now: Duration) -> Duration? {
        look(now)
        return state.withLock { $0.bucket.pause(now: now) }
    }

    private func look(_ now: Duration) {
        if state.withLock({ $0.lookedAt.map { now - $0 < Self.interval } ?? false }) { return }
        // Outside of the lock: it may read the file of the time zone.
        let minute = minute()
        state.withLock { state in
            state.lookedAt = now
            state.bucket.change(to: state.schedule.rate(at: minute).map { Double($0) }, now: now)
        }
    }
}
