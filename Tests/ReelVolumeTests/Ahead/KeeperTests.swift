import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// What is fetched whole before anybody opens it, in virtual time: a folder of episodes, and a feed.
@Suite struct KeeperTests {
    private static let length: Int64 = 12 << 20
    private static let names = (1...6).map { "e\($0).mkv" }

    /// Servers of six episodes, in a folder and in a feed.
    private final class Show: Sendable {
        let films = Dictionary(
            uniqueKeysWithValues: KeeperTests.names.enumerated().map {
                ($1, FileOrigin(length: KeeperTests.length, seed: UInt64($0 + 1)))
            })
        let requests = Shared<[(name: String, range: ByteRange)]>([])
        /// The number of episodes that the feed has.
        let published = Shared(4)
        let refused = Shared<Set<String>>([])
        let isDown = Shared(false)

        func answer(_ request: ServerRequest) -> [ServerStep]? {
            let name = String(request.path.dropFirst())
            if isDown.value { return nil }
            if refused.value.contains(name) { return ServerStep.answer(500) }
            if let film = films[name] {
                if let range = request["range"]?.dropFirst("bytes=".count).split(separator: "-"), range.count == 2 {
                    let asked = ByteRange(Int64(range[0])!, Int64(range[1])! + 1)
                    requests.change { $0.append((name, asked)) }
                }
                return film.answer(request)
            }
            if name == "feed.xml" {
                let items = KeeperTests.names.prefix(published.value).enumerated().reversed().map {
                    "<item><title>\($1)</title><pubDate>Fri, \(10 + $0) Nov 2023 10:00:00 GMT</pubDate>"
                        + "<enclosure url='/\($1)' type='video/x-matroska'/></item>"
                }
                return ServerStep.answer(
                    200, [("Content-Type", "application/rss+xml")],
                    body: "<rss version='2.0'><channel>\(items.joined())</channel></rss>")
            }
            guard name.isEmpty else { return ServerStep.answer(404) }
            return ServerStep.listing(KeeperTests.names.map { ($0, KeeperTests.length) })
        }

        /// Bytes of a file that were asked for.
        func asked(_ name: String) -> Int64 { requests.value.reduce(0) { $0 + ($1.name == name ? $1.range.count : 0) } }
    }

    private func with(
        next: Int = 0, new: Int = 0, source: String = "http://h/", cap: Int64 = 1 << 30,
        _ body: (SimulatedWorld, SimulatedWorld.Mount, Show) throws -> Void
    ) throws {
        let show = Show()
        try SimulatedWorld.run(["http://h": { show.answer($0) }]) { world in
            let mount = try world.mount(
                source, VolumeOptions(prebuffer: 0, keepNext: next, keepNew: new), cap: cap)
            try body(world, mount, show)
        }
    }

    private func whole(_ mount: SimulatedWorld.Mount) -> [String] {
        (mount.volume.status().kept ?? []).filter { $0.phase == .whole && $0.cachedBytes == Self.length }.map(\.path)
    }

    private func phases(_ mount: SimulatedWorld.Mount) -> [String] {
        (mount.volume.status().kept ?? []).map { "\($0.path) \($0.phase)" }
    }

    /// Reads a file as a player: to some part, at 2 MiB a second.
    private func play(_ mount: SimulatedWorld.Mount, _ show: Show, _ name: String, part: Int64 = 1) throws {
        let file = try mount.open(name).get()
        defer { mount.volume.close(file) }
        var offset: Int64 = 0
        while offset < Self.length / part {
            let count = min(128 << 10, Self.length - offset)
            try #require(mount.read(file, offset, Int(count)).isRight(show.films[name]!, offset, count))
            Simulation.sleep(.milliseconds(60))
            offset += count
        }
    }

