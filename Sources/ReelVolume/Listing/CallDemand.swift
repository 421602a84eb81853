import ReelCore
import ReelThreads

/// Whether a caller waits for a directory's listing, or for an open. What is asked for ahead goes after all other
/// requests, and a listing can be given up, until a caller waits for it.
final class CallDemand: Sendable {
    private struct State {
        /// The callers that wait.
        var callers = 0
        /// The request under way, or the last one.
        var request: RequestHandle?
        var isGivenUp = false
        var program: String?
    }

    private let state = Lock(State())

    /// Whether a caller waits.
    var isDemanded: Bool { state.withLock { $0.callers > 0 } }

    /// The program of the first caller of which it is known.
    var program: String? { state.withLock { $0.program } }

    /// Whether the listing that is fetched, or the last one, was given up.
    var isGivenUp: Bool { state.withLock { $0.isGivenUp } }

    /// A fetch begins.
    func begins() { state.withLock { ($0.request, $0.isGivenUp) = (nil, false) } }

    /// A request of the fetch begins. - Returns: whether a caller waits for it.
    func begins(_ request: RequestHandle) -> Bool {
        let (isDemanded, isGivenUp) = state.withLock { state in
            state.request = request
            return (state.callers > 0, state.isGivenUp)
        }
        if isGivenUp { request.cancel() }
        return isDemanded
    }

    /// A caller waits from now on. - Returns: false where the fetch under way was given up, so that the caller needs
    ///   another one.
    func wait(_ program: String? = nil) -> Bool {
        let (request, isGivenUp) = state.withLock { state in
            state.callers += 1
            state.program = state.program ?? program
            return (state.callers == 1 ? state.request : nil, state.isGivenUp)
        }
        request?.promote()
        return !isGivenUp
    }

    /// A caller has its answer.
    func waited() { state.withLock { $0.callers -= 1 } }

    /// Ends the fetch under way, unless a caller waits for it.
    func giveUp() {
        let request = state.withLock { state -> RequestHandle? in
            guard state.callers == 0 else { return nil }
            state.isGivenUp = true
            return state.request
        }
        request?.cancel()
    }
}
