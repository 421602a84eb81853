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
            "A file three times the cap is read right, in order and at random, within the cap",
            arguments: [false, true])
        func largeFile(_ isRandom: Bool) throws {
            let film = FileOrigin(length: 96 << 20)
            try withMount(of: film, ["--cache-size", "32M"], limit: .seconds(100)) { scene, server, mount in
                let file = try OpenDescriptor(mount.file("film.mkv"))
                var random = SeededGenerator()
                var largest: Int64 = 0
                for index: Int64 in 0..<(isRandom ? 60 : 48) {
                    let offset = isRandom ? Int64.random(in: 0..<(94 << 20), using: &random) : index * 2 << 20
                    let bytes = try file.bytes(at: offset, count: 2 << 20)
                    let wrong = bytes.withUnsafeBytes { film.version.bytes.firstDifference(in: $0, from: offset) }
                    #expect(wrong == nil && bytes.count == 2 << 20, "at \(offset), seed \(random.seed)")
                    largest = max(largest, try bytesOnDisk(scene.cache))
                }
                #expect(largest <= Self.cap + Self.extent, "\(largest >> 20) MiB")
                #expect(largest >= Self.cap / 4, "\(largest >> 20) MiB: is it a cache at all?")
            }
        }
    }
}

/// What the cache's data files take.
func bytesOnDisk(_ cache: String) throws -> Int64 {
    var sum: Int64 = 0
    for source in try names(in: cache) {
        let objects = "\(cache)/\(source)/objects"
        for folder in (try? names(in: objects)) ?? [] {
            for name in (try? names(in: "\(objects)/\(folder)")) ?? [] {
                sum += Int64((try? attributes("\(objects)/\(folder)/\(name)"))?.st_blocks ?? 0) * 512
            }
        }
    }
    return sum
}
