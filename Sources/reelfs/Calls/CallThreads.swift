import ReelListener
import ReelThreads
import ReelVolume

/// Threads for what HTTP clients ask for: such work waits for disks and the network, which a task must not.
final class CallThreads: Sendable {
    private struct State {
        var running = 0
        var isEnding = false
    }

    /// The slots of the control socket's clients as well.
    private let jobs: Slots
    private let state = Monitor(State())

    init(_ jobs: Slots) { self.jobs = jobs }

    /// Does work on a thread of its own. It is told to end once the task is cancelled.
    /// - Parameter needsSlot: it is a long job.
    /// - Returns: nil where too much is being done already, or the mount is ending.
    func run<Value: Sendable>(
        needsSlot: Bool = true, _ work: @escaping @Sendable (MaintenanceWatch) -> Value
    ) async -> Value? {
        let isCancelled = CancelMark()
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isStarted = start(isCancelled, needsSlot) { continuation.resume(returning: work($0)) }
                if !isStarted { continuation.resume(returning: nil) }
            }
        } onCancel: {
            isCancelled.set()
        }
    }

    /// Does work for which no client waits. - Returns: false where it is not begun.
    func begin(_ work: @escaping @Sendable (MaintenanceWatch) -> Void) -> Bool { start(CancelMark(), true, work) }

    private func start(
        _ isCancelled: CancelMark, _ needsSlot: Bool, _ work: @escaping @Sendable (MaintenanceWatch) -> Void
    ) -> Bool {
        let isFree = state.withLock { state in
            guard !state.isEnding, !needsSlot || jobs.take() else { return false }
            state.running += 1
            return true
        }
        guard isFree else { return false }
        let watch = MaintenanceWatch(isOver: { [self] in
            isCancelled.isSet || state.withLock(notifying: false) { $0.isEnding }
        })
        let thread = Thread("maintenance") { [self] in
            work(watch)
            end(needsSlot)
        }
        if let thread { thread.detach() } else { end(needsSlot) }
        return thread != nil
    }

    private func end(_ hasSlot: Bool) {
        if hasSlot { jobs.give() }
        state.withLock { $0.running -= 1 }
    }

    /// Ends all work and waits for it: before the volume is shut down.
    func stop() {
        state.withLock { $0.isEnding = true }
        state.wait { $0.running == 0 ? () : nil }
    }
}
