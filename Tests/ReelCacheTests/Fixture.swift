import Glibc
import ReelCore
import TestKit
import Testing

@testable import ReelCache

/// A directory for one test, removed with all in it when the fixture goes.
final class Fixture: Sendable {
    let directory: String
    let isEncrypted: Bool
    /// Always the same.
    let cipher = CacheCipher(master: SecretBytes(count: 32))

    init(isEncrypted: Bool = CacheKind.isEncrypted) {
        self.isEncrypted = isEncrypted
        var template = Array("/tmp/reelcache-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { fatalError("mkdtemp: \(errno)") }
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit { removeTree(directory) }

    var source: String { directory + "/cache/source" }
    var index: String { source + "/index.sqlite" }

    /// - Parameter reached: called between two steps of the format's protocol.
    func open(
        cap: Int64 = 1 << 30, age: Duration? = nil, roomAhead: Int64? = nil, owner: String = "/mnt/films",
        reached: @escaping @Sendable (CrashPoint) -> Void = { _ in }
    ) throws(CacheError) -> Store {
        // One that starts has the lock of a store that was closed meanwhile.
        waitForStartingChildren()
        return try Store(
            directory: source, source: "http://h/films/", limits: CacheLimits(cap: cap, age: age, roomAhead: roomAhead),
            owner: owner, cipher: isEncrypted ? cipher : nil, reached: reached
        ) { _ in
            // Asked before anything is evicted, which a data file is not that another process has open too.
            waitForStartingChildren()
            // No test hangs on how full the machine's disk is.
            return nil
        }
    }

    /// A disk of its own for the cache: `end` it before the fixture goes. Needs root.
    func disk(_ kind: SmallDisk.Kind, megabytes: Int, backed: Int? = nil) throws -> SmallDisk {
        mkdir(directory + "/cache", 0o700)
        return try SmallDisk(kind, megabytes: megabytes, backed: backed, at: directory + "/cache")
    }

    /// Paths of all data files.
    var objectFiles: [String] {
        entryNames(in: source + "/objects").flatMap { directory in
            entryNames(in: source + "/objects/" + directory).map { source + "/objects/\(directory)/\($0)" }
        }
    }

    /// What the data files occupy on the disk, in bytes.
    var diskBytes: Int64 { objectFiles.reduce(0) { $0 + Int64(status($1)?.st_blocks ?? 0) * 512 } }

    /// The cache as after kill -9 at this moment: a copy of everything, holes kept, without the lock.
    func crashImage() throws -> Fixture {
        let image = Fixture(isEncrypted: isEncrypted)
        try copy(directory + "/cache", to: image.directory + "/")
        return image
    }

    /// The same, and no commit begins or ends while it is copied.
    func crashImage(of store: Store) throws -> Fixture { try store.committer.betweenCommits { try crashImage() } }
}

extension Descriptor {
    /// Inverts the byte at `offset`: a constant could be what stands there, once in 256 ciphertexts.
    func invert(_ offset: Int64) throws {
        var byte: UInt8 = 0
        try #require(pread(number, &byte, 1, off_t(offset)) == 1)
        try withUnsafeBytes(of: ~byte) { try write($0, at: offset) }
    }
}

extension BlockSum: ExpressibleByIntegerLiteral {
    public init(integerLiteral value: UInt64) { self.init(plain: value) }
}

/// Copies whatever is there, holes kept.
func copy(_ path: String, to place: String) throws {
    let end = try ChildProcess.run(["cp", "-a", "--sparse=always", path, place], within: .seconds(240))
    try #require(end.status == 0, "\(end.errors)")
}

func status(_ path: String) -> stat? {
    var status = stat()
    return lstat(path, &status) == 0 ? status : nil
}

func version(_ key: String = "http://h/films/a.mkv", tag: String? = "1", blocks: Int, less: Int64 = 0) -> Version {
    let validator = Validator(entityTag: tag.flatMap { EntityTag("\"\($0)\"") }, lastModified: nil)
    return Version(key: key, validator: validator, length: Int64(blocks) * BlockSize.block - less)
}

/// The bytes that a test writes into a block: never zeros.
func content(_ block: Int, _ count: Int64, salt: Int = 0) -> [UInt8] {
    var bytes = [UInt8](repeating: UInt8((block &* 7 &+ salt &* 31) % 255 + 1), count: Int(count))
    for offset in stride(from: 0, to: bytes.count, by: 4096) { bytes[offset] = UInt8(offset / 4096 % 255 + 1) }
    return bytes
}

extension CacheObject {
    /// Writes the whole block.
    func fill(_ block: Int, salt: Int = 0) throws(CacheError) {
        try write(block, salt, short: 0)
        #expect(file.isFilled(block))
    }

    /// Writes all of the block but its last byte.
    func put(_ block: Int, salt: Int = 0) throws(CacheError) { try write(block, salt, short: 1) }

    private func write(_ block: Int, _ salt: Int, short: Int64) throws(CacheError) {
        let range = file.bytes(of: block)
        let bytes = content(block, range.count, salt: salt).dropLast(Int(short))
        try bytes.withUnsafeBufferPointer { (bytes) throws(CacheError) in
            try write(UnsafeRawBufferPointer(bytes), at: range.lower)
        }
    }

    /// Reads the whole block, or all but its last byte where it is not whole.
    func read(_ block: Int) -> (answer: CacheRead, bytes: [UInt8]) {
        store.opened?.forgetAll()
        let range = file.bytes(of: block)
        let isPartial = file.withBlocks { $0[block] == .partial }
        var bytes = [UInt8](repeating: 0, count: Int(range.count) - (isPartial ? 1 : 0))
        let answer = bytes.withUnsafeMutableBytes { read(into: $0, at: range.lower) }
        return (answer, bytes)
    }

    func bytes(of block: Int) -> [UInt8] {
        let (answer, bytes) = read(block)
        return answer == .bytes(bytes.count) ? bytes : []
    }

    /// The blocks that a read of this one finds damaged; none where it does not.
    func damaged(_ block: Int) -> [Int] {
        guard case .damaged(let blocks) = read(block).answer else { return [] }
        return blocks.flatMap { Array($0) }
    }

    func holds(_ block: Int, salt: Int = 0) -> Bool {
        let bytes = bytes(of: block)
        let whole = content(block, file.bytes(of: block).count, salt: salt)
        return !bytes.isEmpty && bytes == Array(whole.prefix(bytes.count))
    }
}

extension CacheObject {
    var filledBlocks: [Int] { (0..<file.blockCount).filter { file.isFilled($0) } }
}

extension OpenedBlocks {
    /// Keeps other blocks, of no bytes: the next reads are of the disk.
    func forgetAll() {
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        for number in 0..<Self.count { keep(nothing, Name(row: .min, block: number + 1, sum: .fresh())) }
    }
}

/// Without a child that starts meanwhile: until it runs its program it has all files open, and those are not evicted.
extension Store {
    func reserve(_ bytes: Int64) -> Bool { withoutStartingChildren { evictor.reserve(bytes) } }

    func makeRoomAhead(_ bytes: Int64) throws -> Int64 {
        try withoutStartingChildren { try evictor.makeRoomAhead(bytes) }
    }
}

extension Store {
    /// A remembered listing as a whole; nil where there is none.
    func listing(_ directory: String) -> StoredListing? {
        var entries: [StoredEntry] = []
        let found = listing(directory, begin: { entries = [] }, { entries.append($0) })
        return found.map { StoredListing(entries: entries, fetchedAt: $0.fetchedAt, complete: $0.complete) }
    }

    /// Fills blocks, for which room is made.
    @discardableResult func fill(_ version: Version, _ blocks: some Sequence<Int>) throws -> CacheObject {
        let object = try object(for: version)
        for block in blocks { try object.fill(block) }
        return object
    }
}
