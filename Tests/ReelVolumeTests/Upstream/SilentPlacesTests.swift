import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// In virtual time.
@Suite struct SilentPlacesTests {
    /// An open of the one film of a mount, of which the source and some mirrors say nothing from some moment on.
    /// - Parameter silence: what they answer from then on.
    private func wait(
        mirrors: Int, timeout: Duration, finder: (any PlaceFinder)? = nil,
        then silence: @escaping @Sendable (ServerRequest) -> [ServerStep] = { _ in [.stall] }
    ) throws -> Duration {
        try wait(mirrors: mirrors, timeout: timeout, finder: finder, then: silence) { volume, done in
            volume.lookup("film.mkv", in: rootNode) { entry in
                guard case .success(let entry) = entry else { return done() }
                volume.open(entry.node) { _ in done() }
            }
        }
    }

    /// - Parameters:
    ///   - isPlayed: the first block of the film is in the cache before.
    ///   - silence: what they all answer from then on.
    ///   - call: has an end.
    private func wait(
        mirrors: Int, timeout: Duration, finder: (any PlaceFinder)? = nil, isPlayed: Bool = false,
        then silence: @escaping @Sendable (ServerRequest) -> [ServerStep],
        _ call: (Volume, _ done: @escaping @Sendable () -> Void) -> Void
    ) throws -> Duration {
        let film = FileOrigin(length: 5 << 20)
        let isSilent = Shared(false)
        @Sendable func answer(_ request: ServerRequest) -> [ServerStep] {
            if isSilent.value { return silence(request) }
            return request.path == "/" ? [.stall] : film.answer(request)
        }
        let names = (0..<mirrors).map { "http://mirror-\($0)" }
        let servers = (["http://origin"] + names).map { ($0, answer as SimulatedTransport.Server) }
        return try SimulatedWorld.run(Dictionary(uniqueKeysWithValues: servers)) { world in
            let mount = try world.mount(
                "http://origin/film.mkv",
                VolumeOptions(timeout: timeout, mirrors: names.map { ResourceURL($0 + "/film.mkv")! }), finder: finder)
            if isPlayed { try mount.play(film, ByteRange(0, 4096)) }
            Simulation.sleep(.seconds(60))
            isSilent.set(true)
            let start = now()
            let answer = Monitor<Bool>(false)
            call(mount.volume) { answer.withLock { $0 = true } }
            answer.wait { $0 ? () : nil }
            return now() - start
        }
    }

    @Test(
        "An open ends a second after its time-out at the latest, however many places are silent",
        arguments: [0, 1, 4])
    func opens(mirrors: Int) throws {
        let waited = try wait(mirrors: mirrors, timeout: .seconds(3))
        #expect(waited <= .seconds(4), "\(waited)")
    }

    @Test(
        "An open ends a second after its time-out also where a resolver takes a part of it",
        arguments: [0, 1], [true, false])
    func resolved(mirrors: Int, hasPlace: Bool) throws {
        // It is asked again for each request.
        let slow = ScriptedFinder { question, number in
            Simulation.sleep(.milliseconds(1400))
            let place = PlaceAnswer(url: question.url, lifetime: .zero)
            return hasPlace || number == 1 ? .success(place) : .failure(PlaceFailure("no place"))
        }
        let waited = try wait(mirrors: mirrors, timeout: .seconds(3), finder: slow)
        #expect(waited <= .seconds(4), "\(waited)")
    }

    @Test("An open ends in time also where the file, slowly, turns out to have no length any more")
    func lengthless() throws {
        let waited = try wait(
            mirrors: 0, timeout: .seconds(3),
            then: { request in
                guard request.range(of: 1 << 40)?.count == 1 else { return [.stall] }
                return [.pause(.milliseconds(1400)), .head(200, []), .body([1]), .close]
            })
        #expect(waited > .seconds(2) && waited <= .seconds(4), "\(waited)")
    }

    @Test("A first open ends in time also where the server is slow to say that the file has no first byte")
    func empty() throws {
        let waited = try wait(
            mirrors: 0, timeout: .seconds(3),
            then: {
                $0.headers.contains { $0.name == "range" } ? [.pause(.seconds(2))] + ServerStep.answer(416) : [.stall]
            }
        ) { volume, done in
            OpenRequest.start(
                ResourceURL("http://origin/other.mkv")!, tail: nil, volume.files, volume.services, finished: { _ in }
            ) { _ in done() }
        }
        #expect(waited <= .seconds(4), "\(waited)")
    }

    @Test("Opens that the line has no room for end in time")
    func withoutRoom() throws {
        let film = FileOrigin(length: 5 << 20)
        let names = (0..<30).map { "f\($0).mkv" }
        let listing = names.map { (name: $0, length: film.version.length) }
        let answer: SimulatedTransport.Server = {
            $0.path == "/" ? ServerStep.listing(listing) : film.answer($0)
        }
        try SimulatedWorld.run(["http://origin": answer]) { world in
            let mount = try world.mount("http://origin/", VolumeOptions(timeout: .seconds(3), prebuffer: 0))
            _ = try mount.lookup(names[0]).get()
            mount.volume.line.limit.schedule = RateSchedule(rate: 50_000)
            let start = now()
            let waits = Monitor<[Duration]>([])
            let opens = names.map { name in
                Thread("open") {
                    _ = mount.open(name)
                    waits.withLock { $0.append(now() - start) }
                }
            }
            for open in opens { open?.join() }
            let longest = waits.withLock { $0 }.max() ?? .zero
            #expect(longest > .seconds(3) && longest <= .seconds(4), "\(longest)")
        }
    }

    @Test("A mirror whose bytes are compared first is no longer silent than the source left time for")
    func compared() throws {
        let waited = try wait(mirrors: 1, timeout: .seconds(3), isPlayed: true, then: { _ in [.stall] }) {
            (volume, done) in
            let url = ResourceURL("http://origin/film.mkv")!
            let block = volume.services.store.information(for: url.text).flatMap {
                volume.services.upstream.cachedBlock(of: url, $0.information)
            }
            #expect(block != nil, "there is something to compare")
            OpenRequest.start(
                url, tail: nil, until: now() + .seconds(1), volume.files, volume.services, finished: { _ in }
            ) { _ in done() }
        }
        #expect(waited <= .milliseconds(1100), "\(waited)")
    }
}
