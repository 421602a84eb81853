import ReelCore
import TestKit
import Testing

@testable import ReelCache

@Suite(.plainAndEncrypted) struct NextToGoTests {
    @Test("The files that are said to go next are those that go, pinned ones apart")
    func order() throws {
        let fixture = Fixture()
        let store = try fixture.open(cap: 64 * BlockSize.block)
        defer { store.close() }
        #expect(store.nextToGo().isEmpty)
        try store.pin(["http://h/pinned"])
        for name in ["pinned", "first", "second", "third"] {
            try store.fill(version("http://h/" + name, blocks: 4), 0..<4)
            store.commit()
            try #require(eventually { store.files.all.isEmpty })
        }
        let next = store.nextToGo()
        #expect(next.map(\.key) == ["first", "second", "third"].map { "http://h/" + $0 })
        #expect(next.allSatisfy { $0.bytes == 4 * BlockSize.block })
        #expect(zip(next, next.dropFirst()).allSatisfy { $0.lastUse < $1.lastUse })
        #expect(try store.evictor.evict(BlockSize.block) > 0)
        #expect(store.nextToGo().first?.key == "http://h/second")
    }
}