    @Test("The next two of what plays are fetched whole, each byte once, also when the player has gone")
    func next() throws {
        try with(next: 2) { world, mount, show in
            try play(mount, show, "e2.mkv")
            #expect(world.eventually { whole(mount) == ["e3.mkv", "e4.mkv"] }, "\(phases(mount))")
            for name in ["e3.mkv", "e4.mkv"] { #expect(show.asked(name) == Self.length, "\(name)") }
            for name in ["e1.mkv", "e5.mkv", "e6.mkv"] { #expect(show.asked(name) == 0, "\(name)") }
            let before = show.requests.value.count
            Simulation.sleep(.seconds(3600))
            #expect(show.requests.value.count == before)
            // A file that is there all the same plays as any.
            try play(mount, show, "e3.mkv")
            #expect(world.eventually { whole(mount) == ["e4.mkv", "e5.mkv"] }, "\(phases(mount))")
        }
    }

    @Test("A prefetch of a file that was played a moment ago plays nothing")
    func prefetched() throws {
        try with(next: 1) { world, mount, show in
            for name in ["e1.mkv", "e3.mkv"] { try play(mount, show, name, part: 2) }
            #expect(world.eventually { whole(mount).first == "e4.mkv" })
            let volume = mount.volume
            for name in ["e1.mkv", "e3.mkv"] {
                let number = try volume.prefetches.start(PrefetchRequest(paths: [name]), volume.maintenance)
                #expect(world.eventually { volume.prefetches.all.contains { $0.number == number && $0.isOver } })
                Simulation.sleep(.seconds(1))
                #expect(phases(mount) == ["e4.mkv whole"])
            }
        }
    }

    @Test("A look into a file plays nothing")
    func probe() throws {
        try with(next: 2) { _, mount, show in
            try play(mount, show, "e1.mkv", part: 24)
            Simulation.sleep(.seconds(600))
            #expect(mount.volume.status().kept == [])
            for name in Self.names.dropFirst() { #expect(show.asked(name) == 0) }
        }
    }

    @Test("A mount that keeps nothing reports nothing")
    func off() throws {
        try with { _, mount, show in
            try play(mount, show, "e1.mkv")
            #expect(mount.volume.status().kept == nil)
        }
    }

    @Test(
        "A cache smaller than all that is kept is not filled in a circle, and what is pinned or was just played stays")
    func small() throws {
        // The played one, a pinned one, and one more with its readahead; never two.
        try with(next: 3, cap: 44 << 20) { world, mount, show in
            let pinned = try mount.open("e6.mkv").get()
            _ = mount.readAll(pinned)
            mount.volume.close(pinned)
            _ = try mount.volume.maintenance.pin("e6.mkv", true)
            try play(mount, show, "e1.mkv", part: 2)
            #expect(world.eventually { phases(mount).dropFirst() == ["e3.mkv full", "e4.mkv waiting"] })
            #expect(whole(mount) == ["e2.mkv"])
            let before = show.requests.value.count
            Simulation.sleep(.seconds(7200))
            #expect(show.requests.value.count == before, "\(phases(mount))")
            let kept = mount.volume.status().files.filter { $0.path != "e1.mkv" }
            #expect(kept.allSatisfy { $0.cachedBytes == Self.length }, "\(kept)")
            // Once the first one is finished it makes room.
            try play(mount, show, "e1.mkv")
            #expect(world.eventually { whole(mount).starts(with: ["e2.mkv", "e3.mkv"]) }, "\(phases(mount))")
            #expect(show.asked("e2.mkv") == Self.length)
        }
    }

    @Test("What was read to its end goes before all that was used before it")
    func finished() throws {
        try with(next: 1) { world, mount, show in
            for name in ["e4.mkv", "e1.mkv"] { try play(mount, show, name, part: 2) }
            try play(mount, show, "e5.mkv")
            #expect(world.eventually { mount.volume.status().leaving?.first?.path == "e5.mkv" })
            #expect(mount.volume.status().leaving?.contains { $0.path == "e4.mkv" } == true)
        }
    }

    @Test("Offline nothing is asked for, and back on it goes on where it was")
    func offline() throws {
        try with(next: 1) { world, mount, show in
            mount.volume.line.limit.schedule = RateSchedule(rate: 1 << 20)
            try play(mount, show, "e1.mkv", part: 2)
            #expect(world.eventually { show.asked("e2.mkv") > 0 })
            mount.volume.setOffline(true)
            Simulation.sleep(.seconds(10))
            let before = show.requests.value.count
            Simulation.sleep(.seconds(600))
            #expect(show.requests.value.count == before)
            mount.volume.setOffline(false)
            #expect(world.eventually { whole(mount) == ["e2.mkv"] }, "\(phases(mount))")
        }
    }

    /// Virtual time stands still where a thread never sleeps.
    @Test("Offline a feed that is due is not looked at, and not waited for by looking all the time")
    func offlineFeed() throws {
        try with(new: 1, source: "http://h/feed.xml") { world, mount, show in
            #expect(world.eventually { whole(mount).count == 1 }, "\(phases(mount))")
            mount.volume.setOffline(true)
            show.published.set(5)
            Simulation.sleep(.seconds(2 * 3600))
            #expect(show.asked("e5.mkv") == 0)
            mount.volume.setOffline(false)
            #expect(world.eventually { show.asked("e5.mkv") >= Self.length })
        }
    }

    @Test("What fails while the origin is away does not count against a file")
    func away() throws {
        try with(next: 1) { world, mount, show in
            show.isDown.set(true)
            let volume = mount.volume
            let request = PrefetchRequest(paths: ["e2.mkv"], patience: nil)
            let number = try volume.prefetches.start(request, volume.maintenance)
            Simulation.sleep(.seconds(120))
            // The first answers are refusals.
            show.refused.change { $0 = ["e2.mkv"] }
            show.isDown.set(false)
            Simulation.sleep(.seconds(60))
            show.refused.change { $0 = [] }
            #expect(world.eventually { volume.prefetches.all.first { $0.number == number }?.isOver == true })
            let status = try #require(volume.prefetches.all.first { $0.number == number })
            #expect(status.phase == .done && status.doneBytes == Self.length, "\(status)")
        }
    }

    @Test("A file that fails is tried again, later and later, and the others are fetched meanwhile")
    func failing() throws {
        try with(next: 2) { world, mount, show in
            show.refused.change { $0 = ["e2.mkv"] }
            try play(mount, show, "e1.mkv")
            #expect(world.eventually { whole(mount) == ["e3.mkv"] }, "\(phases(mount))")
            #expect(mount.volume.status().kept?.first?.trouble != nil)
            show.refused.change { $0 = [] }
            #expect(world.eventually { whole(mount) == ["e2.mkv", "e3.mkv"] }, "\(phases(mount))")
        }
    }

    @Test("While a player needs the line, it has it")
    func behind() throws {
        try with(next: 3) { world, mount, show in
            try play(mount, show, "e1.mkv", part: 2)
            let start = now()
            // So little of it that it does not count as played.
            try play(mount, show, "e6.mkv", part: 3)
            // As long as its own pauses, and the wait for its first byte.
            #expect(now() - start < .milliseconds(60 * 32 + 1000))
            #expect(world.eventually { whole(mount).starts(with: ["e2.mkv", "e3.mkv", "e4.mkv"]) }, "\(phases(mount))")
        }
    }

    @Test("The newest of a feed are fetched whole, and one that is published later, within an hour and a bit")
    func new() throws {
        try with(new: 2, source: "http://h/feed.xml") { world, mount, show in
            #expect(world.eventually { whole(mount).count == 2 }, "\(phases(mount))")
            #expect(["e3.mkv", "e4.mkv"].allSatisfy { show.asked($0) >= Self.length })
            #expect(["e1.mkv", "e2.mkv"].allSatisfy { show.asked($0) < 1024 })
            show.published.set(5)
            for _ in 0..<7 { _ = world.eventually { show.asked("e5.mkv") >= Self.length } }
            #expect(world.eventually { whole(mount).count == 2 }, "\(phases(mount))")
            #expect(mount.volume.status().kept?.first?.path.contains("e5") == true)
        }
    }
}
