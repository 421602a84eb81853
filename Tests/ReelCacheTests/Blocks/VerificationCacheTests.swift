import Glibc
import ReelCore
import TestKit
import Testing

@testable import ReelCache

/// A file that was looked at, closed and not touched is given to the kernel again without a second look.
@Suite struct VerificationCacheTests {
    private let wanted = version(blocks: 4)
    /// No change was made so lately.
    private var later: Int { time(nil) + 10 }

    /// A complete file that nobody has open, and no seal of it yet.
    private func withClosedFile(_ body: (Fixture, Store, DataFile) throws -> Void) throws {
        let fixture = Fixture()
        let store = try fixture.open()
        defer { store.close() }
        let file = try store.fill(wanted, 0..<4).file
        store.commit()
        try #require(eventually { store.files.file(file.row) == nil })
        let early = store.verified.take(file.row, file.descriptor)
        let isOld = FileMark(file.descriptor).map { $0.seconds <= time(nil) - VerificationCache.rest } ?? false
        #expect(early == nil || isOld, "changed a moment ago")
        try body(fixture, store, file)
    }

    private func isOffered(_ store: Store) throws -> Bool {
        let object = try store.object(for: wanted)
        guard object.offer() != nil else { return false }
        object.settle()
        return true
    }

    @Test func sealedFileNeedsNoLook() throws {
        try withClosedFile { _, store, file in
            store.verified.keep(file, now: later)
            let isOffered = try isOffered(store)
            #expect(isOffered)
        }
    }

    @Test func withoutASealItIsLookedAt() throws {
        try withClosedFile { _, store, _ in
            let isOffered = try isOffered(store)
            #expect(!isOffered)
        }
    }

    @Test(arguments: [true, false]) func whatSomebodyElseHasChangedIsLookedAt(whileOpen: Bool) throws {
        try withClosedFile { fixture, store, file in
            if !whileOpen { store.verified.keep(file, now: later) }
            let other = try Descriptor(try #require(fixture.objectFiles.first), O_RDWR)
            // Its time of change has the kernel's tick, which may still be that of the last write.
            let before = FileMark(file.descriptor)
            var place: Int64 = 77
            repeat {
                try other.invert(place)
                place += 1
            } while FileMark(file.descriptor) == before
            if whileOpen { store.verified.keep(file, now: later) }
            let isOffered = try isOffered(store)
            #expect(!isOffered)
        }
    }

    /// Each seal counts once, and the oldest go.
    @Test func sealsAreFew() throws {
        try withClosedFile { _, store, file in
            store.verified.keep(file, now: later)
            #expect(store.verified.take(file.row, file.descriptor) == RangeSet(0..<4))
            #expect(store.verified.take(file.row, file.descriptor) == nil)
            // Of these every second block is there: as many ranges as a quarter of the limit.
            let length = Int64(VerificationCache.limit / 2) * BlockSize.block
            var blocks = BlockTable(length: length)
            for extent in 0..<Int(length / BlockSize.extent) {
                blocks.states.load(extent, word: 0x5555_5555_5555_5555, lastUse: 0)
            }
            blocks.states.trust(blocks.states.durable)
            let files = try (1...5 as ClosedRange<Int64>).map { number in
                let version = Version(
                    key: "http://h/\(number)", validator: Validator(entityTag: nil, lastModified: 1), length: length)
                let name = FileName.random()
                return DataFile(
                    row: 1000 + number, version: version, name: name,
                    descriptor: try store.files.create(name, length: length), blocks: blocks, lastUse: 0)
            }
            for file in files { store.verified.keep(file, now: later) }
            let kept = files.filter { store.verified.take($0.row, $0.descriptor) != nil }
            #expect(kept.map(\.row) == files.dropFirst().map(\.row))
        }
    }
}
