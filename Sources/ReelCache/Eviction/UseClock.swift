import ReelThreads
import Synchronization

/// Milliseconds since 1970 that always increase: the order of uses survives a clock that is set back.
final class UseClock: Sendable {
    private let last: Atomic<Int64>

    init(after last: Int64) { self.last = Atomic(min(max(last, 0), .max / 2)) }

    func now() -> Int64 {
        let wall = wallNanoseconds() / 1_000_000
        let next = last.wrappingAdd(1, ordering: .relaxed).newValue
        guard wall > next else { return next }
        return last.max(wall, ordering: .relaxed).newValue
    }
}
