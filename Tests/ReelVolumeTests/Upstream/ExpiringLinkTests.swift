import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// Films whose links end while they play.
@Suite struct ExpiringLinkTests {
    @Test func aFilmPlaysToItsEndOverAHundredLinksThatExpire() throws {
        let film = FileOrigin(length: 60 << 20)
        // An answer is cut with its link, so that a film takes many.
        film.fault = .shortBody(after: 150_000)
        let links = ExpiringLinks(film, uses: 3)
        // The test gives a read up long before its deadline.
        try withVolume(of: links, timeout: .seconds(120)) { fixture, finder in
            try fixture.play(film)
            #expect(links.served.count >= 100)
            #expect(finder.asked.first?.reason == .open && finder.asked.first?.status == nil)
            #expect(finder.asked.dropFirst().allSatisfy { $0.reason == .failed && $0.status == 403 })
        }
    }

    /// The cap keeps the film from being there before a few links have ended.
    @Test func aFilmPlaysOverLinksThatExpireWhileItPlays() throws {
        let film = FileOrigin(length: 24 << 20)
        let links = ExpiringLinks(film, lifetime: .milliseconds(250))
        try withVolume(of: links, cap: 8 << 20, timeout: .seconds(120)) { fixture, finder in
            try fixture.play(film, pause: .milliseconds(20))
            #expect(links.served.count >= 6 && links.refusals > 0)
            #expect(finder.asked.dropFirst().allSatisfy { $0.reason == .failed && $0.status == 403 })
        }
    }

    /// In virtual time.
    @Test func noReadWaitsLongForAnotherLink() throws {
        let film = FileOrigin(length: 24 << 20)
        film.fault = .shortBody(after: 150_000)
        for links in [ExpiringLinks(film, uses: 3), ExpiringLinks(film, lifetime: .milliseconds(250))] {
            let finder = ScriptedFinder { _, _ in
                .success(PlaceAnswer(url: ResourceURL("http://links" + links.next())!))
            }
            let servers: [String: SimulatedTransport.Server] = [
                "http://list": { _ in ScriptedFinder.list() }, "http://links": { links.answer($0) },
            ]
            try SimulatedWorld.run(servers) { world in
                let options = VolumeOptions(timeout: .seconds(120), prebuffer: 0)
                let mount = try world.mount("http://list/list.m3u", options, cap: 8 << 20, finder: finder)
                let longest = try mount.play(film, pause: .milliseconds(20))
                #expect(longest < .seconds(1), "\(longest)")
                #expect(links.served.count >= 6 && links.refusals > 0)
            }
        }
    }

    @Test("Eight readers share links that serve three requests each", arguments: [false, true])
    func eightReaders(areBodiesCut: Bool) throws {
        let film = FileOrigin(length: 16 << 20)
        film.fault = areBodiesCut ? .shortBody(after: 60_000) : nil
        let links = ExpiringLinks(film, uses: 3)
        try withVolume(of: links) { fixture, _ in
            let readers = (0..<8).map { reader in
                startJoinable {
                    guard let file = try? fixture.open("film.mkv").get() else { return false }
                    defer { fixture.volume.close(file) }
                    return (0..<8).allSatisfy { piece in
                        let offset = Int64((reader * 2 + piece * 5) % 16) << 20
                        return fixture.read(file, offset, 100_000).isRight(film, offset, 100_000)
                    }
                }
            }
            #expect(readers.allSatisfy { $0.join() })
            // None was given away for another one while it was good.
            #expect(links.served.count > 3 && links.served.dropLast().allSatisfy { $0 == 3 }, "\(links.served)")
        }
    }

    @Test func eightReadersWaitForOneAnswer() throws {
        let film = FileOrigin(length: 64 << 20)
        let links = ExpiringLinks(film)
        let gates = [Gate(), Gate()]
        try withVolume(of: links) { server, number in
            if number <= gates.count { gates[number - 1].wait() }
            return .success(PlaceAnswer(url: server.url(links.next())))
        } _: { fixture, finder in
            let found = Monitor<[Result<Entry, VolumeError>]>([])
            for _ in 0..<8 {
                fixture.volume.lookup("film.mkv", in: rootNode) { entry in found.withLock { $0.append(entry) } }
            }
            #expect(eventually { !finder.asked.isEmpty } && found.withLock { $0.isEmpty })
            gates[0].open()
            try #require(found.wait(atMost: .seconds(10)) { $0.count == 8 ? () : nil } != nil)
            let files = try (0..<8).map { _ in try fixture.open("film.mkv").get() }
            defer { for file in files { fixture.volume.close(file) } }
            #expect(finder.asked.map(\.reason) == [.open])

            links.revoke()
            let reads = files.enumerated().map { number, file in
                let offset = Int64(number) * (8 << 20) + (4 << 20)
                return (offset, fixture.park(file, offset, 100_000))
            }
            // Those that are not refused by now wait for the second answer, too.
            #expect(eventually { finder.asked.count > 1 } && links.refusals > 0)
            gates[1].open()
            for (offset, read) in reads { #expect(read.wait().isRight(film, offset, 100_000), "\(offset)") }
            #expect(finder.asked.map(\.reason) == [.open, .failed])
        }
    }
}
