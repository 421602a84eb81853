import ReelCore
import ReelThreads

/// An outcome that may be a failure of the origin.
protocol Attempted: Sendable {
    var failure: OriginFailure? { get }
}

extension OpenRequest.Found: Attempted {
    var failure: OriginFailure? { if case .failure(let failure) = self { failure } else { nil } }
}

extension InformationRequest.Outcome: Attempted {
    var failure: OriginFailure? { if case .failure(let failure) = self { failure } else { nil } }
}

/// Makes attempts, with the pauses of `RetryPolicy`, until one works, none can work, or the time is over.
/// - Parameters:
///   - deadline: on the clock of `now()`.
///   - attempt: gets the time that is left, and calls back once.
func retrying<Outcome: Attempted>(
    until deadline: Duration, number: Int = 1, _ services: Services,
    _ attempt: @escaping @Sendable (Duration, @escaping @Sendable (Outcome) -> Void) -> Void,
    completion: @escaping @Sendable (Outcome) -> Void
) {
    attempt(timeLeft(until: deadline)) { outcome in
        guard let failure = outcome.failure,
            let pause = RetryPolicy.pause(after: failure, attempt: number, random: RandomNumbers.fraction()),
            now() + pause < deadline
        else { return completion(outcome) }
        services.ticker.after(pause) {
            retrying(until: deadline, number: number + 1, services, attempt, completion: completion)
        } atEnd: {
            completion(outcome)
        }
    }
}

/// Asks for the first bytes, as `retrying` does. An empty file has none (416), so this then asks for all of it.
func askingForBytes<Outcome: Attempted>(
    _ range: ByteRange, until deadline: Duration, _ services: Services,
    _ attempt: @escaping @Sendable (ByteRange?, Duration, @escaping @Sendable (Outcome) -> Void) -> Void,
    completion: @escaping @Sendable (Outcome) -> Void
) {
    retrying(until: deadline, services) { left, done in
        attempt(range, left) { outcome in
            guard case .status(416, _)? = outcome.failure else { return done(outcome) }
            attempt(nil, timeLeft(until: deadline), done)
        }
    } completion: {
        completion($0)
    }
}

/// For an attempt: a request with no time would not begin.
/// - Parameter deadline: on the clock of `now()`.
func timeLeft(until deadline: Duration) -> Duration { max(deadline - now(), .milliseconds(100)) }
