import ReelCore
import TestKit
import Testing

@testable import ReelCache

/// What the cache should hold, without files, rows or threads.
private struct Model {
    struct File {
        let length: Int64
        /// What was written into each filled block.
        var salts: [Int: Int] = [:]
        var committed: [Int: Int] = [:]
        var partial: Set<Int> = []
        /// By extent.
        var uses: [Int: Int] = [:]
        var isOpen = false

        var blockCount: Int { BlockSize.blocks(touching: ByteRange(0, length), length: length).count }
        func bytes(_ blocks: some Sequence<Int>) -> Int64 {
            blocks.reduce(0) { $0 + BlockSize.bytes(of: $1, length: length).count }
        }
    }

    let cap: Int64
    /// Blocks that are not whole are in memory, and take no room.
    let isEncrypted = CacheKind.isEncrypted
    var files: [Version: File] = [:]
    var pins: Set<String> = []
    var clock = 0

    var used: Int64 {
        files.values.reduce(0) { sum, file in
            sum + file.bytes(file.salts.keys) + (isEncrypted ? 0 : file.bytes(file.partial))
        }
    }

    /// Evicts extents of closed files like the store, edges last; true where `bytes` fit then.
    mutating func makeRoom(_ bytes: Int64) -> Bool {
        guard used + bytes > cap else { return true }
        let wanted = used + bytes - cap + min(cap / 16, 2 * BlockSize.extent)
        var candidates: [(isEdge: Bool, use: Int, version: Version, extent: Int)] = []
        for (version, file) in files where !file.isOpen && !pins.contains(version.key) {
            for extent in Set(file.salts.keys.map { $0 / 64 }) {
                let isEdge = extent == 0 || extent == (file.blockCount - 1) / 64
                candidates.append((isEdge, file.uses[extent] ?? 0, version, extent))
            }
        }
        candidates.sort { ($0.isEdge ? 1 : 0, $0.use) < ($1.isEdge ? 1 : 0, $1.use) }
        var freed: Int64 = 0
        for candidate in candidates where freed < wanted {
            let file = files[candidate.version]!
            freed += file.bytes(file.salts.keys.filter { $0 / 64 == candidate.extent })
            empty(candidate.extent * 64..<(candidate.extent + 1) * 64, of: candidate.version)
        }
        return used + bytes <= cap
    }

    mutating func empty(_ blocks: Range<Int>, of version: Version) {
        for block in blocks {
            files[version]!.salts[block] = nil
            files[version]!.committed[block] = nil
        }
    }

    mutating func use(_ version: Version, _ block: Int) {
        clock += 1
        files[version]!.uses[block / 64] = clock
    }

    mutating func commit() {
        for version in files.keys { files[version]!.committed = files[version]!.salts }
    }
}

@Suite(.plainAndEncrypted) struct ModelTests {
    @Test(arguments: LongTests.all([1, 2, 3], elseOnly: []) + [UInt64.random(in: 4 ... .max)])
    func anyOrderOfOperationsAgreesWithThePlainModel(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let fixture = Fixture()
        let cap = 96 * BlockSize.block - 5000
        var model = Model(cap: cap)
        var store = try fixture.open(cap: cap)
        var open: [Version: CacheObject] = [:]
        let versions = (0..<9).map {
            version("http://h/\($0 / 2)", tag: "\($0)", blocks: 1 + $0 * 37, less: Int64($0 * 777))
        }
        var salt = 0

        for step in 0..<700 {
            let version = versions.randomElement(using: &random)!
            let block = Int.random(in: 0..<Model.File(length: version.length).blockCount, using: &random)
            let hint: Comment = "seed \(seed), step \(step)"
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<12:
                let object = try store.object(for: version)
                if model.files[version] == nil {
                    model.files[version] = Model.File(length: version.length)
                }
                let known = model.files[version]!
                if open[version] == nil {
                    #expect(Set(object.filledBlocks) == Set(known.salts.keys), hint)
                    for (block, salt) in known.salts.sorted(by: { $0.key < $1.key }) {
                        #expect(object.holds(block, salt: salt), hint)
                        model.use(version, block)
                    }
                }
                model.files[version]!.isOpen = true
                open[version] = object
            case 12..<22:
                guard let object = open[version] else { continue }
                try object.abandonFragments()
                model.files[version]!.partial = []
                model.files[version]!.isOpen = false
                open[version] = nil
            case 22..<80:
                guard let object = open[version], let file = model.files[version], file.salts[block] == nil else {
                    continue
                }
                if model.isEncrypted || !file.partial.contains(block) {
                    let bytes = file.bytes([block])
                    let fits = model.makeRoom(bytes)
                    #expect(store.evictor.reserve(bytes) == fits, hint)
                    guard fits else { continue }
                    store.quota.release(bytes)
                }
                salt += 1
                if Int.random(in: 0..<5, using: &random) == 0 {
                    try object.put(block, salt: salt)
                    model.files[version]!.partial.insert(block)
                } else {
                    try object.fill(block, salt: salt)
                    model.files[version]!.partial.remove(block)
                    model.files[version]!.salts[block] = salt
                    model.use(version, block)
                }
            case 80..<84:
                guard let object = open[version], let file = model.files[version] else { continue }
                let end = min(block + Int.random(in: 1...20, using: &random), file.blockCount)
                guard (block..<end).allSatisfy({ !file.partial.contains($0) }) else { continue }
                try object.discard(block..<end)
                model.empty(block..<end, of: version)
            case 84..<88:
                guard let object = open[version], let salt = model.files[version]?.salts[block] else { continue }
                #expect(object.holds(block, salt: salt), hint)
                model.use(version, block)
            case 88..<90:
                let isPinned = model.pins.insert(version.key).inserted
                if !isPinned { model.pins.remove(version.key) }
                try store.pin([version.key], isPinned)
            case 90..<92:
                guard open[version] == nil else { continue }
                store.forget(version)
                model.files[version] = nil
            case 92..<95:
                store.commit()
                model.commit()
                let spare = Int64(fixture.objectFiles.count) * 8192
                #expect(fixture.diskBytes <= model.used + spare && fixture.diskBytes <= cap + spare, hint)
            case 95..<97:
                try compare(fixture.crashImage(of: store), model, cap, hint)
            default:
                for version in open.keys { model.files[version]!.isOpen = false }
                for version in model.files.keys { model.files[version]!.partial = [] }
                open = [:]
                store.close()
                model.commit()
                store = try fixture.open(cap: cap)
                #expect(try store.pins() == Set(model.pins.map { ExactText($0) }), hint)
            }
            #expect(store.usage.used == model.used, hint)
            #expect(store.usage.used <= cap, hint)
        }
        open = [:]
        store.close()
    }

    /// After a crash: all that was committed, and nothing that was not filled.
    private func compare(_ image: Fixture, _ model: Model, _ cap: Int64, _ hint: Comment) throws {
        let store = try image.open(cap: cap)
        var sum: Int64 = 0
        for (version, file) in model.files {
            let object = try store.object(for: version)
            let found = Set(object.filledBlocks)
            #expect(found.isSuperset(of: file.committed.keys) && found.isSubset(of: file.salts.keys), hint)
            for block in found { #expect(object.holds(block, salt: file.salts[block]!), hint) }
            sum += object.filledBytes
        }
        #expect(store.usage.used == sum, hint)
        store.close()
    }
}
