import Glibc
import ReelCore
import Synchronization
import TestKit
import Testing

@testable import ReelCache

/// Stops the world between two steps of the format's protocol and keeps what a crash there leaves.
private final class Crash: Sendable {
    private struct State {
        var left: Int
        /// Blocks that must be there after the crash: committed, and not given up.
        var committed: Set<Int> = []
        var images: [(crash: Fixture, powerLoss: Fixture, committed: Set<Int>)] = []
        var synced: String?
    }

    private let point: CrashPoint
    private let fixture: Fixture
    private let state: Mutex<State>

    /// - Parameter number: the crash is at the so manieth time that the point is reached, from 0 on.
    init(_ point: CrashPoint, _ number: Int, _ fixture: Fixture) {
        self.point = point
        self.fixture = fixture
        state = Mutex(State(left: number))
    }

    deinit { if let synced = state.withLock({ $0.synced }) { removeTree(synced) } }

    var images: [(crash: Fixture, powerLoss: Fixture, committed: Set<Int>)] { state.withLock { $0.images } }

    func commits(_ blocks: Set<Int>) { state.withLock { $0.committed = blocks } }

    func reached(_ point: CrashPoint) {
        state.withLock { state in
            // What the disk is sure to have of the data is what it had when fdatasync last returned.
            if point == .dataSynced {
                if let synced = state.synced { removeTree(synced) }
                let place = fixture.directory + "-synced"
                if (try? copy(fixture.source + "/objects", to: place)) != nil { state.synced = place }
            }
            guard point == self.point else { return }
            defer { state.left -= 1 }
            guard state.left == 0, let crash = try? fixture.crashImage(), let loss = try? fixture.crashImage() else {
                return
            }
            for path in loss.objectFiles {
                let name = path.split(separator: "/").suffix(2).joined(separator: "/")
                let length = status(path)?.st_size ?? 0
                // Pages that were never synced: noise, as the disk may have held anything there.
                let noise = content(5, min(Int64(length), 16 << 20), salt: 99)
                if let file = try? Descriptor(path, O_RDWR) {
                    noise.withUnsafeBytes { try? file.write($0, at: 0) }
                }
                if let synced = state.synced, status(synced + "/" + name) != nil {
                    try? copy(synced + "/" + name, to: path)
                }
            }
            state.images.append((crash, loss, state.committed))
        }
    }
}

private final class Giver: ObjectHolder {
    let object: CacheObject

    init(_ object: CacheObject) {
        self.object = object
        object.holder = self
    }

    func expendable(_ blocks: [Range<Int>]) -> [Range<Int>] { object.filledBlocks.map { $0..<$0 + 1 } }

    func relinquish(_ blocks: [Range<Int>], scarce: Int64?, evenPinned: Bool) -> Int64 {
        blocks.reduce(0) { freed, blocks in
            let before = object.filledBytes
            try? object.discard(blocks, evenPinned: evenPinned)
            return freed + before - object.filledBytes
        }
    }
}

@Suite(.plainAndEncrypted) struct CrashTests {
    /// Fills, commits, discards and evicts one file after another, so that each point is reached several times.
    private func story(_ fixture: Fixture, _ crash: Crash, _ random: inout SeededGenerator) throws {
        let store = try fixture.open(cap: 90 * BlockSize.block) { crash.reached($0) }
        let wanted = version(blocks: 200)
        var committed: Set<Int> = []
        for round in 0..<4 {
            let giver = Giver(try store.object(for: wanted))
            try giver.object.fill(round * 3)
            try giver.object.put(round * 3 + 1)
            store.remember(listing(round), for: "http://h/films/")
            store.commit()
            committed.formUnion([round * 3])
            crash.commits(committed)
            for _ in 0..<4 {
                let block = Int.random(in: 20..<60, using: &random)
                guard !giver.object.file.isFilled(block) else { continue }
                try giver.object.fill(block)
                if Bool.random(using: &random) {
                    store.commit()
                    committed.formUnion(giver.object.filledBlocks)
                    crash.commits(committed)
                }
            }
            let gone = giver.object.filledBlocks.filter { $0 >= 20 && Bool.random(using: &random) }
            committed.subtract(gone)
            crash.commits(committed)
            for block in gone { try giver.object.discard(block..<block + 1) }
            try giver.object.abandonFragments()
        }
        store.commit()
        crash.commits([])
        try makeRoomAhead(store, wanted)
        store.commit()
        // Others push it out.
        for key in ["b", "c"] { try store.fill(version(key, blocks: 80), 0..<80) }
        store.close()
    }

    /// While the file is in use. - Parameter wanted: of a version of 200 blocks.
    private func makeRoomAhead(_ store: Store, _ wanted: Version) throws {
        let giver = Giver(try store.object(for: wanted))
        _ = try store.evictor.makeRoomAhead(BlockSize.block)
        try giver.object.fill(70)
    }

    /// A listing of more than one slice, and of another length in each round.
    private func listing(_ round: Int) -> StoredListing {
        let entries = (0..<1001 + round).map { StoredEntry(name: "\($0) of \(round)", url: "", isDirectory: false) }
        return StoredListing(entries: entries, fetchedAt: Int64(round), complete: true)
    }

    @Test(arguments: CrashPoint.allCases)
    func whateverACrashLeavesWhatIsClaimedIsRight(_ point: CrashPoint) throws {
        var random = SeededGenerator()
        let hint: Comment = "\(point), seed \(random.seed)"
        for number in 0..<LongTests.many(2, elseOnly: 1) {
            let fixture = Fixture()
            let crash = Crash(point, number, fixture)
            try story(fixture, crash, &random)
            // The sweep comes once after each start.
            if number > 0, [.swept, .evictionRowsCommitted, .evictionPunched].contains(point) { continue }
            let image = try #require(crash.images.first, hint)
            try look(image.crash, image.committed, hint)
            try look(image.powerLoss, image.committed, hint)
        }
    }

    /// All that was committed is there and right, all that is claimed is right, and the account agrees with the disk.
    private func look(_ image: Fixture, _ committed: Set<Int>, _ hint: Comment) throws {
        let store = try image.open(cap: 90 * BlockSize.block)
        store.commit()
        // The listing of one round, whole, and nothing of another.
        let found = store.listing("http://h/films/")
        let expected = found.map { listing(Int($0.fetchedAt)) }?.entries as? [StoredEntry]
        #expect(found?.entries as? [StoredEntry] == expected, hint)
        let rows = try store.index.read { (index) throws(CacheError) in
            try index.first("SELECT count(*) FROM entries") { Int($0.integer(0)) }
        }
        #expect(rows == expected?.count ?? 0, hint)
        #expect(image.diskBytes <= store.usage.used + Int64(image.objectFiles.count) * 8192, hint)
        let object = try store.object(for: version(blocks: 200))
        #expect(committed.isSubset(of: object.filledBlocks), hint)
        for block in object.filledBlocks { #expect(object.holds(block), hint) }
        for block in [0, 199] where !object.file.isFilled(block) {
            try object.fill(block)
            #expect(object.holds(block), hint)
        }
        store.close()
    }
}
