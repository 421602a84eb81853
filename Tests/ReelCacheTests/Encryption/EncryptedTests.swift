import Glibc
import ReelCore
import TestKit
import Testing

@testable import ReelCache

/// What an encrypted cache promises beyond what tests with `plainAndEncrypted` show.
struct EncryptedTests {
    private let file = version("http://secret.host/Hidden-Title.mkv", tag: "validator-1", blocks: 3, less: 1000)

    private func exchange(_ path: String, _ change: (UnsafeMutableRawBufferPointer) -> Void) throws {
        let descriptor = try Descriptor(path, O_RDWR)
        var bytes = [UInt8](repeating: 0, count: Int(try descriptor.status().st_size))
        try bytes.withUnsafeMutableBytes { bytes in
            #expect(descriptor.read(into: bytes, at: 0) == bytes.count)
            change(bytes)
            try descriptor.write(UnsafeRawBufferPointer(bytes), at: 0)
        }
    }

    @Test func noEightBytesOfAFilmNorAnyNameAreOnTheDisk() throws {
        let fixture = Fixture(isEncrypted: true)
        // Any eight bytes hold a part of "MARKMARK".
        let film = (0..<Int(file.length)).map { Array("MARK".utf8)[$0 % 4] }
        let marks = [
            "MARK", "ARKM", "RKMA", "KMAR", "secret.host", "Hidden", "Title", "validator", "Listed Name", "video/x-",
            "/mnt/films",
        ]
        let store = try fixture.open(owner: "/mnt/films")
        var images: [Fixture] = []
        let object = try store.object(for: file)
        for (number, piece) in stride(from: 0, to: film.count, by: 50_000).enumerated() {
            try film[piece..<min(piece + 50_000, film.count)].withUnsafeBytes { try object.write($0, at: Int64(piece)) }
            if number % 2 == 0 { images.append(try fixture.crashImage()) }
        }
        store.remember(
            ContentInformation(length: file.length, validator: file.validator, mediaType: "video/x-matroska"),
            for: file.key, checkedAt: 1)
        let entry = StoredEntry(
            name: "Listed Name.mkv", url: "http://secret.host/Listed%20Name.mkv", isDirectory: false)
        store.remember(
            StoredListing(entries: [entry], fetchedAt: 1, complete: true), for: "http://secret.host/")
        store.set("kind", "Title")
        try store.pin(["http://secret.host/pinned"])
        store.commit()
        images.append(try fixture.crashImage())
        // What a crash leaves is taken up, written again, and left again.
        for image in images {
            let store = try image.open(owner: "/mnt/films")
            store.commit()
            _ = try store.object(for: file)
        }
        store.close()
        for image in [fixture] + images {
            let words = marks.flatMap { ["-e", $0] } + [image.directory]
            let found = try ChildProcess.run(["grep", "-raobF"] + words, within: .seconds(60))
            // Four given bytes come by chance once in 4 GiB of noise; eight of the film would be several in a row.
            #expect(found.output.split(separator: "\n").count < 3, "\(found.output.prefix(300))")
            let names = try ChildProcess.run(["find", image.directory], within: .seconds(60)).output
            #expect(!names.contains("Hidden") && !names.contains("secret"))
        }
    }

    @Test func aFlippedBitAnywhereIsAMissAndNeverAWrongByte() throws {
        let original = Fixture(isEncrypted: true)
        let written = try original.open()
        try written.fill(file, 0..<3)
        written.close()
        var random = SeededGenerator()
        let hint: Comment = "seed \(random.seed)"
        for _ in 0..<40 {
            let image = try original.crashImage()
            let paths = [image.index, image.objectFiles[0], image.index + "-wal"]
            for path in paths where status(path)?.st_size ?? 0 > 0 {
                try exchange(path) { bytes in
                    let place = Int.random(in: 0..<bytes.count, using: &random)
                    bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                }
            }
            guard let store = try? image.open() else { continue }
            let object = try store.object(for: file)
            for block in object.filledBlocks {
                let bytes = object.bytes(of: block)
                #expect(bytes.isEmpty || bytes == content(block, object.file.bytes(of: block).count), hint)
            }
            store.close()
        }
    }

