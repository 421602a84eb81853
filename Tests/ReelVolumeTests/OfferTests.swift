import ReelCache
import ReelCore
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
}
