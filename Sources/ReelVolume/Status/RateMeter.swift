import ReelCore

/// The rate of the last few seconds, in bytes a second.
struct RateMeter {
    private let window: Duration
    private var bytes: Int64 = 0
    private var start: Duration = .zero
    private var last: Duration = .zero
    private var previous: Int64 = 0

    /// - Parameter window: the time of which it gives the rate. Bytes that come in pieces need a few of them in it.
    init(of window: Duration = .seconds(2)) { self.window = window }

    mutating func add(_ count: Int64, _ now: Duration) {
        if now - last > window {
            // Since when these bytes were on their way is not known.
            (previous, bytes, start) = (0, 0, now - window / 20)
        } else if now - start > window {
            // What comes now came since the last bytes.
            previous = Int64(Double(bytes) / max((last - start).seconds, 0.001))
            (bytes, start) = (0, last)
        }
        bytes += count
        last = now
    }

    func perSecond(_ now: Duration) -> Int64 {
        guard now - last < max(window, .seconds(3)) else { return 0 }
        let elapsed = (now - start).seconds
        return elapsed < window.seconds / 4 && previous > 0 ? previous : Int64(Double(bytes) / max(elapsed, 0.1))
    }
}
