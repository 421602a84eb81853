import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// kill -9 at any moment: what was committed is used, nothing unfilled is claimed.
    @Suite(.plainAndEncrypted) struct CrashLoopTests {
        private static let length: Int64 = 32 << 20
        /// Each takes a second.
        private static var rounds: Int { LongTests.many(CacheKind.isEncrypted ? 10 : 50, elseOnly: 5) }

        @Test(
            "kill -9 again and again in cold reads on one cache: right bytes, nothing committed fetched again"
        )
        func loop() throws {
            let films = (0..<6).map { FileOrigin(length: Self.length, seed: UInt64($0 + 1)) }
            let names = films.indices.map { "film-\($0).mkv" }
            let server = try folderServer(Dictionary(uniqueKeysWithValues: zip(names, films)))
            defer { server.stop() }
            var random = SeededGenerator()
            try withScene(limit: .seconds(600)) { scene in
                let cache = CacheFolder(path: scene.cache)
                var current = 0
                for round in 0..<Self.rounds {
                    let (film, name) = (films[current], names[current])
                    // Slow enough that the crash meets streams under way.
                    film.fault = .drip(piece: 256 << 10, pause: .milliseconds(round % 4))
                    let committed = cache.committed ?? [:]
                    let asked = server.requests.count
                    let mount = try scene.mount(server.address, FaultReaders.patient)
                    let readers = FaultReaders(
                        Shape.allCases.randomElement(using: &random)!, mount.file(name), film.version,
                        // How the end of the mount meets a reader.
                        allowing: [ENOTCONN, ECONNABORTED, EIO, ENOENT])
                    readers.start()
                    readers.read(Int.random(in: 1...250, using: &random))
                    if round % 5 == 4 {
                        // Now and then the crash comes after a commit, or in the one behind it.
                        eventually(within: .seconds(4)) { cache.committedBlocks > blocks(committed) }
                    }
                    mount.crash()
                    readers.finish().expectRight("round \(round), seed \(random.seed):")
                    let again = askedAgain(server.requests[asked...], committed, names)
                    #expect(again.isEmpty, "round \(round), seed \(random.seed): committed and fetched again: \(again)")
                    let kept = cache.committed
                    #expect(kept != nil, "round \(round), seed \(random.seed): the index cannot be read")
                    for (extent, word) in committed {
                        let now = kept?[extent] ?? 0
                        #expect(now & word == word, "round \(round), seed \(random.seed): \(extent) lost blocks")
                    }
                    if blocks(kept ?? [:]) >= (current + 1) * 200, current + 1 < films.count { current += 1 }
                }
                for film in films { film.fault = nil }
                let mount = try scene.mount(server.address, FaultReaders.patient)
                for (film, name) in zip(films, names).prefix(current + 1) {
                    FaultReaders.onePass(.inOrder, mount.file(name), film.version).expectRight("at the end, \(name):")
                }
                try mount.unmount()
            }
        }

        @Test("kill -9 in a cold read of 32 MiB: what was committed is not fetched again")
        func half() throws {
            let film = FileOrigin(length: Self.length)
            try withMount(of: film, FaultReaders.patient) { scene, server, mount in
                let file = mount.file("film.mkv")
                let readers = FaultReaders(
                    .inOrder, file, film.version, allowing: [ENOTCONN, ECONNABORTED, EIO, ENOENT])
                readers.start(passes: 1)
                // Three quarters, in calls of 64 KiB, of which two thirds are committed.
                #expect(readers.read(24 << 4))
                let cache = CacheFolder(path: scene.cache)
                #expect(eventually { cache.committedBlocks >= 16 << 3 })
                mount.crash()
                readers.finish().expectRight()
                let asked = server.requests.count
                let before = sent(server.fileRequests)
                let next = try scene.mount(server.address, FaultReaders.patient)
                FaultReaders.onePass(.inOrder, next.file("film.mkv"), film.version).expectRight("after the crash:")
                let after = sent(server.requests[asked...])
                // What the first daemon asked for and never got is no fetching again: at least the 24 MiB that were
                // read.
                let again = after - (Self.length - min(before, 24 << 20))
                #expect(again <= Self.length / 2, "\(again >> 20) MiB are fetched again")
            }
        }

        private func sent(_ requests: some Sequence<ServerRequest>) -> Int64 {
            requests.filter { $0.path != "/" }.reduce(0) { $0 + ($1.range(of: Self.length)?.count ?? Self.length) }
        }

        private func blocks(_ committed: [CacheFolder.Extent: UInt64]) -> Int {
            committed.values.reduce(0) { $0 + $1.nonzeroBitCount }
        }

        /// Requests that ask for more than a byte of committed blocks. The objects are numbered as the films are first
        /// opened, which is in order.
        private func askedAgain(
            _ requests: some Sequence<ServerRequest>, _ committed: [CacheFolder.Extent: UInt64], _ names: [String]
        ) -> [String] {
            let objects = Set(committed.keys.map { $0.object }).sorted()
            var result: [String] = []
            for request in requests {
                guard let place = names.firstIndex(of: String(request.path.dropFirst())), place < objects.count,
                    let range = request.range(of: Self.length), range.count > 1
                else { continue }
                for (extent, word) in committed where extent.object == objects[place] {
                    for bit in 0..<64 where word & (1 << UInt64(bit)) != 0 {
                        let start = (extent.extent * 64 + Int64(bit)) << 17
                        let common = min(range.upper, start + 131_072) - max(range.lower, start)
                        let place = "\(request.path) \(range.lower)..<\(range.upper), block at \(start)"
                        if common > 1 { result.append(place) }
                    }
                }
            }
            return Array(result.prefix(3))
        }
    }
}
