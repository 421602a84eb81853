import CAllocations
import ReelCore
import TestKit
import Testing

@testable import ReelVolume

/// What a read costs whose bytes are in the cache.
@Suite(.plainAndEncrypted) struct HitTests {
    /// More than the encrypted blocks that stay decrypted.
    private static let length: Int64 = 12 << 20
    private static let pages = Int(length) / 4096

    @Test(.enabled(if: reel_counts_allocations())) func hitAsksTheAllocatorForNothing() throws {
        let film = FileOrigin(length: HitTests.length)
        let server = try ScriptedServer(["/film.mkv": film])
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"))
        defer { fixture.remove() }
        let file = try fixture.open("film.mkv").get()
        defer { fixture.volume.close(file) }
        #expect(fixture.readAll(file).isRight(film, 0, HitTests.length))
        // What a busy disk does not have yet is looked at with each read.
        fixture.store.commit()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 4096)
        defer { buffer.deallocate() }
        let volume = fixture.volume
        // All over the file, in an order that no cursor follows: 7919 is a prime, the file has 3072 pages.
        func hits() -> Int {
            var hits = 0
            for page in 0..<Self.pages {
                let answer = volume.read(file, offset: Int64(page * 7919 % Self.pages) * 4096, into: buffer) {
                    TestRead()
                }
                if case .read(4096) = answer { hits += 1 }
            }
            return hits
        }
        // What is made once, as the list of cursors, is made now.
        #expect(hits() == Self.pages)
        let before = reel_allocations()
        let count = hits()
        let after = reel_allocations()
        #expect(count == Self.pages)
        #expect(after - before == 0)
    }
}
