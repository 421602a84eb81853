import ReelThreads

/// One thread that does one thing after another.
final class Line: Sendable {
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var isOver = false
    }

    private let state: Monitor<State>
    private let thread: Thread

    init(_ name: String) {
        let state = Monitor(State())
        self.state = state
        let thread = Thread(name) {
            while true {
                let jobs = state.wait { state -> [@Sendable () -> Void]? in
                    if state.jobs.isEmpty { return state.isOver ? [] : nil }
                    defer { state.jobs.removeAll(keepingCapacity: true) }
                    return state.jobs
                }
                if jobs.isEmpty { return }
                for job in jobs { job() }
            }
        }
        guard let thread else { fatalError("the system has no thread to spare at the start of a mount") }
        self.thread = thread
    }

    func add(_ job: @escaping @Sendable () -> Void) { state.withLock { $0.jobs.append(job) } }

    /// Does what is left and ends the thread.
    func stop() {
        state.withLock { $0.isOver = true }
        thread.join()
    }
}
