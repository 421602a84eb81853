import Glibc
import ReelCore
import TestKit
import Testing

@testable import ReelCache

/// Bytes that sendfile(2) takes out of the data file.
@Suite struct LoanTests {
    private static let blocks = 130
    private static let piece = ByteRange(0, 8 * BlockSize.block)

    /// A complete file, on the disk and verified.
    private func complete(_ store: Store) throws -> CacheObject {
        let object = try store.fill(version(blocks: Self.blocks, less: 5), 0..<Self.blocks)
        store.commit()
        for block in 0..<Self.blocks { #expect(object.damaged(block).isEmpty) }
        return object
    }

    private func blocks(_ range: Range<Int>) -> ByteRange {
        ByteRange(Int64(range.lowerBound) * BlockSize.block, Int64(range.upperBound) * BlockSize.block)
    }

    @Test func onlyVerifiedBytesOfACompletePlainFileAreLent() throws {
        let fixture = Fixture(isEncrypted: false)
        var store = try fixture.open()
        var object = try store.fill(version(blocks: Self.blocks, less: 5), 0..<Self.blocks - 1)
        store.commit()
        for block in 0..<Self.blocks - 1 { #expect(object.damaged(block).isEmpty) }
        #expect(object.lend(Self.piece) == nil, "one block is missing")
        try object.fill(Self.blocks - 1)
        #expect(object.lend(blocks(128..<130)) == nil, "no row has the last one yet")
        store.commit()
        #expect(object.holds(Self.blocks - 1))
        let loan = try #require(object.lend(Self.piece))
        var bytes = [UInt8](repeating: 0, count: Int(BlockSize.block))
        #expect(pread(loan.descriptor, &bytes, bytes.count, Int(BlockSize.block)) == bytes.count)
        #expect(bytes == content(1, BlockSize.block))
        #expect(object.lend(ByteRange(blocks(128..<129).lower, object.length)) != nil)
        #expect(object.lend(blocks(129..<130)) == nil, "it reaches over the end")
        #expect(object.lend(blocks(60..<68)) == nil, "it lies in two extents")
        #expect(object.lend(ByteRange(5, 5)) == nil)
        store.close()

        let sealed = Fixture(isEncrypted: true)
        store = try sealed.open()
        object = try complete(store)
        #expect(object.lend(Self.piece) == nil, "on the disk are other bytes")
        store.close()
    }

    @Test func bytesThatAnotherProgramTookFromTheFileAreNotLent() throws {
        let fixture = Fixture(isEncrypted: false)
        let store = try fixture.open()
        let object = try complete(store)
        #expect(object.lend(Self.piece) != nil)
        let path = try #require(fixture.objectFiles.first)
        try object.file.descriptor.punch(3..<4)
        #expect(object.lend(Self.piece) == nil)
        #expect(object.damaged(3) == [3])
        truncate(path, 5)
        #expect(object.lend(blocks(8..<16)) == nil)
        store.close()
    }

    @Test func bytesOnTheDiskAloneAreReadAndNotLent() throws {
        let fixture = Fixture(isEncrypted: false)
        let store = try fixture.open()
        let object = try complete(store)
        // A listener's thread would wait for the disk.
        #expect(
            eventually {
                // The kernel keeps pages that another processor holds at this moment.
                object.file.descriptor.dropPages(ByteRange(0, object.length))
                return object.lend(Self.piece) == nil
            })
        for block in 0..<8 { #expect(object.holds(block)) }
        #expect(object.lend(Self.piece) != nil)
        store.close()
    }

    @Test func aLentExtentStaysUntilTheLastLoanEnds() throws {
        let fixture = Fixture(isEncrypted: false)
        let store = try fixture.open()
        let object = try complete(store)
        var loans = try (0..<2).map { _ in try #require(object.lend(Self.piece)) }
        while !loans.isEmpty {
            #expect(object.freeExtents(of: [0..<Self.blocks]) == [64..<128, 128..<130])
            #expect(throws: CacheError.busy) { try object.discard(0..<64) }
            #expect(throws: CacheError.busy) { try object.discard(0..<128) }
            #expect(object.filledBlocks.count == Self.blocks)
            loans.removeLast()
        }
        try object.discard(0..<64)
        #expect(object.filledBlocks == Array(64..<Self.blocks))
        store.close()
    }

    /// The pages of sent bytes lie in sockets until clients read them, and a hole may write zeros into those at its
    /// edge, unless the edge is that of an extent.
    @Test func ofAFileThatWasLentOnlyWholeExtentsGo() throws {
        let fixture = Fixture(isEncrypted: false)
        let store = try fixture.open()
        var object: CacheObject? = try complete(store)
        try object?.discard(63..<64)
        try object?.fill(63)
        store.commit()
        #expect(object?.holds(63) == true)
        #expect(object?.lend(Self.piece) != nil)
        for _ in 0..<2 {
            do {
                let file = try #require(object)
                #expect(file.wasLent)
                for run in [0..<1, 0..<63, 1..<64, 64..<129, 128..<129] {
                    #expect(throws: CacheError.busy, "\(run)") { try file.discard(run) }
                }
                #expect(file.freeExtents(of: [1..<64, 64..<65, 66..<130]) == [128..<130])
                #expect(file.freeExtents(of: [0..<64, 70..<129]) == [0..<64])
                #expect(file.filledBlocks.count == Self.blocks)
            }
            // The same once it was closed.
            object = nil
            store.commit()
            #expect(store.files.all.isEmpty)
            object = try store.object(for: version(blocks: Self.blocks, less: 5))
        }
        let file = try #require(object)
        try file.discard(128..<130)
        try file.discard(0..<64)
        #expect(file.filledBlocks == Array(64..<128))
        // Blocks that are not whole were never sent.
        try file.put(3)
        try file.abandonFragments()
        #expect(file.filledBlocks == Array(64..<128))
        store.close()
    }
}
