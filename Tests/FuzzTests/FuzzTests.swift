import Glibc
import TestKit
import Testing

/// What the fuzzer does for hours, here for moments: seeds as they are, and seeds changed at random.
@Suite struct FuzzTests {
    private static let seconds = LongTests.areRun ? 2.0 : 0.3

    @Test("No input ends a parser or gets through it with what must not be", arguments: FuzzTarget.all.map(\.name))
    func changedSeeds(_ name: String) throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        let seeds = try seeds(of: target)
        try #require(!seeds.isEmpty, "no seeds in Corpus/\(name)")
        var random = SeededGenerator()
        let end = ContinuousClock.now + .seconds(Self.seconds)
        var inputs = seeds
        for _ in 0..<5000 where ContinuousClock.now < end || !inputs.isEmpty {
            let input = inputs.popLast() ?? changed(seeds, &random)
            do { try target.run(input) } catch let finding as FuzzFinding {
                Issue.record("seed \(random.seed): \(finding); input \(input.prefix(2000))")
                return
            }
        }
    }

    private func seeds(of target: FuzzTarget) throws -> [[UInt8]] {
        let here = String(#filePath.prefix(upTo: #filePath.lastIndex(of: "/")!))
        let folders =
            [here + "/Corpus/" + target.name] + (target.pages == nil ? [] : [here + "/../ReelSourcesTests/Corpus"])
        return try folders.enumerated().flatMap { index, folder in
            try files(in: folder).filter { index == 0 || $0.hasSuffix(target.pages ?? "") }.map { try contents($0) }
        }
    }

    private func changed(_ seeds: [[UInt8]], _ random: inout SeededGenerator) -> [UInt8] {
        var bytes = seeds.randomElement(using: &random)!
        for _ in 0..<Int.random(in: 1...8, using: &random) {
            let place = Int.random(in: 0...bytes.count, using: &random)
            let count = min(Int.random(in: 0...32, using: &random), bytes.count - place)
            switch Int.random(in: 0..<6, using: &random) {
            case 0: bytes.removeSubrange(place..<place + count)
            case 1: bytes.insert(contentsOf: bytes[place..<place + count], at: place)
            case 2: bytes.insert(UInt8.random(in: 0...255, using: &random), at: place)
            case 3 where count > 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
            case 4 where count > 0: bytes[place] ^= 1 << UInt8.random(in: 0...7, using: &random)
            default:
                let other = seeds.randomElement(using: &random)!
                let from = Int.random(in: 0...other.count, using: &random)
                bytes.insert(contentsOf: other[from...].prefix(64), at: place)
            }
        }
        return bytes
    }

    private func files(in folder: String) throws -> [String] {
        let list = try #require(opendir(folder), "no folder \(folder)")
        defer { closedir(list) }
        var found: [String] = []
        while let entry = readdir(list) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if !name.hasPrefix(".") { found.append(folder + "/" + name) }
        }
        return found.sorted()
    }

    private func contents(_ path: String) throws -> [UInt8] {
        let file = try #require(fopen(path, "re"), "\(path)")
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        let count = fread(&bytes, 1, bytes.count, file)
        return Array(bytes.prefix(count))
    }
}
