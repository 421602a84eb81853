/// The state that a thread shares with the threads that stop it, in a `Monitor`.
package protocol ThreadState: Sendable {
    /// True asks the thread to end.
    var isStopping: Bool { get set }
    /// The thread, to be joined or detached, nil if none runs, or `stop` has taken it.
    var thread: Thread? { get set }
}

extension Monitor where Value: ThreadState {
    /// Ends the thread. - Parameter waiting: false where the caller may be the thread itself.
    package func stop(waiting: Bool) {
        let thread = withLock { state in
            state.isStopping = true
            defer { state.thread = nil }
            return state.thread
        }
        guard let thread else { return }
        if waiting { thread.join() } else { thread.detach() }
    }
}
