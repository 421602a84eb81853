import CSQLite
import Glibc
import ReelCore
import TestKit
import Testing

@testable import ReelCache

/// The cache directory's content is not trusted.
@Suite(.plainAndEncrypted) struct DistrustTests {
    enum Harm: CaseIterable, Sendable {
        case truncated, emptied, grown, missing, linked, directory, pipe, holed, truncatedAndGrown, flipped, replaced
    }

    /// Does it to the file at `path`, of four blocks.
    private func harm(_ path: String, _ harm: Harm, _ fixture: Fixture) throws {
        switch harm {
        case .truncated: truncate(path, Int(BlockSize.block) + 1000)
        case .emptied: truncate(path, 0)
        case .grown: truncate(path, 1 << 20)
        case .missing: unlink(path)
        case .linked:
            rename(path, fixture.directory + "/elsewhere")
            symlink(fixture.directory + "/elsewhere", path)
        case .directory:
            unlink(path)
            mkdir(path, 0o700)
        case .pipe:
            unlink(path)
            mkfifo(path, 0o600)
        case .holed:
            let file = try Descriptor(path, O_RDWR)
            try file.punch(2 * BlockSize.block, 4096)
        case .truncatedAndGrown:
            truncate(path, 0)
            truncate(path, Int(4 * BlockSize.block))
        case .flipped:
            try Descriptor(path, O_RDWR).invert(BlockSize.block + 77)
        case .replaced:
            let file = try Descriptor(path, O_RDWR)
            for block in 0..<4 {
                try content(block, BlockSize.block, salt: 9).withUnsafeBytes {
                    try file.write($0, at: Int64(block) * BlockSize.block)
                }
            }
        }
    }

