import Glibc
import ReelCore
import Synchronization
import TestKit
import Testing

extension EndToEnd {
    /// Feeds as mounts.
    @Suite struct FeedMountTests {
        @Test("A feed is a mount of its episodes, an OPML list one of its feeds, also without the origin")
        func episodes() throws {
            let songs = [FileOrigin(length: 70_000, seed: 1), FileOrigin(length: 80_000, seed: 2)]
            let items = Mutex([1])
            let server = try ScriptedServer { request in
                switch request.path {
                case "/show/one": return songs[0].answer(request)
                case "/show/two": return songs[1].answer(request)
                case "/show/feed.xml":
                    let text = items.withLock { $0 }.map { number in
                        let name = number == 1 ? "one" : "two"
                        return "<item><title>Part \(number)</title><pubDate>Mon, 0\(number) Jul 2024 10:00:00 +0200"
                            + "</pubDate><enclosure url='\(name)' type='audio/mpeg' length='5'/></item>"
                    }
                    let body = "<rss version='2.0'><channel>\(text.joined())</channel></rss>"
                    return ServerStep.answer(200, [("Content-Type", "application/rss+xml")], body: body)
                case "/list.opml":
                    let body = "<opml><body><outline text='A show' xmlUrl='show/feed.xml'/></body></opml>"
                    return ServerStep.answer(200, [("Content-Type", "text/x-opml")], body: body)
                default: return ServerStep.answer(404)
                }
            }
            defer { server.stop() }
            try withScene { scene in
                let first = "2024-07-01 Part 1.mp3"
                var mount = try scene.mount(server.address + "list.opml", ["-o", "refresh=0"])
                #expect(try names(in: mount.path) == ["A show"])
                #expect(try names(in: mount.file("A show")) == [first])
                #expect(songs[0].difference(inFile: mount.file("A show/" + first)) == nil)
                #expect(try attributes(mount.file("A show/" + first)).st_mtim.tv_sec == 1_719_820_800)
                items.withLock { $0 = [2, 1] }
                #expect(eventually { (try? names(in: mount.file("A show")).count) == 2 })
                #expect(songs[1].difference(inFile: mount.file("A show/2024-07-02 Part 2.mp3")) == nil)
                try mount.unmount()
                server.stop()
                mount = try scene.mount(server.address + "list.opml")
                #expect(songs[0].difference(inFile: mount.file("A show/" + first)) == nil)
            }
        }

        /// An episode whose address leads to another file each time: other advertisement, another length. A place
        /// answers a few requests, or, while `placesLast`, any number.
        private final class StitchedEpisode: Sendable {
            private let state: Mutex<(last: Int, usesLeft: [Int: Int], placesLast: Bool, random: SeededGenerator)>

            init(_ random: SeededGenerator) { state = Mutex((0, [:], false, random)) }

            var count: Int { state.withLock { $0.last } }

            func setPlacesLast(_ last: Bool) { state.withLock { $0.placesLast = last } }

            static func version(_ number: Int) -> FileOrigin.Version {
                FileOrigin.Version(
                    seed: UInt64(number), length: 400_000 + 1009 * Int64(number),
                    entityTag: number % 3 == 0 ? "\"v\(number)\"" : nil,
                    lastModified: number % 3 == 1 ? 1_700_000_000 + Int64(number) : nil, mediaType: "audio/mpeg")
            }

            func answer(_ request: ServerRequest) -> [ServerStep] {
                let (number, isNew) = state.withLock { state -> (Int?, Bool) in
                    guard let number = request.query.flatMap({ Int($0) }) else {
                        state.last += 1
                        state.usesLeft[state.last] = Int.random(in: 1...4, using: &state.random)
                        return (state.last, true)
                    }
                    if !state.placesLast { state.usesLeft[number]! -= 1 }
                    return (state.usesLeft[number]! >= 0 ? number : nil, false)
                }
                guard let number else { return ServerStep.answer(403) }
                if isNew { return ServerStep.answer(302, [("Location", "/place?\(number)")]) }
                return FileOrigin(Self.version(number)).answer(request)
            }
        }

        @Test("Two hundred plays of an episode with stitched advertisement mix no two answers")
        func stitched() throws {
            var random = SeededGenerator()
            let episode = StitchedEpisode(random)
            let server = try ScriptedServer { request in
                if request.path == "/ep.mp3" || request.path == "/place" { return episode.answer(request) }
                let item = "<item><title>One</title><enclosure url='ep.mp3' type='audio/mpeg'/></item>"
                return ServerStep.answer(
                    200, [("Content-Type", "application/rss+xml")], body: "<rss><channel>\(item)</channel></rss>")
            }
            defer { server.stop() }
            try withScene { scene in
                let mount = try scene.mount(server.address + "feed.rss", ["-o", "timeout=5"])
                let path = mount.file("One.mp3")
                var whole = 0
                for play in 0..<200 {
                    // A play in four reads on to the end, at places that go on answering: it is whole for sure.
                    let isStraight = play % 4 == 1
                    episode.setPlacesLast(isStraight)
                    if play % 2 == 1 { _ = try ChildProcess.run([program, "evict", path]) }
                    var possible: [Int]?
                    do {
                        // Not from the pages of the kernel, which an eviction leaves.
                        let file = try OpenDescriptor(path, flags: directFlag)
                        var offset: Int64 = 0
                        while true {
                            if !isStraight, Int.random(in: 0..<8, using: &random) == 0 {
                                offset = .random(in: 0..<400_000, using: &random)
                            }
                            let count = Int.random(in: 1...150_000, using: &random)
                            let bytes = try file.bytes(at: offset, count: count)
                            possible = (possible ?? Array(1...episode.count)).filter { number in
                                let version = StitchedEpisode.version(number)
                                let range = ByteRange(offset, offset + Int64(count))
                                    .clamped(to: ByteRange(0, version.length))
                                return version.bytes.bytes(range) == bytes
                            }
                            guard possible?.isEmpty == false else { break }
                            offset += Int64(bytes.count)
                            if bytes.count < count {
                                whole += 1
                                break
                            }
                        }
                    } catch let failure as SystemFailure {
                        // Another answer came, or none: each says so.
                        #expect([ESTALE, EACCES, EIO].contains(failure.number), "\(failure), seed \(random.seed)")
                    }
                    #expect(possible?.isEmpty != true, "play \(play) got bytes of two answers, seed \(random.seed)")
                }
                #expect(whole >= 50 && episode.count >= 20, "\(whole) whole plays of \(episode.count) answers")
            }
        }
    }
}
