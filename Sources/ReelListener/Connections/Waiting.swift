import ReelFilesystem
import ReelThreads

/// The result of a call of the filesystem, for a task that may be cancelled: the first outcome counts.
final class Waiting<Value: Sendable>: Sendable {
    private typealias Outcome = Result<Value, VolumeError>

    private enum State {
        case running
        case awaited(CheckedContinuation<Outcome, Never>)
        case known(Outcome)
        case taken
    }

    private let state = Lock(State.running)

    /// - Parameter before: called before the task goes on.
    /// - Returns: false where there was an outcome already.
    @discardableResult
    func end(_ outcome: Result<Value, VolumeError>, before: () -> Void = {}) -> Bool {
        let (isFirst, continuation) = state.withLock { state -> (Bool, CheckedContinuation<Outcome, Never>?) in
            switch state {
            case .running:
                state = .known(outcome)
                return (true, nil)
            case .awaited(let continuation):
                state = .taken
                return (true, continuation)
            case .known, .taken: return (false, nil)
            }
        }
        if isFirst { before() }
        continuation?.resume(returning: outcome)
        return isFirst
    }

    /// Waits; called once. A cancelled task gets `interrupted`. - Parameter onCancel: called if that came first.
    func value(onCancel: @escaping @Sendable () -> Void = {}) async throws(VolumeError) -> Value {
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let known = state.withLock { state -> Outcome? in
                    guard case .known(let outcome) = state else {
                        state = .awaited(continuation)
                        return nil
                    }
                    state = .taken
                    return outcome
                }
                if let known { continuation.resume(returning: known) }
            }
        } onCancel: {
            end(.failure(.interrupted), before: onCancel)
        }
        return try outcome.get()
    }
}

/// A read of a task that waits for its bytes, and copies them.
final class WaitingRead: ParkedRead {
    let bytes = Waiting<[UInt8]>()

    func succeed(_ bytes: UnsafeRawBufferPointer) { self.bytes.end(.success(Array(bytes))) }
    func fail(_ error: VolumeError) { bytes.end(.failure(error)) }
}