    /// Reads every block as the program does. - Returns: blocks that had to be written again.
    private func readAll(_ object: CacheObject) throws -> [Int] {
        var bad: Set<Int> = []
        for block in 0..<4 {
            while object.file.isFilled(block) {
                let (answer, bytes) = object.read(block)
                guard case .damaged(let blocks) = answer else {
                    #expect(bytes == content(block, BlockSize.block))
                    break
                }
                bad.formUnion(blocks.joined())
            }
            if !object.file.isFilled(block) {
                bad.insert(block)
                try object.fill(block)
            }
        }
        for block in 0..<4 { #expect(object.holds(block)) }
        return bad.filter { $0 < 4 }.sorted()
    }

    /// ext4 counts too few for a moment while it writes pages back.
    @Test(.tags(.plainOnly)) func tooFewBlocksAreALossOnlyWhereThereAreHoles() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        defer { store.close() }
        let object = try store.fill(version(blocks: 4), 0..<4)
        let (file, length) = (object.file, object.version.length)
        // No disk counts this many blocks for this file.
        let tooMany: Int64 = 1 << 40
        for _ in 0..<63 { #expect(!file.hasLostBytes(of: tooMany)) }
        #expect(!file.hasLostBytes(of: length))
        for _ in 0..<63 { #expect(!file.hasLostBytes(of: tooMany)) }
        store.commit()
        #expect(object.offer() != nil)
        object.settle()
        try file.descriptor.punch(BlockSize.block, 4096)
        #expect(file.hasLostBytes(of: length))
        #expect(object.offer() == nil)
    }

    @Test(arguments: Harm.allCases) func ofADamagedDataFileOnlyTheBadBlocksAreFetchedAgain(_ harm: Harm) throws {
        let fixture = Fixture()
        let wanted = version(blocks: 4)
        var store = try fixture.open()
        try store.fill(wanted, 0..<4)
        store.close()
        try self.harm(try #require(fixture.objectFiles.first), harm, fixture)

        store = try fixture.open()
        let expected: [Int] =
            switch harm {
            case .grown: []
            case .flipped: [1]
            case .holed: [2]
            case .truncated: [1, 2, 3]
            default: [0, 1, 2, 3]
            }
        #expect(try readAll(try store.object(for: wanted)) == expected)
        #expect(store.usage.used == 4 * BlockSize.block)
        store.close()
        store = try fixture.open()
        #expect(try readAll(try store.object(for: wanted)).isEmpty)
        store.close()
    }

    @Test(arguments: Harm.allCases) func aFileThatIsDamagedWhileItIsReadGivesRightBytes(_ harm: Harm) throws {
        let fixture = Fixture()
        let wanted = version(blocks: 6)
        var store = try fixture.open()
        try store.fill(wanted, 0..<4)
        store.close()
        store = try fixture.open()
        let object = try store.object(for: wanted)
        try self.harm(try #require(fixture.objectFiles.first), harm, fixture)
        // A write behind what was cut makes the file long again.
        let last = object.file.bytes(of: 5)
        try content(5, last.count).withUnsafeBytes { try object.write($0, at: last.lower) }
        _ = try readAll(object)
        #expect(object.holds(5))
        store.close()
    }

    @Test(.tags(.plainOnly)) func aCutUnderTheReaderIsNoticedThoughTheBlocksWereVerified() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let object = try store.fill(version(blocks: 6), 0..<4)
        try object.put(4)
        for block in 0..<4 { #expect(object.holds(block)) }
        truncate(try #require(fixture.objectFiles.first), 0)
        let range = object.file.bytes(of: 5)
        try content(5, range.count).withUnsafeBytes { try object.write($0, at: range.lower) }
        #expect(object.file.withBlocks { table in (0..<5).allSatisfy { table[$0] == .empty } })
        #expect(object.holds(5))
        #expect(try readAll(object) == [0, 1, 2, 3])
        store.close()
    }

    @Test(arguments: ["cut and grown", "holed"]) func holesUnderTheReaderAreNoticedThoughTheBlocksWereVerified(
        _ harm: String
    ) throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let object = try store.fill(version(blocks: 6), 0..<4)
        for block in 0..<4 { #expect(object.holds(block)) }
        let path = try #require(fixture.objectFiles.first)
        if harm == "holed" {
            try Descriptor(path, O_RDWR).punch(BlockSize.block, 2 * BlockSize.block)
        } else {
            truncate(path, Int(BlockSize.block))
            truncate(path, Int(6 * BlockSize.block))
        }
        #expect(object.offer() == nil)
        #expect(try readAll(object) == (harm == "holed" ? [1, 2] : [1, 2, 3]))
        store.close()
    }

    @Test(.tags(.plainOnly)) func aHoleWhereABlockWasWrittenInPartIsNotReadAsZeros() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let object = try store.fill(version(blocks: 6), 0..<4)
        try object.put(4)
        #expect(object.holds(4))
        let data = try Descriptor(try #require(fixture.objectFiles.first), O_RDWR)
        try data.punch(3 * BlockSize.block, 2 * BlockSize.block)
        #expect(object.damaged(4) == [4] && object.damaged(3) == [3])
        store.close()
    }

    /// A filesystem that cannot write dirty pages back may drop them, and reports it only at the next sync. Until then
    /// zeros are read, where blocks of the disk are taken all the same.
    @Test(.tags(.plainOnly)) func whatThePageCacheLosesBeforeASyncIsNotReadAsZeros() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        store.committer.stop()
        let object = try store.fill(version(blocks: 6), 0..<4)
        try object.put(4)
        for block in 0..<4 { #expect(object.holds(block)) }
        let data = try Descriptor(try #require(fixture.objectFiles.first), O_RDWR)
        let zeros = [UInt8](repeating: 0, count: Int(5 * BlockSize.block) - 4096)
        try zeros.withUnsafeBytes { try data.write($0, at: 4096) }
        for block in 0..<4 { #expect(object.damaged(block) == [block]) }
        // A block that is not whole is looked at piece by piece.
        #expect(object.damaged(4) == [4])
        store.close()
    }

    @Test(.tags(.plainOnly)) func whatThePageCacheLosesOfAVersionWithAnOpenEndIsNotReadAsZeros() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        let validator = Validator(entityTag: nil, lastModified: 5)
        let object = try store.object(for: Version(key: "k", validator: validator, length: BlockSize.openEnd))
        let bytes = content(0, 5 * BlockSize.block / 2)
        try bytes.withUnsafeBytes { try object.write($0, at: 0) }
        // No commit vouches for it.
        store.commit()
        let data = try Descriptor(try #require(fixture.objectFiles.first), O_RDWR)
        func read(_ count: Int, at offset: Int64) -> CacheRead {
            var buffer = [UInt8](repeating: 0, count: count)
            let answer = buffer.withUnsafeMutableBytes { object.read(into: $0, at: offset) }
            if answer == .bytes(count) { #expect(buffer[...] == bytes[Int(offset)...].prefix(count)) }
            return answer
        }
        #expect(read(bytes.count, at: 0) == .bytes(bytes.count) && read(10, at: 2 * BlockSize.block + 7) == .bytes(10))
        #expect(read(bytes.count + 1, at: 0) == .missing)
        try [UInt8](repeating: 0, count: 4096).withUnsafeBytes {
            try data.write($0, at: BlockSize.block)
            try data.write($0, at: 2 * BlockSize.block)
        }
        #expect(read(Int(BlockSize.block), at: 0) == .bytes(Int(BlockSize.block)))
        #expect(read(10, at: 2 * BlockSize.block - 5) == .damaged([1..<2, 2..<3]))
        #expect(read(10, at: 2 * BlockSize.block + 4096) == .missing)
        store.close()
    }

    /// A disk that is smaller than it says: what the page cache took is gone as soon as it is written back.
    @Test(.enabled(if: geteuid() == 0, "only root can mount a disk"))
    func aDiskThatFailsWhileItIsWrittenLosesNothingInSilence() throws {
        let fixture = Fixture()
        let disk = try fixture.disk(.ext4, megabytes: 48, backed: 12)
        defer { disk.end() }
        let store = try fixture.open()
        // What it would report is not known yet.
        store.committer.stop()
        let object = try store.object(for: version(blocks: 160))
        for block in 0..<160 {
            // More than memory has room for as well.
            guard (try? object.fill(block)) != nil else { break }
        }
        // Fails, as the disk does; then the kernel wants its memory back.
        _ = try ChildProcess.run(["sync", "-f", fixture.source], within: .seconds(240))
        try Descriptor(try #require(fixture.objectFiles.first), O_RDONLY).dropPages(ByteRange(0, 160 * BlockSize.block))
        #expect(object.filledBlocks.count > 96)
        let damaged = object.filledBlocks.filter { object.damaged($0) == [$0] }
        for block in object.filledBlocks where !damaged.contains(block) { #expect(object.holds(block)) }
        #expect(!damaged.isEmpty)
        store.close()
    }

    @Test(arguments: ["pipe", "directory", "link"]) func whatIsNoIndexInItsPlaceIsSetAside(_ harm: String) throws {
        let fixture = Fixture()
        try fixture.open().close()
        unlink(fixture.index)
        switch harm {
        case "pipe": mkfifo(fixture.index, 0o600)
        case "directory": mkdir(fixture.index, 0o700)
        default: symlink("/dev/null", fixture.index)
        }
        let store = try fixture.open()
        #expect(store.isWritable)
        #expect(entryNames(in: fixture.source).contains("index.sqlite.damaged-1"))
        store.close()
    }

    @Test func anIndexThatIsMarkedAsDamagedMayBeGone() throws {
        let fixture = Fixture()
        try fixture.open().close()
        let mark = fixture.index + ".is-damaged"
        unlink(fixture.index)
        close(creat(mark, 0o600))
        for _ in 0..<2 {
            let store = try fixture.open()
            #expect(store.isWritable && status(mark) == nil)
            store.close()
        }
    }

    @Test func aBlockWhoseChecksumIsDamagedIsFetchedAgainOnce() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        try store.fill(version(blocks: 4), 0..<4)
        store.close()
        try IndexConnection(fixture.index).run("UPDATE extents SET sums = zeroblob(512)")
        store = try fixture.open()
        #expect(try readAll(try store.object(for: version(blocks: 4))) == [0, 1, 2, 3])
        store.close()
        store = try fixture.open()
        #expect(try readAll(try store.object(for: version(blocks: 4))).isEmpty)
        store.close()
    }

    @Test(arguments: ["garbage", "header", "other tables"]) func aDamagedIndexIsSetAside(_ harm: String) throws {
        let fixture = Fixture()
        var store = try fixture.open()
        try store.fill(version(blocks: 2), 0..<2)
        store.close()
        switch harm {
        case "other tables":
            try IndexConnection(fixture.index).run(
                "CREATE TRIGGER t AFTER INSERT ON objects BEGIN DELETE FROM objects; END")
        default:
            let index = try Descriptor(fixture.index, O_RDWR)
            let garbage = content(3, harm == "header" ? 100 : 60_000)
            try garbage.withUnsafeBufferPointer { (bytes) throws(CacheError) in
                try index.write(UnsafeRawBufferPointer(bytes), at: 0)
            }
        }
        store = try fixture.open()
        #expect(entryNames(in: fixture.source).contains("index.sqlite.damaged-1"))
        #expect(store.usage.used == 0)
        #expect(try store.object(for: version(blocks: 2)).filledBlocks.isEmpty)
        // The old data file has no row any more.
        #expect(eventually { fixture.objectFiles.count <= 1 })
        store.close()
    }

    @Test func oneIndexIsKeptAsideAndCountsIntoTheCap() throws {
        let fixture = Fixture()
        func asides() -> [String] { entryNames(in: fixture.source).filter { $0.contains("damaged") }.sorted() }
        func damage(_ size: Int64) throws {
            let index = try Descriptor(fixture.index, O_RDWR | O_CREAT | O_TRUNC)
            let garbage = content(3, size)
            try garbage.withUnsafeBufferPointer { (bytes) throws(CacheError) in
                try index.write(UnsafeRawBufferPointer(bytes), at: 0)
            }
        }
        try fixture.open().close()
        // Earlier ones go, whatever they are.
        mkdir(fixture.index + ".damaged-1", 0o700)
        for name in [".damaged-1/file", ".damaged-2", ".damaged-2-wal"] { close(creat(fixture.index + name, 0o600)) }
        try damage(1 << 20)
        var store = try fixture.open()
        #expect(asides() == ["index.sqlite.damaged-1"])
        #expect(sizeOnDisk(ofIndex: fixture.index) >= 1 << 20)
        store.close()
        // It stays as long as it takes a sixteenth of the cap at most.
        store = try fixture.open(cap: 17 << 20)
        #expect(asides() == ["index.sqlite.damaged-1"])
        store.close()
        store = try fixture.open(cap: 15 << 20)
        #expect(asides().isEmpty)
        store.close()
    }

    @Test func damageMetWhileRunningIsSetAsideAtTheNextStart() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        store.set("kind", "listing")
        try store.fill(version(blocks: 2), 0..<2)
        store.close()
        // The first page, which holds the schema, stays.
        let size = try #require(status(fixture.index)).st_size
        let index = try Descriptor(fixture.index, O_RDWR)
        let garbage = content(3, Int64(size) - 4096)
        try garbage.withUnsafeBufferPointer { (bytes) throws(CacheError) in
            try index.write(UnsafeRawBufferPointer(bytes), at: 4096)
        }
        // Whether a start meets the damage depends on which pages it reads; the second one finds all well.
        store = try fixture.open()
        _ = store.setting("kind")
        store.close()
        store = try fixture.open()
        #expect(store.setting("kind") == nil)
        #expect(entryNames(in: fixture.source).contains("index.sqlite.damaged-1"))
        store.set("kind", "file")
        store.close()
        store = try fixture.open()
        #expect(store.setting("kind") == "file")
        store.close()
    }

    @Test(.tags(.plainOnly)) func anIndexOfANewerProgramIsReadByNobodyAndLeftAsItIs() throws {
        let fixture = Fixture()
        try fixture.open().close()
        try IndexConnection(fixture.index).run("PRAGMA user_version=7")
        let store = try fixture.open()
        #expect(store.failure == .newerIndex(found: 7, known: Schema.version))
        let object = try store.fill(version(blocks: 2), 0..<2)
        #expect(object.holds(0) && object.isInMemory)
        store.close()
        #expect(try IndexConnection(fixture.index).first("PRAGMA user_version") { $0.integer(0) } == 7)
        #expect(!entryNames(in: fixture.source).contains("index.sqlite.damaged-1"))
    }

    /// On a read-only disk SQLite cannot make the file that has the log's index, nor here in the place of a link.
    @Test func anIndexThatCannotBeWrittenIsReadWithItsLog() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        try store.fill(version("a", blocks: 1), [0])
        store.close()
        store = try fixture.open()
        try store.fill(version("b", blocks: 1), [0])
        store.commit()
        let image = try fixture.crashImage(of: store)
        store.close()
        try #require(symlink("/dev/null", image.index + "-shm") == 0)
        let log = try #require(status(image.index + "-wal")).st_size
        let copy = try IndexConnection(inMemory: ())
        try copy.copy(image.index)
        let count = try copy.first("SELECT count(*) FROM objects") { $0.integer(0) }
        #expect(count == 2)
        #expect(log > 0 && status(image.index + "-wal")?.st_size == log)
    }

    /// What a command would change is a copy in memory.
    @Test(.tags(.plainOnly)) func whereNothingIsWrittenNothingIsPinnedOrFreed() throws {
        let fixture = Fixture()
        try fixture.open().close()
        try IndexConnection(fixture.index).run("PRAGMA user_version=7")
        let store = try fixture.open()
        let failure = CacheError.newerIndex(found: 7, known: Schema.version)
        #expect(throws: failure) { try store.pin(["a"]) }
        #expect(throws: failure) { try store.pin(["a"], false) }
        #expect(throws: failure) { try store.evict(key: "a") }
        store.close()
    }

    /// A program that knows version 2 only would take a mirror's number for a weak tag.
    @Test(.tags(.plainOnly)) func anIndexOfVersionTwoIsTakenOverAndOlderProgramsLeaveItAloneFromThenOn() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        try store.fill(version(blocks: 2), 0..<2)
        store.close()
        try IndexConnection(fixture.index).run("PRAGMA user_version=2")
        #expect(throws: CacheError.plain) {
            let cipher = CacheCipher(master: SecretBytes(count: 32))
            _ = try openIndex(fixture.index, cipher)
        }
        for _ in 0..<2 {
            store = try fixture.open()
            #expect(try store.object(for: version(blocks: 2)).holds(1) && store.failure == nil)
            store.close()
        }
        // Beyond the highest number that any older program knows, that of an encrypted index.
        #expect(try IndexConnection(fixture.index).first("PRAGMA user_version") { $0.integer(0) } == 5)
        #expect(!entryNames(in: fixture.source).contains("index.sqlite.damaged-1"))
    }

    @Test func anIndexOfAnOlderFormatIsSetAside() throws {
        let fixture = Fixture()
        try fixture.open().close()
        try IndexConnection(fixture.index).run("PRAGMA user_version=1")
        try fixture.open().close()
        #expect(entryNames(in: fixture.source).contains("index.sqlite.damaged-1"))
    }

    @Test(.tags(.plainOnly)) func numbersOfTheIndexAreNotBelieved() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        try store.fill(version("a", blocks: 2), 0..<2)
        try store.fill(version("b", blocks: 2), 0..<2)
        try store.fill(version("c", blocks: 2), 0..<1)
        store.close()
        let index = try IndexConnection(fixture.index)
        try index.run("UPDATE objects SET cached = 9223372036854775807, last_use = 9223372036854775807")
        try index.run("UPDATE objects SET length = 9223372036854775807 WHERE key = CAST('b' AS BLOB)")
        try index.run("UPDATE extents SET word = -1, last_use = \(Int64.min)")
        store = try fixture.open()
        #expect(store.usage.used == 4 * BlockSize.block)
        try store.order(["b"], goesFirst: true)
        #expect(try store.object(for: version("a", blocks: 2)).holds(1))
        // Its second block is a hole, whatever the row says.
        let object = try store.object(for: version("c", blocks: 2))
        #expect(object.holds(0) && object.bytes(of: 1).isEmpty)
        object.lose([1..<2])
        #expect(store.usage.used == 3 * BlockSize.block)
        store.close()
    }

    @Test func placesAndSumsOfTheIndexAreNotBelieved() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        for tag in ["1", "2"] { try store.fill(version("a", tag: tag, blocks: 130), [0, 64]) }
        store.close()
        let index = try IndexConnection(fixture.index)
        try index.run("UPDATE objects SET cached = 9223372036854775807")
        for extent in ["9223372036854775807", "-9223372036854775808", "-1", "1000000000"] {
            try index.run("INSERT INTO extents SELECT object, \(extent), -1, sums, 0, 0 FROM extents WHERE extent = 0")
        }
        store = try fixture.open()
        let length = 130 * BlockSize.block
        #expect(store.cachedBytes(of: "a") == 2 * length)
        #expect(try store.prune(freeing: BlockSize.block) > 0)
        for tag in ["1", "2"] {
            let object = try store.object(for: version("a", tag: tag, blocks: 130))
            #expect(object.filledBlocks.allSatisfy { object.holds($0) })
        }
        store.close()
    }

    @Test func leftoversGoAndStrangersStay() throws {
        let fixture = Fixture()
        var store = try fixture.open()
        try store.fill(version(blocks: 1), [0])
        store.close()
        let kept = try #require(fixture.objectFiles.first)
        let objects = fixture.source + "/objects"
        let leftover = "ab" + String(repeating: "0", count: 30)
        let strangers = ["readme", leftover.uppercased(), leftover + "0", "cd" + String(repeating: "0", count: 30)]
        mkdir(objects + "/ab", 0o700)
        for name in strangers + [leftover] { close(creat(objects + "/ab/" + name, 0o600)) }
        store = try fixture.open()
        store.commit()
        #expect(fixture.objectFiles.sorted() == (strangers.map { objects + "/ab/" + $0 } + [kept]).sorted())
        store.close()
    }

    @Test func aSecondOpenerIsToldWhoHoldsTheDirectory() throws {
        let fixture = Fixture()
        let store = try fixture.open(owner: "/mnt/my films")
        #expect(throws: CacheError.inUse(by: "/mnt/my films")) { try fixture.open(owner: "/elsewhere") }
        store.close()
        try fixture.open().close()
    }

    @Test(.tags(.plainOnly)) func anotherSourceIsRefusedAndSecretsAreNotWritten() throws {
        let fixture = Fixture()
        let source = "http://user:secret@h/films/?token=hidden"
        try Store(directory: fixture.source, source: source, limits: CacheLimits(cap: 1), owner: "/m").close()
        #expect(throws: CacheError.otherSource) { try fixture.open() }
        let text = try IndexConnection(fixture.index).first("SELECT value FROM meta") { $0.text(0) }
        #expect(text == "http://h/films/?…")
    }

    @Test func aSourceThatIsDamagedInTheIndexOfItsOwnDirectoryIsADamagedIndex() throws {
        let fixture = Fixture()
        let (source, cipher) = ("http://h/films/", fixture.isEncrypted ? fixture.cipher : nil)
        let path = fixture.directory + "/" + (cipher?.directoryName(source) ?? sourceDirectoryName(source))
        func open() throws -> Store {
            try Store(directory: path, source: source, limits: CacheLimits(cap: 1 << 30), owner: "", cipher: cipher)
        }
        try open().close()
        try IndexConnection(path + "/" + "index.sqlite").run(
            "UPDATE meta SET value = 'http://h/filns/' WHERE name = 'source'", [])
        try open().close()
    }

    @Test(arguments: ["link", "another user's"]) func aSourcesDirectoryOfSomebodyElseIsRefused(_ kind: String) throws {
        let fixture = Fixture()
        try fixture.open().close()
        if kind == "link" {
            let elsewhere = fixture.directory + "/elsewhere"
            try #require(rename(fixture.source, elsewhere) == 0 && symlink(elsewhere, fixture.source) == 0)
        } else {
            guard geteuid() == 0 else { return }
            try #require(chown(fixture.source, 61_234, 61_234) == 0)
        }
        #expect(throws: CacheError.strangeDirectory) { try fixture.open() }
    }

    @Test func filesAreForTheirOwnerOnly() throws {
        let fixture = Fixture()
        let store = try fixture.open()
        try store.fill(version(blocks: 1), [0])
        store.commit()
        #expect(status(fixture.source)?.st_mode == S_IFDIR | 0o700)
        #expect(status(fixture.source + "/objects")?.st_mode == S_IFDIR | 0o700)
        for name in ["lock", "index.sqlite", "index.sqlite-wal"] {
            #expect(status(fixture.source + "/" + name)?.st_mode == S_IFREG | 0o600, "\(name)")
        }
        #expect(status(fixture.objectFiles[0])?.st_mode == S_IFREG | 0o600)
        for name in entryNames(in: "/proc/self/fd") {
            guard let number = Int32(name), let target = destination("/proc/self/fd/" + name),
                target.hasPrefix(fixture.source)
            else { continue }
            #expect(fcntl(number, F_GETFD) & FD_CLOEXEC != 0, "\(target)")
        }
        store.close()
    }
}

private func destination(_ link: String) -> String? {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = bytes.withUnsafeMutableBytes { readlink(link, $0.baseAddress!, 4096) }
    return count < 0 ? nil : String(decoding: bytes.prefix(count), as: UTF8.self)
}
