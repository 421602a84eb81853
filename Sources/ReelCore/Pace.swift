/// How fast the origin answers: what a new request costs in time, told in bytes that a running one would bring meanwhile.
package struct Pace: Sendable {
    /// Smoothed seconds from a request to its head, and bytes a second of running bodies.
    private var timeToHead = 0.05
    private var rate = 4e6
    private var running: [UInt64: Duration] = [:]
    private var requested: [UInt64: Duration] = [:]

    package init() {}

    /// Up to this far it is better to wait for a stream than to start another. Within 1 MiB, two of the kernel's
    /// requests, and 16 MiB, what nobody wants to fetch for nothing.
    package var joinDistance: Int64 { min(max(Int64(rate * timeToHead), 1 << 20), 16 << 20) }

    package mutating func started(_ id: UInt64, now: Duration) { requested[id] = now }

    package mutating func head(of id: UInt64, now: Duration) {
        guard let start = requested.removeValue(forKey: id) else { return }
        timeToHead = 0.75 * timeToHead + 0.25 * (now - start).seconds
        running[id] = now
    }

    package mutating func bytes(_ count: Int64, of id: UInt64, now: Duration) {
        guard let last = running[id] else { return }
        let elapsed = (now - last).seconds
        running[id] = now
        // Bytes that came together with the head say nothing about the rate.
        guard elapsed > 0.0005 else { return }
        rate = 0.75 * rate + 0.25 * Double(count) / elapsed
    }

    package mutating func ended(_ id: UInt64) {
        running[id] = nil
        requested[id] = nil
    }
}

extension Duration {
    package var seconds: Double { Double(components.seconds) + Double(components.attoseconds) * 1e-18 }
}
