/// How many connections to each origin are open and idle, as far as their uses tell; curl does not.
///
/// Where several requests fetch ahead at a time, each would take an idle connection as soon as there is one, and who jumps
/// elsewhere meanwhile would wait for a new one, twice as long. So some are left to requests that somebody waits for.
struct KeptConnections {
    /// What a jump asks for at once: its place, what follows it, and the rest of its block.
    static let spare = 3
    /// Fewer requests at a time leave idle connections by themselves.
    static let crowd = 4
    /// Origins known; curl keeps as many connections in all.
    static let most = 64

    private var idle: [String: Int] = [:]
    var count: Int { idle.count }

    /// Whether a request that nobody waits for should open a connection of its own.
    /// - Parameter running: requests to that origin, this one included.
    func areScarce(at origin: String, running: Int) -> Bool {
        running >= Self.crowd && idle[origin, default: 0] <= Self.spare
    }

    /// A request takes an idle one. - Returns: whether there is one.
    mutating func take(at origin: String) -> Bool {
        guard let count = idle[origin] else { return false }
        idle[origin] = count > 1 ? count - 1 : nil
        return true
    }

    /// A request is over.
    /// - Parameters:
    ///   - hasTaken: what `take` said.
    ///   - isNew: it opened a connection.
    ///   - isKept: its connection can be used again.
    mutating func ended(at origin: String, hasTaken: Bool, isNew: Bool, isKept: Bool) {
        // The server has closed what was taken for idle.
        if hasTaken, isNew { idle[origin] = nil }
        guard isKept else { return }
        if idle.count >= Self.most, idle[origin] == nil { idle = [:] }
        idle[origin, default: 0] += 1
    }
}
