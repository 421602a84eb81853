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

    private struct Timer {
        let due: Duration
        let job: @Sendable () -> Void
        let atEnd: @Sendable () -> Void
    }

    private struct Member {
        let number: UInt64
        let member: any Ticking
    }

    private struct State {
        var members: [ObjectIdentifier: Member] = [:]
        var timers: [UInt64: Timer] = [:]
        var lastNumber: UInt64 = 0
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
                    let due = state.timers.filter { $0.value.due <= moment }
                    for number in due.keys { state.timers[number] = nil }
                    // In the order in which they came: that of the tables is another one each time.
                    let members = state.members.values.sorted { $0.number < $1.number }.map(\.member)
                    return (members, due.sorted { ($0.value.due, $0.key) < ($1.value.due, $1.key) }.map(\.value))
                }
                for timer in due { timer.job() }
                for member in members where !member.tick(moment) {
                    state.withLock { $0.members[ObjectIdentifier(member)] = nil }
                    // Work that came in between may have found its object still a member.
                    if member.tick(now()) { Ticker.add(member, to: state) }
                }
            }
        }
        guard let thread else { fatalError("the system has no thread to spare at the start of a mount") }
        self.thread = thread
    }

    /// Watches an object until its `tick` returns false. First comes what there is to watch, then the call: in between
    /// a tick may have let the object go.
    func add(_ member: any Ticking) {
        if state.withLock(notifying: false, { $0.members[ObjectIdentifier(member)] != nil }) { return }
        Ticker.add(member, to: state)
    }

    private static func add(_ member: any Ticking, to state: Monitor<State>) {
        state.withLock { state in
            if state.isOver { return }
            state.lastNumber += 1
            state.members[ObjectIdentifier(member)] = Member(number: state.lastNumber, member: member)
        }
    }

    /// Does a short job after `pause`.
    /// - Parameter atEnd: done instead where the volume ends before, or has ended: what waits for the job has to end
    ///   with the volume.
    /// - Returns: a number for `cancel`.
    @discardableResult
    func after(
        _ pause: Duration, _ job: @escaping @Sendable () -> Void, atEnd: @escaping @Sendable () -> Void
    ) -> UInt64 {
        let number = state.withLock { state -> UInt64? in
            if state.isOver { return nil }
            state.lastNumber += 1
            state.timers[state.lastNumber] = Timer(due: now() + pause, job: job, atEnd: atEnd)
            return state.lastNumber
        }
        if number == nil { atEnd() }
        return number ?? 0
    }

    /// Drops a job that is not due yet, and what it would do at the end.
    func cancel(_ timer: UInt64) {
        // Released outside of the lock.
        _ = state.withLock(notifying: false) { $0.timers.removeValue(forKey: timer) }
    }

    /// Whether `stop` was called.
    var isOver: Bool { state.withLock(notifying: false) { $0.isOver } }

    /// Ends the thread, and does what timers have for the end; no `tick` is called afterwards.
    func stop() {
        state.withLock { $0.isOver = true }
        thread.join()
        // They hold objects that hold the ticker. Released outside of the lock, as some take locks when they go.
        let held = state.withLock { state in
            defer { (state.members, state.timers) = ([:], [:]) }
            return (state.members, state.timers)
        }
        for (_, timer) in held.1.sorted(by: { $0.key < $1.key }) { timer.atEnd() }
        withExtendedLifetime(held) {}
    }
}
