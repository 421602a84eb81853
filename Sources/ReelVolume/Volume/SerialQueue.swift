import ReelThreads

/// A thread that does its jobs one after another.
final class SerialQueue: Sendable {
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var isOver = false
        /// The thread has ended, or is about to.
        var hasEnded = false
    }

    private let state: Monitor<State>
    private let thread: Thread

    init(_ name: String) {
        let state = Monitor(State())
        self.state = state
        let thread = Thread(name) {
            while true {
                let jobs = state.wait { state -> [@Sendable () -> Void]? in
                    if state.jobs.isEmpty {
                        state.hasEnded = state.isOver
                        return state.isOver ? [] : nil
                    }
                    defer { state.jobs.removeAll(keepingCapacity: true) }
                    return state.jobs
                }
                // Wakes `stop`.
                if jobs.isEmpty { return state.withLock { _ in } }
                for job in jobs { job() }
            }
        }
        guard let thread else { fatalError("the system has no thread to spare at the start of a mount") }
        self.thread = thread
    }

    /// Adds a job. - Returns: false where the queue has ended, which does not do the job.
    @discardableResult
    func add(_ job: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            if !state.hasEnded { state.jobs.append(job) }
            return !state.hasEnded
        }
    }

    /// Does the remaining jobs and ends the thread.
    func stop() {
        state.withLock { $0.isOver = true }
        thread.join()
    }

    /// The same, but waits no longer than this: a thread whose disk hangs ends by itself once the disk answers.
    func stop(atMost limit: Duration) {
        state.withLock { $0.isOver = true }
        let hasEnded = state.wait(atMost: limit) { $0.hasEnded ? true : nil } ?? false
        if hasEnded { thread.join() } else { thread.detach() }
    }
}
