import ReelThreads

/// An object with deadlines or pauses that `Ticker` watches.
protocol Ticking: AnyObject, Sendable {
    /// Acts on what is due. - Returns: whether there is more to wait for.
    func tick(_ now: Duration) -> Bool
}

/// Calls `tick` of the objects that have something under way, and runs timers; sleeps while there are none.
final class Ticker: Sendable {
    /// Deadlines and pauses are a tenth of a second and longer.
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
                    // Work that came in between may have found its object still a member.
                    if member.tick(now()) { Ticker.add(member, to: state) }
                }
            }
        }
        guard let thread else { fatalError("the system has no thread to spare at the start of a mount") }
        self.thread = thread
    }

    /// Watches an object until its `tick` returns false.
    func add(_ member: any Ticking) {
        if state.withLock(notifying: false, { $0.members[ObjectIdentifier(member)] != nil }) { return }
        Ticker.add(member, to: state)
    }

    private static func add(_ member: any Ticking, to state: Monitor<State>) {
        state.withLock { state in
            if !state.isOver { state.members[ObjectIdentifier(member)] = member }
        }
    }

    /// Does a short job after `pause`; never where the volume ends before.
    func after(_ pause: Duration, _ job: @escaping @Sendable () -> Void) {
        state.withLock { state in
            if !state.isOver { state.timers.append((now() + pause, job)) }
        }
    }

    /// Ends the thread; no job runs and no `tick` is called afterwards.
    func stop() {
        state.withLock { $0.isOver = true }
        thread.join()
        // They hold objects that hold the ticker. Released outside of the lock, as some take locks when they go.
        let held = state.withLock { state in
            defer { (state.members, state.timers) = ([:], []) }
            return (state.members, state.timers)
        }
        withExtendedLifetime(held) {}
    }
}
