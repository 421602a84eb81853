/// How many connections to each origin are open and idle, as far as their uses tell; curl does not.
///
/// Where several requests fetch ahead at a time, each would take an idle connection as soon as there is one, and who jumps
/// elsewhere meanwhile would wait for a new one, twice as long. So some are left to requests that somebody waits for.
struct KeptConnections {
    /// What a jump asks for at once: its place, what follows it, and the rest of its block.
    static let spare = 3
    /// Fewer requests at a time leave idle connections by themselves.
    static let crowd = 4
    /// Only each fourth request pays for a spare one by the time that opening takes: a reader that needs six requests at a
    /// time is not to wait for all of them at its beginning.
    static let share = 4
    /// Origins known; curl keeps as many connections in all.
    static let most = 64

    private struct Origin {
        var idle = 0
        var turns = 0
    }

    private var origins: [String: Origin] = [:]
    var count: Int { origins.count }

    /// Whether a request that nobody waits for should open a connection of its own.
    /// - Parameter running: requests to that origin, this one included.
    mutating func areScarce(at origin: String, running: Int) -> Bool {
        guard running >= Self.crowd, origins[origin]?.idle ?? 0 <= Self.spare else { return false }
        change(origin) { $0.turns += 1 }
        return origins[origin]!.turns % Self.share == 0
    }

    /// A request takes an idle one. - Returns: whether there is one.
    mutating func take(at origin: String) -> Bool {
        guard let known = origins[origin], known.idle > 0 else { return false }
        origins[origin]!.idle -= 1
        return true
    }

    /// A request is over.
    /// - Parameters:
    ///   - hasTaken: what `take` said.
    ///   - isNew: it opened a connection.
    ///   - isKept: its connection can be used again.
    mutating func ended(at origin: String, hasTaken: Bool, isNew: Bool, isKept: Bool) {
        // The server has closed what was taken for idle.
        if hasTaken, isNew { origins[origin]?.idle = 0 }
        if isKept { change(origin) { $0.idle += 1 } }
    }

    private mutating func change(_ origin: String, _ body: (inout Origin) -> Void) {
        if origins.count >= Self.most, origins[origin] == nil { origins = [:] }
        body(&origins[origin, default: Origin()])
    }
}
