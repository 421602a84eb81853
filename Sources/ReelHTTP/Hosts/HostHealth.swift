import ReelCore
import ReelThreads

/// Whether an origin answers, as its circuit has it, and the request by which a probe asks.
struct HostHealth {
    /// nil: nothing was asked of it yet, or outages are not watched (`OutageWatch`).
    private var circuit: Circuit?
    /// The request that a probe repeats: the last one that was answered, else the last one that went out.
    private(set) var example: OriginRequest?
    private var isExampleAnswered = false
    /// When it went away, in seconds since 1970, nil if it has not.
    private var awaySince: Int64?
    /// The standing that other threads know (`TransportNews`).
    private(set) var standing: OriginStanding?

    var outage: Outage? { circuit?.outage }

    /// Something was asked of it, and outages are watched.
    var isWatched: Bool { circuit != nil }

    func isTicking(_ moment: Duration) -> Bool { circuit?.isTicking(moment) ?? false }

    /// A request goes out.
    mutating func asked(_ request: OriginRequest) { if !isExampleAnswered { example = request } }

    /// The head of a request has come.
    mutating func answered(_ request: OriginRequest) { (example, isExampleAnswered) = (request, true) }

    /// Something happened to its requests. - Parameter deadline: of a circuit that is made now.
    /// - Returns: what the circuit says, and whether the standing is another one now.
    mutating func change<Result>(
        deadline: Duration, _ event: (inout Circuit) -> Result
    ) -> (result: Result, isNews: Bool) {
        var circuit = self.circuit.take() ?? Circuit(deadline: deadline)
        let (result, before) = (event(&circuit), standing)
        switch circuit.state {
        case .closed: (standing, awaySince) = (nil, nil)
        case .doubtful: standing = .doubtful
        case .open(let outage), .halfOpen(let outage):
            let since = awaySince ?? wallClock()
            (standing, awaySince) = (.away(outage, since: since), since)
        }
        self.circuit = circuit
        return (result, standing != before)
    }
}
