import Glibc
import ReelCore
import Synchronization
import TestKit
import Testing

@testable import ReelCache

/// Writes to the index whenever it hears of the disk.
private final class Listener: Sendable {
    private let state = Mutex<(store: Store?, calls: Int)>((nil, 0))

    var store: Store? {
        get { state.withLock { $0.store } }
        set { state.withLock { $0.store = newValue } }
    }

    var calls: Int { state.withLock { $0.calls } }

    func hear() {
        let (store, calls) = state.withLock { state in
            state.calls += 1
            return state
        }
        try? store?.pin(["\(calls)"])
    }
}

@Suite(.plainAndEncrypted) struct CommitTests {
    /// Or an open file would be another one after a restart, whose handles get ESTALE.
    @Test func aTagThatComesLaterIsKnownOfAnOpenFileAsOfItsRow() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        defer { store.close() }
        func wanted(_ tag: String?) -> Version {
            let validator = Validator(entityTag: tag.flatMap { EntityTag("\"\($0)\"") }, lastModified: 7)
            return Version(key: "http://h/a", validator: validator, length: 2 * BlockSize.block)
        }
        let object = try store.fill(wanted(nil), 0..<2)
        let other = try store.object(for: wanted("x"))
        #expect(other === object && object.version == wanted("x"))
        let row = try store.index.read { (index) throws(CacheError) in try index.row(of: object.file.version) }
        #expect(row?.version.validator == object.version.validator)
    }

    @Test func whatWasFilledIsThereAfterReopening() throws {
        let fixture = Fixture()
        let wanted = version(blocks: 130, less: 1000)
        var store = try fixture.open()
        try store.fill(wanted, [0, 63, 64, 129])
        let used = store.usage.used
        #expect(used == 4 * BlockSize.block - 1000)
        store.close()

        store = try fixture.open()
        #expect(store.usage.used == used)
        let object = try store.object(for: wanted)
        #expect(object.filledBlocks == [0, 63, 64, 129])
        for block in [0, 63, 64, 129] { #expect(object.holds(block)) }
        store.close()
    }

    @Test func aCrashForgetsWhatWasNotCommittedAndNothingElse() throws {
        let fixture = Fixture()
        let wanted = version(blocks: 8)
        let store = try fixture.open()
        let object = try store.object(for: wanted)
        for block in 0..<8 {
            if block < 4 { try object.fill(block) }
            if block == 3 { store.commit() }
            if block > 3 { try object.put(block) }
        }
        let image = try fixture.crashImage(of: store)
        let after = try image.open()
        #expect(after.usage.used == 4 * BlockSize.block)
        // The four that no row covers were given back to the disk.
        #expect(image.diskBytes == 4 * BlockSize.block)
        let again = try after.object(for: wanted)
        #expect(again.filledBlocks == [0, 1, 2, 3])
        for block in 0..<4 { #expect(again.holds(block)) }
        after.close()
        store.close()
    }

    /// A process that is killed leaves leftovers, and the disk may not let go of them at the next start.
    @Test(.tags(.plainOnly), .enabled(if: geteuid() == 0, "only root can mount a disk"))
    func whatCannotBePunchedStaysUnclean() throws {
        let (killed, fixture) = (Fixture(), Fixture())
        let disk = try fixture.disk(.ext4, megabytes: 32)
        defer { disk.end() }
        do {
            let store = try killed.open()
            let object = try store.fill(version(blocks: 3), [0])
            store.commit()
            try object.put(2)
            try copy(killed.source, to: fixture.directory + "/cache/")
            store.close()
        }
        func isUnclean(_ store: Store) throws -> Bool? {
            try store.index.read { (index) throws(CacheError) in
                try index.first("SELECT unclean FROM objects") { $0.flag(0) }
            }
        }
        let file = try #require(fixture.objectFiles.first)
        #expect(try ChildProcess.run(["chattr", "+i", file]).status == 0)
        var store = try fixture.open()
        #expect(try isUnclean(store) == true)
        // Nor does a use of the file clear the mark.
        _ = try store.object(for: version(blocks: 3))
        store.commit()
        #expect(store.files.all.isEmpty)
        #expect(try isUnclean(store) == true && fixture.diskBytes > BlockSize.block)
        // It does once the disk takes the hole.
        #expect(try ChildProcess.run(["chattr", "-i", file]).status == 0)
        _ = try store.object(for: version(blocks: 3))
        store.commit()
        #expect(try isUnclean(store) == false && fixture.diskBytes == BlockSize.block)
        store.close()
        store = try fixture.open()
        #expect(try store.object(for: version(blocks: 3)).filledBlocks == [0])
        store.close()
    }

    /// No row covers the bytes any more, and the disk has them still: the next start or close tries again.
    @Test func aDiscardWhoseHoleFailsLeavesTheFileUnclean() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        defer { store.close() }
        do {
            let object = try store.fill(version(blocks: 4), 0..<4)
            store.commit()
            let readOnly = try Descriptor(try #require(fixture.objectFiles.first), O_RDONLY)
            let number = dup2(readOnly.number, object.file.descriptor.number)
            try #require(number >= 0)
            #expect(throws: CacheError.system("fallocate", EBADF)) { try object.discard(1..<2) }
        }
        store.commit()
        #expect(store.files.all.isEmpty && fixture.diskBytes == 4 * BlockSize.block)
        let isUnclean = try store.index.read { (index) throws(CacheError) in
            try index.first("SELECT unclean FROM objects") { $0.flag(0) }
        }
        #expect(isUnclean == true)
    }

    @Test func aCommitThatWasNotToBeDurableMakesNoLaterOneSo() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        func level() throws -> Int64? {
            try store.index.write { (index) throws(CacheError) in
                try index.first("PRAGMA synchronous") { $0.integer(0) }
            }
        }
        // As `unsynced` leaves it where the second change of the level fails.
        try store.index.write { (index) throws(CacheError) in
            try index.run("PRAGMA synchronous=NORMAL")
            index.isSynchronous = false
        }
        #expect(try level() == 2)
        store.close()
    }

    @Test func manyClosedFilesAreTidiedAtOnce() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let objects = try (0..<Committer.mostClosed).map { try store.object(for: version("\($0)", blocks: 1)) }
        // The same parts with a thread that does not run.
        let files = DataFiles(try CacheDirectory(fixture.directory + "/other", owner: ""), isWritable: true)
        let evictor = Evictor(
            index: store.index, files: files, quota: store.quota, disk: store.disk, clock: store.evictor.clock,
            commits: StoreThread("committer"), age: nil, reached: { _ in }, memory: MemoryAccount(isEncrypted: false))
        let committer = Committer(
            store.index, files, Metadata(store.index, evictor.commits, { _ in }), evictor, store.verified)
        let shared = ObjectStore(evictor, committer, store.verified)
        for object in objects.dropLast() { _ = files.object(object.file, shared) }
        // A file that is opened and closed again and again keeps one descriptor.
        for _ in 0..<Committer.mostClosed { _ = files.object(objects[0].file, shared) }
        #expect(try #require(evictor.commits.dueAt) > .zero)
        _ = files.object(objects[Committer.mostClosed - 1].file, shared)
        #expect(evictor.commits.dueAt == .zero)
        store.close()
    }

    @Test func aUseThatCouldNotBeWrittenIsWrittenWithTheNextCommit() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        defer { store.close() }
        store.committer.stop()
        let object = try store.fill(version(blocks: 2), 0..<2)
        store.commit()
        func written() throws -> Int64? {
            try store.index.read { (index) throws(CacheError) in
                try index.first("SELECT last_use FROM extents") { $0.integer(0) }
            }
        }
        try store.index.write { (index) throws(CacheError) in
            try index.run("CREATE TRIGGER no BEFORE UPDATE ON extents BEGIN SELECT RAISE(ABORT, 'no'); END")
        }
        #expect(object.holds(0))
        let use = object.file.withBlocks { $0.states.lastUse(ofExtent: 0) }
        store.commit()
        let before = try written()
        try store.index.write { (index) throws(CacheError) in try index.run("DROP TRIGGER no") }
        store.commit()
        let after = try written()
        #expect(before != use && after == use)
    }

    /// A disk that turns read-only under a mount takes nothing for as long as that lives, and each file that stays has
    /// a descriptor.
    @Test func whereTheIndexTakesNothingManyClosedFilesLeaveAllTheSame() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        defer { store.close() }
        store.committer.stop()
        let all = (0...Committer.mostClosed).map { version("\($0)", blocks: 1, less: BlockSize.block - 100) }
        for version in all { try store.fill(version, [0]) }
        store.commit()
        try #require(store.files.all.isEmpty && store.usage.used == Int64(all.count) * 100)
        try store.index.write { (index) throws(CacheError) in
            for table in ["objects", "extents"] {
                try index.run(
                    "CREATE TRIGGER no_\(table) BEFORE UPDATE ON \(table) BEGIN SELECT RAISE(ABORT, 'no'); END")
            }
        }
        for version in all { #expect(try store.object(for: version).holds(0)) }
        try #require(store.files.idle.count == all.count)
        store.commit()
        #expect(store.failure != nil && store.files.all.isEmpty)
        try store.index.write { (index) throws(CacheError) in
            for table in ["objects", "extents"] { try index.run("DROP TRIGGER no_\(table)") }
        }
        // Nothing is lost or counted twice.
        for version in all { #expect(try store.object(for: version).holds(0)) }
        store.commit()
        #expect(store.failure == nil && store.files.all.isEmpty)
        #expect(store.usage.used == Int64(all.count) * 100)
    }

    @Test func theCommitterWritesByItself() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let object = try store.object(for: version(blocks: 300))
        for block in 0..<257 {
            try object.fill(block)
        }
        // More than 32 MiB: at once, not after the interval.
        #expect(eventually { object.file.withBlocks { $0.states.durableBlocks } >= 256 })
        store.close()
    }

    @Test func closedFilesAreTidiedByTheCommitter() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        do {
            let object = try store.object(for: version(blocks: 2))
            try object.put(0)
            #expect(store.usage.used == (fixture.isEncrypted ? 0 : BlockSize.block))
        }
        #expect(eventually { store.objects().isEmpty && fixture.objectFiles.isEmpty })
        #expect(store.usage.used == 0)
        store.close()
    }

    @Test func theSameInstanceIsGivenWhileOneLives() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let one = try store.object(for: version(blocks: 2))
        #expect(try store.object(for: version(blocks: 2)) === one)
        #expect(try store.object(for: version(tag: "2", blocks: 2)) !== one)
        #expect(try store.object(for: version(blocks: 3)) !== one)
        #expect(throws: CacheError.badLength) { try store.object(for: version(blocks: -1)) }
        store.close()
    }

    @Test func aDiscardWhoseRowsCannotBeWrittenLeavesTheBytes() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let object = try store.fill(version(blocks: 4), [0, 1, 2, 3])
        store.commit()
        let other = try IndexConnection(fixture.index)
        try other.run("ALTER TABLE extents RENAME TO elsewhere")
        #expect(throws: CacheError.self) { try object.discard(1..<3) }
        for block in 0..<4 { #expect(object.holds(block)) }
        #expect(store.usage.used == 4 * BlockSize.block)

        try other.run("ALTER TABLE elsewhere RENAME TO extents")
        try object.discard(1..<3)
        #expect(store.usage.used == 2 * BlockSize.block)
        #expect(fixture.diskBytes == 2 * BlockSize.block)
        // Durable without a commit.
        let word = try other.first("SELECT word FROM extents") { $0.integer(0) }
        #expect(word == 0b1001)
        store.close()
    }

    @Test func theListenerToTheDiskIsCalledUnderNoLockOfTheIndex() throws {
        let fixture = Fixture()
        let listener = Listener()
        let store = try Store(
            directory: fixture.source, source: "s", limits: CacheLimits(cap: 1 << 30), owner: "/m",
            watch: { _ in listener.hear() }, measure: { _ in nil })
        listener.store = store
        let object = try store.fill(version(blocks: 2), [0, 1])
        store.commit()
        let other = try IndexConnection(fixture.index)
        try other.run("ALTER TABLE extents RENAME TO elsewhere")
        #expect(throws: CacheError.self) { try object.discard(0..<1) }
        #expect(listener.calls == 1 && store.failure != nil)
        try other.run("ALTER TABLE elsewhere RENAME TO extents")
        store.set("name", "value")
        store.commit()
        #expect(listener.calls == 2 && store.failure == nil)
        #expect(try store.pins() == [ExactText("1"), ExactText("2")])
        listener.store = nil
        store.close()
    }

    @Test func whatASyncCouldNotSaveIsReadAndNeverClaimed() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        let wanted = version(blocks: 4)
        do {
            let object = try store.fill(wanted, [0])
            store.commit()
            try store.fill(wanted, [1])
            // What the committer does when fdatasync fails.
            object.file.withBlocks { $0.loseUnsynced() }
            store.disk.failed(.system("fdatasync", EIO))
            for block in 0..<2 { #expect(object.holds(block)) }
            // The page cache has lost it.
            try object.file.descriptor.punch(BlockSize.block, BlockSize.block)
            #expect(object.bytes(of: 1).isEmpty)
            #expect(object.filledBlocks == [0] && object.holds(0))
            // Meanwhile what comes stays in memory.
            try object.fill(2)
            #expect(object.isInMemory && object.holds(2) && store.usage.used == BlockSize.block)
        }
        store.close()
        store = try fixture.open()
        #expect(try store.object(for: wanted).filledBlocks == [0])
        store.close()
    }

    @Test func abandonedBlocksLeaveNeitherBytesNorRoom() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let object = try store.fill(version(blocks: 4, less: 7), [0])
        try object.put(3)
        #expect(store.usage.used == (fixture.isEncrypted ? BlockSize.block : 2 * BlockSize.block - 7))
        try object.abandonFragments()
        #expect(store.usage.used == BlockSize.block)
        store.commit()
        #expect(fixture.diskBytes == BlockSize.block)
        store.close()
    }

    /// A version with an open end of which these bytes came.
    private func grown(_ store: Store, _ bytes: [UInt8], piece: Int) throws -> CacheObject {
        let validator = Validator(entityTag: nil, lastModified: 5)
        let object = try store.object(for: Version(key: "k", validator: validator, length: BlockSize.openEnd))
        for start in stride(from: 0, to: bytes.count, by: piece) {
            try bytes[start..<min(bytes.count, start + piece)].withUnsafeBufferPointer { (part) throws(CacheError) in
                try object.write(UnsafeRawBufferPointer(part), at: Int64(start))
            }
        }
        return object
    }

    @Test func aVersionWithAnOpenEndBecomesAnOrdinaryOne() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        let text = content(0, 300_000)
        let wanted = Version(key: "k", validator: Validator(entityTag: nil, lastModified: 5), length: 300_000)
        do {
            let object = try grown(store, text, piece: 1000)
            // An encrypted block is on the disk once it is whole.
            #expect(store.usage.used == (fixture.isEncrypted ? 2 : 3) * BlockSize.block)
            #expect(object.length == BlockSize.openEnd)
            store.commit()
            #expect(store.information(for: "k") == nil && store.objects().map(\.length) == [nil])
            #expect(object.record(length: 300_000))
            #expect(try store.object(for: wanted) === object)
            object.settle(length: 300_000)
            #expect(object.file.isComplete && object.version == wanted && store.usage.used == 300_000)
            #expect(object.bytes(of: 2) == Array(text[262_144...]))
        }
        store.close()

        store = try fixture.open()
        let object = try store.object(for: wanted)
        #expect(object.file.isComplete && object.bytes(of: 1) == Array(text[131_072..<262_144]))
        #expect(store.usage.used == 300_000)
        store.close()
    }

    @Test func aVersionWithAnOpenEndTakesThePlaceOfAnotherOfItsLength() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let wanted = Version(key: "k", validator: Validator(entityTag: nil, lastModified: 5), length: 300_000)
        let old = try store.fill(wanted, 0..<3)
        let object = try grown(store, content(0, 300_000), piece: 70_000)
        #expect(object.record(length: 300_000))
        object.settle(length: 300_000)
        #expect(try store.object(for: wanted) === object && old.file.isComplete)
        store.commit()
        #expect(fixture.objectFiles.count == 2)
        store.close()
    }

    /// Neither a crash while it grows nor one before the commit that follows its end leaves anything.
    @Test(arguments: [false, true]) func aCrashLeavesNothingOfAnOpenEnd(isSettled: Bool) throws {
        let fixture = Fixture()
        let store = try fixture.open()
        store.committer.stop()
        let object = try grown(store, content(0, 300_000), piece: 100_000)
        if isSettled {
            #expect(object.record(length: 300_000))
            object.settle(length: 300_000)
        } else {
            store.commit()
        }
        let image = try fixture.crashImage(of: store)
        #expect(image.objectFiles.count == 1)
        let second = try image.open()
        second.commit()
        #expect(image.objectFiles.isEmpty && second.usage.used == 0 && second.objects().isEmpty)
        second.close()
        store.close()
    }

    @Test func aVersionWithAnOpenEndThatIsDroppedLeavesNothing() throws {
        let fixture = Fixture()
        let store = try fixture.open(cap: 2 * BlockSize.block)
        do {
            let bytes = content(0, 3 * BlockSize.block)
            let object = try grown(store, Array(bytes[..<(2 * Int(BlockSize.block))]), piece: bytes.count)
            #expect(!object.isInMemory)
            // What comes once cannot make way: the rest goes through memory.
            try object.fill(2)
            #expect(object.isInMemory && object.filledBytes == 3 * BlockSize.block)
            var whole = bytes
            #expect(whole.withUnsafeMutableBytes { object.read(into: $0, at: 0) } == .bytes(whole.count))
            #expect(whole[..<(2 * Int(BlockSize.block))] == bytes[..<(2 * Int(BlockSize.block))])
            #expect(try store.evict(key: "k") == 0)
            #expect(!object.record(length: 3 * BlockSize.block))
            object.settle(length: 3 * BlockSize.block)
            #expect(object.file.isComplete)
        }
        store.commit()
        #expect(fixture.objectFiles.isEmpty && store.usage.used == 0 && store.bytesInMemory == 0)
        store.close()
    }
}
