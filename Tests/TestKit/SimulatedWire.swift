import ReelCore
import ReelThreads

/// What all answers of a transport come over: who of them may take bytes (`LineGate`, as over libcurl), and how many
/// come at all.
///
/// `@unchecked Sendable`: only the thread of its transport uses it.
final class SimulatedWire: @unchecked Sendable {
    /// Bytes of an answer that a narrow wire brings while it is not read: on the way and in both sockets is as much
    /// room.
    static let socket: Int64 = 512 << 10

    private var gate: LineGate<SimulatedExchange>
    /// Set once.
    unowned var transport: SimulatedTransport!
    /// Bytes a second for all answers together, nil if each has its own.
    private let capacity: Int64?
    /// When it has carried what was given to it.
    private var free = Duration.zero
    private var isWatching = false
    /// When a byte last came.
    private(set) var lastByte = Duration.zero

    init(_ line: Line, capacity: Int64?) {
        self.capacity = capacity
        gate = LineGate(line)
    }

    /// Whether all answers share what it carries, one piece after the other.
    var isNarrow: Bool { capacity != nil }
    /// Bytes of one answer before another has its turn.
    var piece: Int64 { isNarrow ? 16 << 10 : 64 << 10 }

    /// The time after which a narrow wire has brought this many bytes more, behind all that it was asked for before.
    func carry(_ count: Int64) -> Duration {
        guard let capacity else { return .zero }
        free = max(free, now()) + .microseconds(count * 1_000_000 / capacity)
        return free - now()
    }

    // MARK: The gate

    func admits(_ exchange: SimulatedExchange) -> Bool {
        let ranks = gate.cleared(by: exchange, now: now())
        if !ranks.isEmpty { for other in transport.running where ranks.contains(other.rank) { other.yields() } }
        let mayBegin = gate.admits(exchange, now: now())
        if !mayBegin { watch() }
        return mayBegin
    }

    func took(_ count: Int, by exchange: SimulatedExchange) {
        lastByte = now()
        gate.took(count, by: exchange, now: now())
    }

    func throttles(_ exchange: SimulatedExchange) -> Bool {
        let isHeld = gate.throttles(exchange, now: now())
        if isHeld { watch() }
        return isHeld
    }

    func forget(_ exchange: SimulatedExchange) { gate.forget(exchange, now: now()) }

    /// Lets those go on that may, every few milliseconds as long as any is held back: what others need changes.
    private func watch() {
        guard !isWatching else { return }
        isWatching = true
        transport.after(.milliseconds(5)) { [self] in
            isWatching = false
            for exchange in gate.takeReady(now: now()) { exchange.goOn() }
            if gate.wait(now: now()) != nil { watch() }
        }
    }
}
