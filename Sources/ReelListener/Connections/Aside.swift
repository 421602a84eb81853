import ReelThreads
import Synchronization

/// Does work that takes a while on a thread of its own. Tasks share a few threads, one for each processor: work that
/// stays on one holds up the answers to other clients.
/// - Parameter work: its parameter says whether the task was cancelled.
func aside<Value: Sendable>(_ work: @escaping @Sendable (() -> Bool) -> Value) async -> Value {
    let mark = CancelMark()
    return await withTaskCancellationHandler {
        await withCheckedContinuation { continuation in
            let body: @Sendable () -> Void = { continuation.resume(returning: work { mark.isSet }) }
            if let thread = Thread("document", body) { thread.detach() } else { body() }
        }
    } onCancel: {
        mark.set()
    }
}

/// Set once the client has gone, or the listener ends.
package final class CancelMark: Sendable {
    private let mark = Atomic(false)
    package init() {}
    package var isSet: Bool { mark.load(ordering: .relaxed) }
    package func set() { mark.store(true, ordering: .relaxed) }
}
