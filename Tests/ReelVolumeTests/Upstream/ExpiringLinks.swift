import ReelCore
import ReelThreads
import Synchronization
import TestKit

@testable import ReelVolume

/// Serves a film under links, of which the newest is good until it ends: after this many requests, after a time, or
/// when the test says so. What ends in time cuts its bodies.
final class ExpiringLinks: Sendable {
    private struct State {
        /// Requests that each link has served.
        var served: [Int] = []
        var madeAt = Duration.zero
        var isRevoked = false
        var refusals = 0
    }

    /// A connection brings 4 MiB/s.
    private static let piece = 32 << 10
    private static let pause = Duration.milliseconds(8)

    let film: FileOrigin
    private let uses: Int
    private let lifetime: Duration?
    private let state = Mutex(State())

    init(_ film: FileOrigin, uses: Int = .max, lifetime: Duration? = nil) {
        (self.film, self.uses, self.lifetime) = (film, uses, lifetime)
    }

    /// Requests that each link has served.
    var served: [Int] { state.withLock { $0.served } }
    /// Requests that came too late for their link.
    var refusals: Int { state.withLock { $0.refusals } }

    /// Makes the next link. - Returns: its path.
    func next() -> String {
        state.withLock { state in
            state.served.append(0)
            (state.madeAt, state.isRevoked) = (now(), false)
            return "/link/\(state.served.count)"
        }
    }

    /// Ends the newest link.
    func revoke() { state.withLock { $0.isRevoked = true } }

    func answer(_ request: ServerRequest) -> [ServerStep] {
        let left = state.withLock { state -> Duration? in
            let left = lifetime.map { $0 - (now() - state.madeAt) } ?? .seconds(3600)
            let isGood = request.path == "/link/\(state.served.count)" && !state.isRevoked && left > .zero
            guard isGood, state.served[state.served.count - 1] < uses else {
                state.refusals += 1
                return nil
            }
            state.served[state.served.count - 1] += 1
            return left
        }
        guard let left else { return ServerStep.answer(403) }
        let steps = film.answer(request)
        return lifetime == nil ? steps : steps.flatMap { Self.cut($0, after: left) }
    }

    /// The body comes slowly, and ends with its link.
    private static func cut(_ step: ServerStep, after left: Duration) -> [ServerStep] {
        guard case .generated(let bytes, let range) = step else { return [step] }
        let part = ByteRange(range.lower, min(range.upper, range.lower + Int64(left / pause) * Int64(piece)))
        let drip = ServerStep.drip(bytes, part, piece: piece, pause: pause)
        return part == range ? [drip] : [drip, .close]
    }
}

/// A volume whose list has one film, under links that the resolver gives.
/// - Parameter answer: makes the resolver's answer to a question of this number, nil for the next link.
func withVolume(
    of links: ExpiringLinks, cap: Int64 = 1 << 30, timeout: Duration = .seconds(10),
    answer: (@Sendable (ScriptedServer, Int) -> Result<PlaceAnswer, PlaceFailure>)? = nil,
    _ body: (VolumeFixture, ScriptedFinder) throws -> Void
) throws {
    let server = try ScriptedServer { $0.path == "/list.m3u" ? ScriptedFinder.list() : links.answer($0) }
    defer { server.stop() }
    let finder = ScriptedFinder { _, number in
        answer?(server, number) ?? .success(PlaceAnswer(url: server.url(links.next())))
    }
    let fixture = try VolumeFixture(
        server.url("/list.m3u").text, cap: cap, timeout: timeout, prebuffer: 0, finder: finder)
    defer { fixture.remove() }
    try body(fixture, finder)
}