    /// Exchanges the ciphertexts of blocks, and the index's proofs of them too: the proofs hold for the place alone.
    @Test(arguments: ["within a file", "between files", "between versions"])
    func aBlockThatWasMovedIsAMiss(_ kind: String) throws {
        let fixture = Fixture(isEncrypted: true)
        var store = try fixture.open()
        let others = [
            "within a file": file, "between files": version("http://secret.host/b", blocks: 3, less: 1000),
            "between versions": version(file.key, tag: "validator-2", blocks: 3, less: 1000),
        ]
        let other = try #require(others[kind])
        try store.fill(file, 0..<3)
        if other != file { try store.fill(other, 0..<3) }
        store.close()
        let index = try IndexConnection(fixture.index)
        let size = BlockSum.sealedSize
        let rows = try index.all(
            "SELECT object, sums, lower(hex(file)) FROM extents, objects WHERE id = object ORDER BY 1"
        ) { ($0.integer(0), $0.bytes(1), $0.text(2)) }
        func path(_ name: String) -> String { fixture.source + "/objects/\(name.prefix(2))/\(name)" }
        var sums = rows.map(\.1)
        let block = Int(BlockSize.block)
        if other == file {
            try exchange(path(rows[0].2)) { bytes in
                for place in 0..<block { bytes.swapAt(place, place + block) }
            }
            for place in 0..<size { sums[0].swapAt(place, place + size) }
        } else {
            let data = try Descriptor(path(rows[0].2), O_RDONLY).withBytes(ByteRange(0, BlockSize.block)) { Array($0) }
            try exchange(path(rows[1].2)) { $0.copyBytes(from: data ?? []) }
            sums[1].replaceSubrange(0..<size, with: sums[0][0..<size])
        }
        for (row, sums) in zip(rows, sums) {
            try index.run("UPDATE extents SET sums = ? WHERE object = ?", [.bytes(sums), .integer(row.0)])
        }
        store = try fixture.open()
        let object = try store.object(for: other)
        let moved = other == file ? [0, 1] : [0]
        for number in moved { #expect(object.damaged(number) == [number]) }
        #expect(object.holds(2))
        store.close()
    }

    /// A row of an older copy of the index does not hold for newer data, nor older data for a newer row.
    @Test(arguments: ["index", "objects"]) func onePartOfAnOlderCopyIsAMiss(_ part: String) throws {
        let fixture = Fixture(isEncrypted: true)
        var store = try fixture.open()
        try store.fill(file, 0..<3)
        store.close()
        let older = try fixture.crashImage()
        store = try fixture.open()
        do {
            let object = try store.object(for: file)
            try object.discard(0..<3)
            try object.fill(0, salt: 1)
        }
        store.close()
        if part == "index" {
            unlink(fixture.index)
            try copy(older.index, to: fixture.index)
        } else {
            removeTree(fixture.source + "/objects")
            try copy(older.source + "/objects", to: fixture.source + "/")
        }
        store = try fixture.open()
        let object = try store.object(for: file)
        #expect(object.filledBlocks.contains(0) && object.damaged(0) == [0])
        store.close()
    }

    /// The row of one version says that it is another one.
    @Test func theValidatorOfAnotherRowIsNotBelieved() throws {
        let fixture = Fixture(isEncrypted: true)
        var store = try fixture.open()
        let newer = version(file.key, tag: "validator-2", blocks: 3, less: 1000)
        try store.fill(file, 0..<3)
        try store.fill(newer, 0..<1)
        store.close()
        let index = try IndexConnection(fixture.index)
        try index.run("UPDATE objects SET tag = (SELECT tag FROM objects ORDER BY id DESC LIMIT 1)")
        store = try fixture.open()
        #expect(try store.object(for: file).filledBlocks.isEmpty)
        #expect(try store.object(for: newer).filledBlocks == [0])
        store.close()
    }

    /// Whoever can write to the disk cannot make a film shorter.
    @Test func aLengthThatWasChangedIsNotBelieved() throws {
        let fixture = Fixture(isEncrypted: true)
        var store = try fixture.open()
        try store.fill(file, 0..<3)
        store.close()
        let index = try IndexConnection(fixture.index)
        try index.run("UPDATE objects SET length = ?", [.integer(2 * BlockSize.block)])
        try index.run("DELETE FROM resources")
        store = try fixture.open()
        #expect(store.information(for: file.key) == nil)
        let shorter = Version(key: file.key, validator: file.validator, length: 2 * BlockSize.block)
        for version in [shorter, file] { #expect(try store.object(for: version).filledBlocks.isEmpty) }
        store.close()
    }

    /// Version 3 of an encrypted index: the same except for what the sealed columns of `objects` belong to.
    @Test func anIndexOfTheFormatBeforeIsTakenOver() throws {
        let fixture = Fixture(isEncrypted: true)
        var store = try fixture.open()
        try store.fill(file, 0..<3)
        store.close()
        do {
            let index = try IndexConnection(fixture.index, fixture.cipher)
            let rows = try index.all("SELECT id, tag, lower(hex(file)) FROM objects") {
                ($0.integer(0), $0.bytes(1), $0.text(2))
            }
            for (id, sealed, name) in rows {
                let values = try #require(
                    fixture.cipher.open(sealed, of: "version \(name) \(file.length) \(file.key)"))
                let older = fixture.cipher.seal(values, of: "object \(name) \(file.key)")
                try index.run("UPDATE objects SET tag = ? WHERE id = ?", [.bytes(older), .integer(id)])
            }
            try index.run("PRAGMA user_version=3")
            #expect(rows.count == 1)
        }
        waitForStartingChildren()
        #expect(throws: CacheError.encrypted) { try Store(existing: fixture.source) }
        for _ in 0..<2 {
            store = try fixture.open()
            let object = try store.object(for: file)
            #expect((0..<3).allSatisfy { object.holds($0) } && store.failure == nil && store.damagedBlocks == 0)
            #expect(store.information(for: file.key)?.information.length == file.length)
            store.close()
        }
        #expect(try IndexConnection(fixture.index).first("PRAGMA user_version") { $0.integer(0) } == 4)
        #expect(!entryNames(in: fixture.source).contains("index.sqlite.damaged-1"))
    }

    /// Gives up blocks in part, but those that requests fill.
    private final class Filler: ObjectHolder {
        let object: CacheObject
        let filling: Range<Int>

        init(_ object: CacheObject, filling: Range<Int>) {
            (self.object, self.filling) = (object, filling)
            object.holder = self
        }

        func relinquish(_: [Range<Int>], scarce _: Int64?, evenPinned _: Bool) -> Int64 { 0 }

        func relinquishPart(_ block: Int, isScarce: Bool) {
            if !filling.contains(block) { try? object.discard(block..<block + 1) }
        }
    }

    /// Each connection is in the middle of a block, and readers that have gone elsewhere have left many more.
    @Test func blocksInPartMakeWayAndNoWriteFails() throws {
        let fixture = Fixture(isEncrypted: true)
        let store = try fixture.open()
        let (connections, all) = (ConnectionLimit.most, 1000)
        let object = try store.object(for: version("http://secret.host/b", blocks: all))
        let holder = Filler(object, filling: 0..<connections)
        let piece = content(0, 1000)
        for block in 0..<all {
            try piece.withUnsafeBytes { try object.write($0, at: Int64(block) * BlockSize.block) }
        }
        func isThere(_ block: Int) -> Bool {
            let start = Int64(block) * BlockSize.block
            return object.present.covers(ByteRange(start, start + 1000))
        }
        #expect(holder.filling.allSatisfy(isThere) && isThere(all - 1) && !isThere(connections))
        #expect(store.failure == nil && store.bytesInMemory <= 80 << 20 && store.usage.used == 0)
        store.close()
    }

    @Test func plainAndEncryptedNeverMix() throws {
        for isEncrypted in [false, true] {
            let fixture = Fixture(isEncrypted: isEncrypted)
            let store = try fixture.open()
            try store.fill(file, 0..<3)
            store.close()
            // A child that starts has the lock of the directory, too.
            waitForStartingChildren()
            let error: CacheError = isEncrypted ? .encrypted : .plain
            #expect(throws: error) {
                try Store(existing: fixture.source, cipher: isEncrypted ? nil : fixture.cipher)
            }
            let other = CacheCipher(master: SecretBytes(random: 32))
            if isEncrypted {
                waitForStartingChildren()
                #expect(throws: CacheError.wrongKey) {
                    try Store(
                        directory: fixture.source, source: "http://h/films/", limits: CacheLimits(cap: 1 << 30),
                        owner: "", cipher: other)
                }
            }
            let again = try fixture.open()
            #expect(try again.object(for: file).holds(1))
            again.close()
        }
    }

    @Test func theKeyOfADirectoryChangesWithoutItsData() throws {
        let fixture = Fixture(isEncrypted: true)
        mkdir(fixture.directory + "/cache", 0o700)
        let root = fixture.directory + "/cache"
        let (one, two) = (SecretBytes(random: 32), SecretBytes(random: 32))
        let first = try CacheKeyFile.open(root, one, makes: true)
        #expect(CacheKeyFile.isEncrypted(root) && status(root + "/key").map { $0.st_mode & 0o777 } == 0o600)
        let name = first.directoryName("http://h/")
        #expect(try CacheKeyFile.open(root, one, makes: true).directoryName("http://h/") == name)
        #expect(throws: CacheError.wrongKey) { try CacheKeyFile.open(root, two, makes: true) }
        #expect(throws: CacheError.wrongKey) { try CacheKeyFile.change(root, from: two, to: one) }
        try CacheKeyFile.change(root, from: one, to: two)
        #expect(throws: CacheError.wrongKey) { try CacheKeyFile.open(root, one, makes: true) }
        #expect(try CacheKeyFile.open(root, two, makes: true).directoryName("http://h/") == name)
        #expect(entryNames(in: root) == ["key"])
        // What opens with a key that is lost can be removed without it, and nothing else.
        let path = root + "/" + name
        let store = try Store(
            directory: path, source: "http://h/", limits: CacheLimits(cap: 1 << 30), owner: "", cipher: first)
        try store.fill(file, 0..<2)
        #expect(throws: CacheError.self) { try CacheKeyFile.removeSource(path) }
        store.close()
        waitForStartingChildren()
        #expect(try CacheKeyFile.removeSource(path) >= 2 * BlockSize.block)
        CacheKeyFile.remove(root)
        #expect(entryNames(in: root).isEmpty)
    }

    /// A plain cache's may as well.
    @Test func theCacheDirectoryMayBeALinkOfOurs() throws {
        let fixture = Fixture(isEncrypted: true)
        let (root, link) = (fixture.directory + "/elsewhere", fixture.directory + "/cache")
        try #require(mkdir(root, 0o700) == 0 && symlink("elsewhere", link) == 0)
        let (one, two) = (SecretBytes(random: 32), SecretBytes(random: 32))
        let name = try CacheKeyFile.open(link, one, makes: true).directoryName("http://h/")
        try CacheKeyFile.change(link, from: one, to: two)
        #expect(entryNames(in: root) == ["key"])
        #expect(try CacheKeyFile.open(link, two, makes: false).directoryName("http://h/") == name)
        guard geteuid() == 0 else { return }
        try #require(lchown(link, 61_234, 0) == 0)
        #expect(throws: CacheError.untrusted(.untrusted(link))) { try CacheKeyFile.open(link, two, makes: true) }
    }

    @Test func aPlainDirectoryGetsNoKey() throws {
        let fixture = Fixture(isEncrypted: false)
        let root = fixture.directory + "/cache"
        let path = root + "/" + sourceDirectoryName("http://h/")
        try Store(directory: path, source: "http://h/", limits: CacheLimits(cap: 1 << 30), owner: "").close()
        #expect(throws: CacheError.plain) { try CacheKeyFile.open(root, SecretBytes(random: 32), makes: true) }
        waitForStartingChildren()
        #expect(throws: CacheError.plain) { try CacheKeyFile.removeSource(path) }
        #expect(!CacheKeyFile.isEncrypted(root) && status(path) != nil)
    }

    @Test func aMovedProofFindsNoOtherBlockThatIsDecrypted() {
        let opened = OpenedBlocks()
        let name = OpenedBlocks.Name(row: 1, block: 2, sum: .fresh())
        var bytes = content(2, 1000)
        bytes.withUnsafeBytes { opened.keep($0, name) }
        func finds(_ name: OpenedBlocks.Name) -> Bool {
            bytes.withUnsafeMutableBytes { opened.read(name, 0..<1000, into: $0) }
        }
        #expect(finds(name))
        let longer = bytes.withUnsafeMutableBytes { opened.read(name, 1..<1001, into: $0) }
        #expect(!longer)
        #expect(!finds(OpenedBlocks.Name(row: 1, block: 3, sum: name.sum)))
        #expect(!finds(OpenedBlocks.Name(row: 2, block: 2, sum: name.sum)))
        opened.forget(name)
        #expect(!finds(name))
    }

    /// A reader that follows the download has the bytes without decrypting them.
    @Test func aBlockThatHasJustComeIsReadFromMemoryAndLaterFromTheDisk() throws {
        let fixture = Fixture(isEncrypted: true)
        let store = try fixture.open()
        let object = try store.fill(file, 0..<2)
        let data = try Descriptor(try #require(fixture.objectFiles.first), O_RDWR)
        try data.invert(BlockSize.block + 5)
        var bytes = [UInt8](repeating: 0, count: Int(BlockSize.block))
        func read(_ count: Int) -> CacheRead {
            bytes.withUnsafeMutableBytes {
                object.read(into: UnsafeMutableRawBufferPointer(rebasing: $0[..<count]), at: BlockSize.block)
            }
        }
        for count in [Int(BlockSize.block), 4096] {
            #expect(read(count) == .bytes(count) && bytes.prefix(count) == content(1, BlockSize.block).prefix(count))
        }
        store.objectStore.opened?.forgetAll()
        #expect(read(4096) == .damaged([1..<2]))
        store.close()
    }

    @Test func aShortReadDecryptsItsQuarterAlone() throws {
        let fixture = Fixture(isEncrypted: true)
        let store = try fixture.open()
        let object = try store.fill(file, 0..<2)
        let data = try Descriptor(try #require(fixture.objectFiles.first), O_RDWR)
        let quarter = Int64(BlockCipher.quarterSize)
        try data.invert(BlockSize.block + 2 * quarter + 5)
        store.objectStore.opened?.forgetAll()
        var bytes = [UInt8](repeating: 0, count: Int(2 * quarter))
        func read(_ range: Range<Int64>) -> CacheRead {
            bytes.withUnsafeMutableBytes {
                object.read(
                    into: UnsafeMutableRawBufferPointer(rebasing: $0[..<range.count]),
                    at: BlockSize.block + range.lowerBound)
            }
        }
        let whole = content(1, BlockSize.block)
        // In one quarter, over the end of one, and from the end of the block: each opens what it needs.
        for range in [5..<6, quarter - 4..<quarter + 4, 0..<2 * quarter, 3 * quarter..<4 * quarter] {
            let wanted = whole[Int(range.lowerBound)..<Int(range.upperBound)]
            #expect(read(range) == .bytes(range.count) && bytes.prefix(range.count).elementsEqual(wanted), "\(range)")
        }
        #expect(read(2 * quarter - 1..<2 * quarter + 1) == .damaged([1..<2]))
        #expect(read(0..<1) == .missing)
        store.close()
    }

    @Test func theSumsOfALongFileTakeBoundedMemory() {
        var table = BlockTable(length: 2000 * BlockSize.extent, keepsSums: true)
        for extent in 0..<1000 {
            table.states.load(extent, word: 1, lastUse: 0)
            var sums = ExtentSums()
            sums[0] = BlockSum(plain: UInt64(extent))
            table.keep(sums, ofExtent: extent)
            #expect(table.sum(of: extent * 64) == BlockSum(plain: UInt64(extent)))
        }
        #expect(table.states.extents.filter { $0.sums != nil }.count <= 513)
    }
}

/// The ciphers themselves.
struct CipherTests {
    private func bytes(_ hex: String) -> [UInt8] {
        stride(from: 0, to: hex.utf8.count, by: 2).map { place in
            let start = hex.index(hex.startIndex, offsetBy: place)
            return UInt8(hex[start..<hex.index(start, offsetBy: 2)], radix: 16)!
        }
    }

    private func secret(_ hex: String) -> SecretBytes { bytes(hex).withUnsafeBytes { SecretBytes($0) } }

    /// Test cases 14 and 16 of "The Galois/Counter Mode of Operation (GCM)", McGrew and Viega.
    @Test(arguments: [
        (
            String(repeating: "00", count: 32), String(repeating: "00", count: 12), "",
            String(repeating: "00", count: 16),
            "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"
        ),
        (
            "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
                + "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
                + "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662", "76fc6ece0f4e1768cddf8853bb2d551b"
        ),
    ])
    func gcm(_ key: String, _ nonce: String, _ context: String, _ plain: String, _ sealed: String, _ tag: String) {
        let cipher = AuthenticatedCipher(secret(key))
        var text = bytes(plain)
        var made = [UInt8](repeating: 0, count: 16)
        let (nonce, context) = (bytes(nonce), bytes(context))
        for _ in 0..<2 {
            text.withUnsafeMutableBytes { text in
                made.withUnsafeMutableBytes { made in
                    nonce.withUnsafeBytes { nonce in
                        context.withUnsafeBytes {
                            cipher.seal(
                                UnsafeRawBufferPointer(text), into: text, nonce: nonce, tag: made, context: $0)
                        }
                    }
                }
            }
            #expect(text == bytes(sealed) && made == bytes(tag))
            let isOpen = text.withUnsafeMutableBytes { text in
                made.withUnsafeBytes { made in
                    nonce.withUnsafeBytes { nonce in
                        context.withUnsafeBytes { cipher.open(text, nonce: nonce, tag: made, context: $0) }
                    }
                }
            }
            #expect(isOpen && text == bytes(plain))
        }
    }

    /// RFC 5869, A.1 and A.3.
    @Test(arguments: [
        (
            "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9",
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
        ),
        ("", "", "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"),
    ])
    func hkdf(_ salt: String, _ info: String, _ expected: String) {
        let key = secret(String(repeating: "0b", count: 22))
        let derived = key.derived(salt: bytes(salt), bytes(info), count: 42)
        #expect(withExtendedLifetime(derived) { Array(derived.bytes) } == bytes(expected))
    }

    @Test func noNonceComesTwice() {
        let writes = LongTests.many(1_000_000, elseOnly: 100_000)
        let cipher = BlockCipher(SecretBytes(random: 32))
        var seen: Set<SIMD2<UInt64>> = []
        seen.reserveCapacity(writes)
        var byte: (UInt64, UInt64) = (0, 0)
        for _ in 0..<writes {
            let sum = withUnsafeMutableBytes(of: &byte) {
                cipher.seal(UnsafeRawBufferPointer($0), into: $0, block: 1)
            }
            // Without the two bits in which the quarters of a block differ.
            seen.insert(SIMD2(sum.words[0], sum.words[1] & 0xFCFF_FFFF))
        }
        #expect(seen.count == writes)
    }

    /// Lengths of one quarter, of two, and of a whole block.
    @Test(arguments: [1000, BlockCipher.quarterSize + 1, Int(BlockSize.block)])
    func aBlockOpensInItsPlaceAndLengthAlone(_ count: Int) {
        let key = SecretBytes(random: 32)
        let (cipher, other) = (BlockCipher(key), BlockCipher(SecretBytes(random: 32)))
        let plain = content(3, Int64(count))
        var sealed = plain
        let sum = sealed.withUnsafeMutableBytes { sealed in
            plain.withUnsafeBytes { cipher.seal($0, into: sealed, block: 3) }
        }
        #expect(sealed != plain)
        func opens(_ cipher: BlockCipher, _ block: Int, _ sum: BlockSum, _ part: Int? = nil) -> Bool {
            var copy = sealed
            return copy.withUnsafeMutableBytes {
                cipher.open(UnsafeMutableRawBufferPointer(rebasing: $0[..<(part ?? count)]), block: block, sum)
            }
        }
        #expect(opens(cipher, 3, sum))
        #expect(!opens(cipher, 4, sum) && !opens(cipher, 3, sum, count - 1) && !opens(other, 3, sum))
        if count > BlockCipher.quarterSize { #expect(!opens(cipher, 3, sum, BlockCipher.quarterSize)) }
        let quarters = (count + BlockCipher.quarterSize - 1) / BlockCipher.quarterSize
        for bit in 0..<(AuthenticatedCipher.nonceSize + quarters * BlockCipher.tagSize) * 8 {
            var changed = sum
            changed.words[bit / 64] ^= 1 << UInt64(bit % 64)
            #expect(!opens(cipher, 3, changed))
        }
        for byte in stride(from: 0, to: count, by: 999) {
            sealed[byte] ^= 1
            #expect(!opens(cipher, 3, sum))
            sealed[byte] ^= 1
        }
    }

    @Test func quartersOpenAloneAndInTheirPlaceAlone() {
        let cipher = BlockCipher(SecretBytes(random: 32))
        let (size, count) = (BlockCipher.quarterSize, Int(BlockSize.block) - 100)
        let plain = content(3, Int64(count))
        var sealed = plain
        var sum = sealed.withUnsafeMutableBytes { sealed in
            plain.withUnsafeBytes { cipher.seal($0, into: sealed, block: 3) }
        }
        func opens(_ range: Range<Int>) -> Bool {
            var copy = Array(sealed[range])
            let isOpen = copy.withUnsafeMutableBytes { cipher.open($0, range, of: count, block: 3, sum) }
            return isOpen && copy.elementsEqual(plain[range])
        }
        for (near, expected) in [
            (0..<1, 0..<size), (size - 1..<size + 1, 0..<2 * size), (size..<2 * size, size..<2 * size),
            (count - 1..<count, 3 * size..<count), (0..<count, 0..<count),
        ] {
            #expect(BlockCipher.quarters(around: near, of: count) == expected && opens(expected))
        }
        // Two quarters change places, with their tags.
        for byte in 0..<size { sealed.swapAt(byte, size + byte) }
        withUnsafeMutableBytes(of: &sum.words) { words in
            let tags = AuthenticatedCipher.nonceSize
            for byte in tags..<tags + BlockCipher.tagSize { words.swapAt(byte, byte + BlockCipher.tagSize) }
        }
        #expect(!opens(0..<size) && !opens(size..<2 * size) && opens(2 * size..<count))
    }

    /// The form on the disk, put together here from nothing but the cipher.
    @Test func theFormOfABlockOnTheDisk() {
        let key = SecretBytes(random: 32)
        let single = AuthenticatedCipher(key)
        let (size, count) = (32768, 70_000)
        let plain = content(5, Int64(count))
        var sealed = plain
        let nonce = randomBytes(12)
        var proof = nonce + [UInt8](repeating: 0, count: 52)
        for quarter in 0..<3 {
            let context = [2, 5, UInt64(count), UInt64(quarter)]
            let own = nonce.dropLast() + [nonce[11] ^ UInt8(quarter)]
            let part = quarter * size..<min(count, (quarter + 1) * size)
            let tag = 12 + quarter * 12..<24 + quarter * 12
            sealed.withUnsafeMutableBytes { sealed in
                proof.withUnsafeMutableBytes { proof in
                    own.withUnsafeBytes { own in
                        context.withUnsafeBytes {
                            let text = UnsafeMutableRawBufferPointer(rebasing: sealed[part])
                            single.seal(
                                UnsafeRawBufferPointer(text), into: text, nonce: own,
                                tag: UnsafeMutableRawBufferPointer(rebasing: proof[tag]), context: $0)
                        }
                    }
                }
            }
        }
        let sum = BlockSum(words: proof.withUnsafeBytes { $0.loadUnaligned(as: SIMD8<UInt64>.self) })
        let isOpen = sealed.withUnsafeMutableBytes { BlockCipher(key).open($0, block: 5, sum) }
        #expect(isOpen && sealed == plain)
    }

    @Test func valuesOpenWhereTheyBelongAndEqualTextsAreFoundAgain() {
        let (cipher, other) = (
            CacheCipher(master: SecretBytes(random: 32)), CacheCipher(master: SecretBytes(random: 32))
        )
        let text = "http://h/ü/" + String(repeating: "x", count: 8000)
        #expect(cipher.lookup(text) == cipher.lookup(text) && cipher.lookup(text) != other.lookup(text))
        #expect(cipher.text(ofLookup: cipher.lookup(text)) == text && other.text(ofLookup: cipher.lookup(text)) == nil)
        let sealed = cipher.seal(Array(text.utf8), of: "a")
        #expect(sealed != cipher.seal(Array(text.utf8), of: "a"))
        #expect(cipher.open(sealed, of: "a") == Array(text.utf8))
        #expect(
            cipher.open(sealed, of: "b") == nil && other.open(sealed, of: "a") == nil && cipher.open([], of: "a") == nil
        )
        #expect(cipher.directoryName("a") != cipher.directoryName("b") && cipher.directoryName("a").utf8.count == 32)
        #expect(cipher.blockCipher(.random(), of: text) !== cipher.blockCipher(.random(), of: text))
    }
}
