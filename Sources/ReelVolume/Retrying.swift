import ReelCore
import ReelThreads

/// An outcome that may be a failure, and then says why.
protocol Attempted: Sendable {
    var failure: OriginFailure? { get }
}

extension OpenRequest.Found: Attempted {
    var failure: OriginFailure? { if case .failure(let failure) = self { failure } else { nil } }
}

extension InformationRequest.Outcome: Attempted {
    var failure: OriginFailure? { if case .failure(let failure) = self { failure } else { nil } }
}

/// Tries again, with the pauses of `RetryPolicy`, until it works, is hopeless, or the time is over.
/// - Parameter attempt: gets the time that is left, calls back once.
func retrying<Outcome: Attempted>(
    until deadline: Duration, number: Int = 1, _ services: Services,
    _ attempt: @escaping @Sendable (Duration, @escaping @Sendable (Outcome) -> Void) -> Void,
    completion: @escaping @Sendable (Outcome) -> Void
) {
    attempt(max(deadline - now(), .milliseconds(100))) { outcome in
        guard let failure = outcome.failure,
            let pause = RetryPolicy.pause(after: failure, attempt: number, random: .random(in: 0...1)),
            now() + pause < deadline
        else { return completion(outcome) }
        services.ticker.after(pause) {
            retrying(until: deadline, number: number + 1, services, attempt, completion: completion)
        }
    }
}

/// Asks for the first bytes, as `retrying` does. An empty file has none; asked for as a whole it says so.
func askingForBytes<Outcome: Attempted>(
    _ range: ByteRange, until deadline: Duration, _ services: Services,
    _ attempt: @escaping @Sendable (ByteRange?, Duration, @escaping @Sendable (Outcome) -> Void) -> Void,
    completion: @escaping @Sendable (Outcome) -> Void
) {
    retrying(until: deadline, services) { left, done in
        attempt(range, left) { outcome in
            if case .status(416, _)? = outcome.failure { attempt(nil, left, done) } else { done(outcome) }
        }
    } completion: {
        completion($0)
    }
}
