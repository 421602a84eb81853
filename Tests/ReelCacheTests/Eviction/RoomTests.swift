import ReelCore
import TestKit
import Testing

@testable import ReelCache

/// Which data makes room for files that nobody has opened yet.
@Suite(.plainAndEncrypted) struct RoomTests {
    private static let block = BlockSize.block

    /// A store of 64 blocks with files of 16 blocks each, closed, filled one after another.
    private func withStore(_ names: [String], _ body: (Store) throws -> Void) throws {
        let fixture = Fixture()
        let store = try fixture.open(cap: 64 * Self.block + (1 << 20))
        defer { store.close() }
        for name in names {
            try store.fill(version("http://h/" + name, blocks: 16), 0..<16)
            store.commit()
            try #require(eventually { store.files.all.isEmpty })
        }
        try body(store)
    }

    private func key(_ name: String) -> ExactText { ExactText("http://h/" + name) }

    private var later: Int64 { .max / 2000 }

    @Test("Free bytes are room, and so is what is older than all that is spared")
    func room() throws {
        try withStore(["a", "b", "c"]) { store in
            #expect(try store.hasRoom(for: 8 * Self.block, usedBefore: 0, sparing: []))
            // Recent data makes no room.
            #expect(try !store.hasRoom(for: 24 * Self.block, usedBefore: 0, sparing: []))
            #expect(try store.hasRoom(for: 24 * Self.block, usedBefore: later, sparing: []))
            #expect(try store.hasRoom(for: 24 * Self.block, usedBefore: later, sparing: [key("b")]))
            #expect(try !store.hasRoom(for: 24 * Self.block, usedBefore: later, sparing: [key("a")]))
            #expect(try !store.hasRoom(for: 80 * Self.block, usedBefore: later, sparing: []))
            try store.pin(["http://h/a", "http://h/b", "http://h/c"])
            #expect(try !store.hasRoom(for: 24 * Self.block, usedBefore: later, sparing: []))
        }
    }

    @Test("What is made free ahead of writes is no room, and no capacity for what is not pinned")
    func ahead() throws {
        let fixture = Fixture()
        let store = try fixture.open(cap: 64 * Self.block + (1 << 20), roomAhead: 32 * Self.block)
        defer { store.close() }
        #expect(try store.hasRoom(for: 24 * Self.block, usedBefore: 0, sparing: []))
        #expect(try !store.hasRoom(for: 48 * Self.block, usedBefore: 0, sparing: []))
        let (pinned, loose) = (store.capacity(arePinned: true), store.capacity(arePinned: false))
        #expect(pinned - loose == 32 * Self.block && pinned <= 64 * Self.block + 1 << 20 && pinned > 56 * Self.block)
    }

    @Test("A file that is to go first goes first, and one that is to go last goes last, open or closed")
    func order() throws {
        try withStore(["a", "b", "c"]) { store in
            try store.order(["http://h/a", "http://h/none"], goesFirst: false)
            #expect(store.nextToGo().map(\.key) == ["b", "c", "a"].map { "http://h/" + $0 })
            try store.order(["http://h/c"], goesFirst: true)
            #expect(store.nextToGo().map(\.key) == ["c", "b", "a"].map { "http://h/" + $0 })
            let open = try store.object(for: version("http://h/b", blocks: 16))
            try store.order(["http://h/b"], goesFirst: false)
            #expect(store.nextToGo().map(\.key) == ["c", "a", "b"].map { "http://h/" + $0 })
            try store.order(["http://h/b"], goesFirst: true)
            store.commit()
            withExtendedLifetime(open) {}
            #expect(store.nextToGo().map(\.key) == ["b", "c", "a"].map { "http://h/" + $0 })
        }
    }

    @Test(
        "Of a file without an end, and of a very long one, only what there is takes another place",
        arguments: [
            BlockSize.openEnd, 1 << 40,
        ])
    func endless(length: Int64) throws {
        try withStore([]) { store in
            let file = try store.object(
                for: Version(
                    key: "k", validator: Validator(entityTag: nil, lastModified: 5), length: length))
            try file.fill(0)
            store.commit()
            try store.order(["k"], goesFirst: true)
            #expect(file.file.withBlocks { $0.states.extentCount } == 1)
        }
    }
}
