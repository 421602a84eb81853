import ReelCore
import ReelThreads

/// What may have come to nothing, and then says why.
protocol Attempted: Sendable {
    var failure: OriginFailure? { get }
}

extension FirstTouch.Found: Attempted {
    var failure: OriginFailure? { if case .failure(let failure) = self { failure } else { nil } }
}

extension Inquiry.Outcome: Attempted {
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
