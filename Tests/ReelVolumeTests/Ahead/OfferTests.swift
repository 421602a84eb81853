import ReelCache
import ReelCore
import ReelFilesystem
import TestKit
import Testing

@testable import ReelVolume

/// Complete files that the kernel reads itself.
@Suite struct OfferTests {
    /// The kernel opens the file some time after it has taken the answer. An eviction that began in between put holes
    /// under its reader, which it read as zeros.
    @Test func aTakenFileStaysWholeAlsoBeforeTheKernelHasOpenedIt() throws {
        let film = FileOrigin(length: 3_000_000)
        let server = try ScriptedServer(["/film.mkv": film])
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"))
        defer { fixture.remove() }
        let reader = try fixture.open("film.mkv").get()
        #expect(fixture.readAll(reader).isRight(film, 0, 3_000_000))
        fixture.volume.close(reader)
        fixture.store.commit()

        let file = try fixture.open("film.mkv").get()
        #expect(file.passthroughFile() != nil)
        file.passthroughBegan()
        guard let remote = (file as? OpenFile)?.remote else { throw VolumeError.failed }
        #expect(remote.object.isReadDirectly)
        #expect(throws: CacheError.busy) { try remote.object.discard(0..<8) }
        #expect(remote.isComplete)
        fixture.volume.close(file)
        #expect(!remote.object.isReadDirectly)
    }

    @Test func aFileThatTheKernelCannotReadAsItDoesForOthersIsTheSameUnderAnotherNode() throws {
        let film = FileOrigin(length: 3_000_000)
        let server = try ScriptedServer(["/film.mkv": film])
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"))
        defer { fixture.remove() }
        let kernel = Kernel()
        fixture.volume.connect(kernel)
        let first = try fixture.open("film.mkv").get()
        let before = try fixture.lookup("film.mkv").get()
        let second = try fixture.open("film.mkv").get()
        fixture.volume.supersede(second)
        fixture.volume.close(second)
        #expect(kernel.forgotten.withLock { $0 }.contains("film.mkv"))
        let again: Result<any FileHandle, VolumeError> = fixture.wait { fixture.volume.open(before.node, by: nil, $0) }
        #expect(again.map { _ in true } == .failure(.stale))
        let after = try fixture.lookup("film.mkv").get()
        #expect(after.node != before.node && after.attributes == before.attributes)
        let third = try fixture.open("film.mkv").get()
        #expect((first as? OpenFile)?.remote === (third as? OpenFile)?.remote)
        for file in [first, third] {
            #expect(fixture.readAll(file).isRight(film, 0, 3_000_000))
            fixture.volume.close(file)
        }
    }

    @Test func theExtentOfLentBytesStaysWhileTheOthersMakeWay() throws {
        let film = FileOrigin(length: 20_000_000)
        let server = try ScriptedServer(["/film.mkv": film])
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"))
        defer { fixture.remove() }
        let file = try fixture.open("film.mkv").get()
        let piece = ByteRange(1 << 20, 3 << 20)
        #expect(fixture.volume.lend(file, piece) == nil)
        for _ in 0..<2 {
            #expect(fixture.readAll(file).isRight(film, 0, 20_000_000))
            fixture.store.commit()
        }
        guard let remote = (file as? OpenFile)?.remote else { throw VolumeError.failed }
        let before = fixture.volume.status()
        var bytes = fixture.volume.lend(file, piece)
        #expect(bytes?.range == piece)
        let after = fixture.volume.status()
        #expect(after.hits == before.hits + 1 && after.bytesServed == before.bytesServed + piece.count)
        #expect(remote.relinquish([0..<200], scarce: 1, evenPinned: false) == 20_000_000 - 2 * BlockSize.extent)
        #expect(remote.relinquish([0..<200], scarce: .max / 2, evenPinned: false) == BlockSize.extent)
        #expect(remote.cachedBytes == BlockSize.extent)
        #expect(fixture.volume.lend(file, piece) == nil, "the file is not complete any more")
        bytes = nil
        #expect(remote.relinquish([0..<200], scarce: .max / 2, evenPinned: false) == BlockSize.extent)
        #expect(fixture.readAll(file).isRight(film, 0, 20_000_000))
        fixture.volume.close(file)
    }
}
