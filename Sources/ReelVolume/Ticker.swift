import ReelThreads

protocol Ticking: AnyObject, Sendable {
    /// - Returns: whether there is more to wait for.
    func tick(_ now: Duration) -> Bool
}

/// Calls `tick` of everything that has something under way, and timers; sleeps while there are none.
final class Ticker: Sendable {
    /// Deadlines and pauses are in tenths of a second and more.
    private static let interval = Duration.milliseconds(50)

    private struct State {
        var members: [ObjectIdentifier: any Ticking] = [:]
        var timers: [(due: Duration, job: @Sendable () -> Void)] = []
        var isOver = false
    }

    private let state: Monitor<State>
    private let thread: Thread

    init() {
        let state = Monitor(State())
        self.state = state
        let thread = Thread("ticker") {
            while true {
                guard state.wait({ $0.isOver ? false : $0.members.isEmpty && $0.timers.isEmpty ? nil : true }) == true
                else { return }
                if state.wait(atMost: Ticker.interval, { $0.isOver ? true : nil }) == true { return }
                let moment = now()
                let (members, due) = state.withLock { state in
                    let due = state.timers.filter { $0.due <= moment }
                    state.timers.removeAll { $0.due <= moment }
                    return (state.members, due)
                }
                for timer in due { timer.job() }
                for (id, member) in members where !member.tick(moment) {
                    state.withLock { $0.members[id] = nil }
                    // Work that came in between may have found itself still a member.
                    if member.tick(now()) { Ticker.add(member, to: state) }
                }
            }
        }
        guard let thread else { fatalError("the system has no thread to spare at the start of a mount") }
        self.thread = thread
    }

    func add(_ member: any Ticking) {
        if state.withLock(notifying: false, { $0.members[ObjectIdentifier(member)] != nil }) { return }
        Ticker.add(member, to: state)
    }

    private static func add(_ member: any Ticking, to state: Monitor<State>) {
        state.withLock { state in
            if !state.isOver { state.members[ObjectIdentifier(member)] = member }
        }
    }

    /// Does a short job after `pause`; never, if the volume ends before.
    func after(_ pause: Duration, _ job: @escaping @Sendable () -> Void) {
        state.withLock { state in
            if !state.isOver { state.timers.append((now() + pause, job)) }
        }
    }

    func stop() {
        state.withLock { $0.isOver = true }
        thread.join()
        // They hold what holds the ticker. Released outside of the lock: some take locks of their own at their end.
        let held = state.withLock { state in
            defer { (state.members, state.timers) = ([:], []) }
            return (state.members, state.timers)
        }
        withExtendedLifetime(held) {}
    }
}
