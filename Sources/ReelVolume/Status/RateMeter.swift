import ReelCore

/// The rate of the last few seconds, in bytes a second.
struct RateMeter {
    private var bytes: Int64 = 0
    private var start: Duration = .zero
    private var last: Duration = .zero
    private var previous: Int64 = 0

    mutating func add(_ count: Int64, _ now: Duration) {
        if now - start > .seconds(2) {
            previous = now - last > .seconds(2) ? 0 : Int64(Double(bytes) / max((now - start).seconds, 0.001))
            bytes = 0
            start = now
        }
        bytes += count
        last = now
    }

    func perSecond(_ now: Duration) -> Int64 {
        guard now - last < .seconds(3) else { return 0 }
        let elapsed = (now - start).seconds
        return elapsed < 0.5 && previous > 0 ? previous : Int64(Double(bytes) / max(elapsed, 0.1))
    }
}
