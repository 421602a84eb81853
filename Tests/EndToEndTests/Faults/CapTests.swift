import Glibc
import ReelCore
import Synchronization
import TestKit
import Testing

extension EndToEnd {
    /// Promise 4: the cap is the cap.
    @Suite struct CapTests {
        private static let cap: Int64 = 32 << 20
        /// Room is made by extents; the one that is being written may stand beside the cap.
        private static let extent: Int64 = 8 << 20

        @Test(
            "A file three times the cap is read right, in order and at random, within the cap", .plainAndEncrypted,
            arguments: [false, true])
        func largeFile(_ isRandom: Bool) throws {
            let film = FileOrigin(length: 96 << 20)
            try withMount(of: film, ["--cache-size", "32M"]) { scene, server, mount in
                let file = try OpenDescriptor(mount.file("film.mkv"))
                var random = SeededGenerator()
                var largest: Int64 = 0
                for index: Int64 in 0..<(isRandom ? 60 : 48) {
                    let offset = isRandom ? Int64.random(in: 0..<(94 << 20), using: &random) : index * 2 << 20
                    let bytes = try file.bytes(at: offset, count: 2 << 20)
                    let wrong = bytes.withUnsafeBytes { film.version.bytes.firstDifference(in: $0, from: offset) }
                    #expect(wrong == nil && bytes.count == 2 << 20, "at \(offset), seed \(random.seed)")
                    largest = max(largest, CacheFolder(path: scene.cache).bytesOnDisk)
                }
                #expect(largest <= Self.cap + Self.extent, "\(largest >> 20) MiB")
                #expect(largest >= Self.cap / 4, "\(largest >> 20) MiB: is it a cache at all?")
            }
        }

        @Test("Many times the cap goes through it, in order and then at random, and all of the cache stays within it")
        func manyTimes() throws {
            let film = FileOrigin(length: Int64(LongTests.many(1024, elseOnly: 256)) << 20)
            let cap: Int64 = 64 << 20
            try withMount(of: film, ["--cache-size", "64M"], limit: .seconds(600)) { scene, server, mount in
                let cache = CacheFolder(path: scene.cache)
                let sampler = CacheSampler(cache)
                defer { sampler.stop() }
                let file = try OpenDescriptor(mount.file("film.mkv"))
                func check(_ offset: Int64, _ count: Int, _ what: String) throws {
                    let bytes = try file.bytes(at: offset, count: count)
                    let wrong = bytes.withUnsafeBytes { film.version.bytes.firstDifference(in: $0, from: offset) }
                    #expect(wrong == nil && bytes.count == count, "\(what) at \(offset): \(wrong.debugDescription)")
                }
                for offset in stride(from: Int64(0), to: film.length, by: 1 << 20) {
                    try check(offset, 1 << 20, "in order")
                }
                var random = SeededGenerator()
                for _ in 0..<400 {
                    let offset = Int64.random(in: 0..<(film.length - 200_000), using: &random)
                    try check(offset, Int.random(in: 1...200_000, using: &random), "seed \(random.seed)")
                }
                let most = sampler.stop()
                #expect(most <= cap + Self.extent, "\(most) bytes")
                #expect(most >= cap / 2, "\(most) bytes: is it a cache at all?")
                #expect(eventually { cache.bytesOnDisk <= cap + Self.extent })
            }
        }
    }
}
