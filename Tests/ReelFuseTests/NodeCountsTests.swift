import ReelFilesystem
import TestKit
import Testing

@testable import ReelFuse

@Suite("The nodes that the kernel of one session knows")
struct NodeCountsTests {
    @Test("Random references are those of a plain table")
    func model() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var generator = SeededGenerator(seed: seed)
        var counts = NodeCounts()
        var model: [NodeID: UInt64] = [:]
        // Sources of a catalogue, generations, slots far apart and side by side.
        let nodes = (0..<60).map { number -> NodeID in
            let source = UInt64(number % 3) << 52
            let generation = UInt64(number % 5) << 32
            let slot = number % 2 == 0 ? UInt64(number) : UInt64(number) * 4097
            return source | generation | slot
        }
        for _ in 0..<LongTests.many(5000, elseOnly: 500) {
            let node = nodes.randomElement(using: &generator)!
            if Bool.random(using: &generator) {
                counts.add(node)
                model[node, default: 0] += 1
            } else {
                let count = UInt64.random(in: 1...3, using: &generator)
                counts.remove(node, count)
                model[node] = model[node].flatMap { $0 > count ? $0 - count : nil }
            }
            var seen: [NodeID: UInt64] = [:]
            counts.forEach { seen[$0] = $1 }
            guard seen == model else {
                Issue.record("seed \(seed): \(seen) for \(model)")
                return
            }
        }
        for (node, count) in model { counts.remove(node, count) }
        #expect(counts.isEmpty, "seed \(seed)")
    }

    @Test("A slot that is used again has its new generation")
    func generations() {
        var counts = NodeCounts()
        for generation in [0, 1, 0xF_FFFF] as [UInt64] {
            let node = generation << 32 | 7
            counts.add(node)
            var seen: [NodeID] = []
            counts.forEach { node, _ in seen.append(node) }
            #expect(seen == [node])
            counts.remove(node, 1)
        }
        #expect(counts.isEmpty)
    }
}
