/// Counts the open, idle connections to one origin from their uses, as curl does not report their number.
///
/// Where several requests fetch ahead at a time, each would take an idle connection as soon as there is one, and a
/// reader that jumps meanwhile would wait for a new one, twice as long. So demanded requests have some to themselves.
struct IdleConnections {
    /// A jump asks for three things at once: its place, the bytes behind it, and the rest of its block.
    static let spare = 3
    /// Fewer requests at a time leave idle connections by themselves.
    static let crowd = 4

    private var count = 0

    /// Whether a speculative request should open a connection of its own.
    /// - Parameter running: requests to the origin, this one included.
    func areScarce(running: Int) -> Bool { running >= Self.crowd && count <= Self.spare }

    /// A request takes an idle one. - Returns: whether there is one.
    mutating func take() -> Bool {
        guard count > 0 else { return false }
        count -= 1
        return true
    }

    /// A request is over.
    /// - Parameters:
    ///   - hasTaken: `take` returned true for it.
    ///   - isNew: it opened a connection.
    ///   - isKept: its connection can be used again.
    mutating func ended(hasTaken: Bool, isNew: Bool, isKept: Bool) {
        // The server has closed the connections that were counted as idle.
        if hasTaken, isNew { count = 0 }
        if isKept { count += 1 }
    }
}
