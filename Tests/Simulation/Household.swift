import ReelCore
import ReelSources
import ReelThreads
import ReelVolume
import Synchronization
import TestKit

/// The servers of one source, and the folder of the mount that shows it.
final class Household: Sendable {
    /// "" or a name and a slash.
    let folder: String
    let origin: RandomOrigin
    let seed: UInt64
    let secrets: Secrets
    private let links = Links()
    /// Until then no server of it says a word.
    private let silence = Mutex(Duration.zero)

    /// - Parameters:
    ///   - number: distinguishes its bytes from those of others.
    ///   - stream: the index of the file that comes without a length, nil for none.
    init(
        folder: String, number: UInt64, seed: UInt64, _ faults: [Trouble], stream: Int?, _ form: RandomOrigin.Form,
        _ secrets: Secrets
    ) {
        (self.folder, self.seed, self.secrets) = (folder, seed, secrets)
        origin = RandomOrigin(
            seed: seed, number: number, faults, stream: stream, form: form,
            elsewhere: Secrets.elsewhere, signature: secrets.signature)
    }

    static let address = "http://origin/"

    /// With user and password.
    var address: String { "http://user:\(secrets.password)@origin/" }

    func transport(_ line: Line, seed: UInt64) -> SimulatedTransport {
        let (origin, links) = (origin, links)
        let servers: [String: SimulatedTransport.Server] = [
            "http://origin": { origin.answer($0) }, "http://mirror": { origin.answerAsMirror($0) },
            "http://shared": { origin.answer($0) }, "http://links": { links.answer($0, for: origin) },
            Secrets.elsewhere: { origin.answer($0) },
        ]
        let heard = servers.mapValues { server -> SimulatedTransport.Server in
            { @Sendable [self] request in now() < silence.withLock { $0 } ? [.stall] : server(request) }
        }
        return SimulatedTransport(heard, line, headers: secrets.headers, watch: secrets.look, seed: seed)
    }

    /// The cable is out.
    func beSilent(for pause: Duration) { silence.withLock { $0 = now() + pause } }

    func finder(_ shape: Shape, seed: UInt64) -> (any PlaceFinder)? {
        shape.has(.resolver) ? LinkFinder(links, secrets, seed: seed) : nil
    }

    /// The links that were given out so far expire.
    func expireLinks() { links.expire() }

    func storm() -> String {
        links.isWell.withLock { $0 = false }
        return origin.storm()
    }

    func calm() {
        silence.withLock { $0 = .zero }
        origin.calm()
        links.isWell.withLock { $0 = true }
    }
}

/// Links that serve for a while.
private final class Links: Sendable {
    let isWell = Mutex(true)
    private let now = Mutex(1)

    var current: Int { now.withLock { $0 } }
    func expire() { now.withLock { $0 += 1 } }

    func answer(_ request: ServerRequest, for origin: RandomOrigin) -> [ServerStep] {
        guard request.target.hasSuffix("?link=\(current)") else { return ServerStep.answer(403) }
        return origin.answer(request)
    }
}

/// A resolver that takes its time, and fails now and then.
private final class LinkFinder: PlaceFinder {
    private let links: Links
    private let secrets: Secrets
    private let random: Mutex<SeededGenerator>

    init(_ links: Links, _ secrets: Secrets, seed: UInt64) {
        (self.links, self.secrets) = (links, secrets)
        random = Mutex(SeededGenerator(seed: seed))
    }

    func find(_ question: PlaceQuestion, within limit: Duration) -> Result<PlaceAnswer, PlaceFailure> {
        let isWell = links.isWell.withLock { $0 }
        let (pause, chance, lifetime) = random.withLock { random in
            (
                Int64.random(in: 1...(isWell ? 100 : 2000), using: &random), Int.random(in: 0..<4, using: &random),
                Int64.random(in: 1...20, using: &random)
            )
        }
        Simulation.sleep(min(.milliseconds(pause), limit))
        if .milliseconds(pause) > limit || !isWell && chance == 0 { return .failure(PlaceFailure("no link")) }
        // Without the query, which signs it, and whichever origin a redirect of the list has made it one of.
        let place = question.url.path.prefix { $0 != "?" }
        guard let url = ResourceURL("http://links\(place)?link=\(links.current)") else {
            return .failure(PlaceFailure("no URL"))
        }
        return .success(
            PlaceAnswer(url: url, headers: [secrets.linkHeader], lifetime: chance < 2 ? .seconds(lifetime) : nil))
    }

    func stop() {}
}
