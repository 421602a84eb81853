import ReelCore
import TestKit
import Testing

@testable import ReelCache

/// What the cache should hold, without files, rows or threads.
private struct Model {
    struct File {
        var map: BlockMap
        /// What was written into each filled block.
        var salts: [Int: Int] = [:]
        var committed: [Int: Int] = [:]
        var reserved: Set<Int> = []
        var lastUse = 0
        var isOpen = false
    }

    let cap: Int64
    var files: [Version: File] = [:]
    var clock = 0

    var used: Int64 {
        files.values.reduce(0) { sum, file in
            sum + file.map.filledBytes + file.reserved.reduce(0) { $0 + file.map.bytes(of: $1).count }
        }
    }

    /// Evicts closed files like the store; true where `bytes` fit then.
    mutating func makeRoom(_ bytes: Int64) -> Bool {
        let missing = used + bytes - cap
        var freed: Int64 = 0
        for (version, file) in files.sorted(by: { $0.value.lastUse < $1.value.lastUse }) where !file.isOpen {
            guard freed < missing else { break }
            freed += file.map.filledBytes
            files[version] = nil
        }
        return used + bytes <= cap
    }

    mutating func use(_ version: Version) {
        clock += 1
        files[version, default: File(map: BlockMap(length: version.length))].lastUse = clock
    }

    mutating func commit() {
        for version in files.keys { files[version]!.committed = files[version]!.salts }
    }
}

struct ModelTests {
    @Test(arguments: [1, 2, 3, UInt64.random(in: 4 ... .max)])
    func anyOrderOfOperationsAgreesWithThePlainModel(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let fixture = Fixture()
        let cap = 48 * BlockSize.block - 5000
        var model = Model(cap: cap)
        var store = try fixture.open(cap: cap)
        var open: [Version: CacheObject] = [:]
        let versions = (0..<9).map {
            version("http://h/\($0 / 2)", tag: "\($0)", blocks: 1 + $0 * 9, less: Int64($0 * 777))
        }
        var salt = 0

        for step in 0..<600 {
            let version = versions.randomElement(using: &random)!
            let block = Int.random(in: 0..<BlockMap(length: version.length).blockCount, using: &random)
            let hint: Comment = "seed \(seed), step \(step)"
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<14:
                let object = try store.object(for: version)
                model.use(version)
                let known = model.files[version]!
                if open[version] == nil {
                    #expect(Set(object.filledBlocks) == Set(known.salts.keys), hint)
                    for (block, salt) in known.salts { #expect(object.holds(block, salt: salt), hint) }
                }
                model.files[version]!.isOpen = true
                open[version] = object
            case 14..<24:
                guard let object = open[version] else { continue }
                for block in model.files[version]!.reserved { try object.abandon(block..<block + 1) }
                model.files[version]!.reserved = []
                model.files[version]!.isOpen = false
                open[version] = nil
            case 24..<80:
                guard let object = open[version], let file = model.files[version], !file.map[block] else { continue }
                if !file.reserved.contains(block) {
                    let bytes = file.map.bytes(of: block).count
                    let fits = model.makeRoom(bytes)
                    #expect(store.makeRoom(for: bytes) == fits, hint)
                    guard fits else { continue }
                }
                salt += 1
                try object.put(block, salt: salt)
                if Int.random(in: 0..<5, using: &random) == 0 {
                    model.files[version]!.reserved.insert(block)
                } else {
                    object.markFilled(block)
                    model.files[version]!.reserved.remove(block)
                    model.files[version]!.map[block] = true
                    model.files[version]!.salts[block] = salt
                }
            case 80..<86:
                guard let object = open[version], let file = model.files[version] else { continue }
                let end = min(block + Int.random(in: 1...20, using: &random), file.map.blockCount)
                guard (block..<end).allSatisfy({ !file.reserved.contains($0) }) else { continue }
                try object.discard(block..<end)
                for block in block..<end {
                    model.files[version]!.map[block] = false
                    model.files[version]!.salts[block] = nil
                    model.files[version]!.committed[block] = nil
                }
            case 86..<90:
                guard let object = open[version] else { continue }
                object.touch()
                model.use(version)
            case 90..<93:
                guard open[version] == nil else { continue }
                store.forget(version)
                model.files[version] = nil
            case 93..<96:
                store.commit()
                model.commit()
                let spare = Int64(fixture.objectFiles.count) * 8192
                #expect(fixture.diskBytes <= model.used + spare && fixture.diskBytes <= cap + spare, hint)
            case 96..<98:
                try compare(fixture.crashImage(), model, cap, hint)
            default:
                for version in open.keys { model.files[version]!.isOpen = false }
                for version in model.files.keys { model.files[version]!.reserved = [] }
                open = [:]
                store.close()
                model.commit()
                store = try fixture.open(cap: cap)
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
            sum += object.filled.filledBytes
        }
        #expect(store.usage.used == sum, hint)
        store.close()
    }
}
