/// The wait of one read, and what it was for: a queue of requests, the origin, or the cache's disk.
package struct ReadWait: Hashable, Sendable {
    /// A wait that a player may feel.
    package struct Stall: Hashable, Sendable {
        /// What took most of it.
        package enum Fault: String, Hashable, Sendable, CaseIterable {
            case origin, queue, disk
        }

        package var fault: Fault
        package var length: Duration
        /// On the clock of `now()`.
        package var end: Duration
    }

    /// A shorter wait is the round trip to a distant origin.
    package static let shortest = Duration.milliseconds(250)

    private let start: Duration
    private var sentAt: Duration?
    private var cameAt: Duration?
    private var writing = Duration.zero

    /// A read begins to wait. - Parameter isSent: the request for its bytes has left the queue already.
    package init(now: Duration, isSent: Bool) {
        start = now
        sentAt = isSent ? now : nil
    }

    /// A request for its bytes has left the queue. Another one that follows changes nothing.
    package mutating func sent(now: Duration) { sentAt = sentAt ?? now }

    /// The thread that takes bytes from origins waited for the disk meanwhile.
    package mutating func wrote(_ time: Duration) { writing += time }

    /// All of its bytes are in the cache; the read takes them from there.
    package mutating func came(now: Duration) { cameAt = cameAt ?? now }

    /// The read has its answer, or fails. - Returns: nil if that took no time worth reporting.
    package func stall(now: Duration) -> Stall? {
        guard now - start >= Self.shortest else { return nil }
        let came = cameAt ?? now
        let sent = min(sentAt ?? came, came)
        let disk = writing + (now - came)
        let (queue, origin) = (sent - start, max(.zero, came - sent - writing))
        let fault: Stall.Fault = disk > max(queue, origin) ? .disk : queue > origin ? .queue : .origin
        return Stall(fault: fault, length: now - start, end: now)
    }
}
