import ReelCore
import Synchronization
import TestKit
import Testing

@testable import ReelVolume

/// What readers leave behind does not stay in memory.
@Suite struct BehindTests {
    private final class Kernel: KernelCache {
        let pages = Mutex<[ByteRange]>([])
        func forgetEntry(_ name: String, in parent: NodeID) {}
        func forgetDirectory(_ node: NodeID) {}
        func forgetPages(of node: NodeID, _ range: ByteRange) { pages.withLock { $0.append(range) } }
    }

    /// Its last extents are fetched when the reader is 16 MiB before them, as the cache is small.
    @Test func aLongFileLeavesThePageCacheBehindItsReader() throws {
        let film = FileOrigin(length: 64 << 20)
        let server = try ScriptedServer(["/film.mkv": film])
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"), cap: 128 << 20)
        defer { fixture.remove() }
        let kernel = Kernel()
        fixture.volume.connect(kernel)
        let file = try fixture.open("film.mkv").get()
        defer { fixture.volume.close(file) }

        // Fetched: the mount's pages go, each once, and the data file's when they are durable.
        #expect(readsRight(fixture, file, film))
        let told = kernel.pages.withLock { $0 }
        #expect(told.first?.lower == 0 && (told.last?.upper ?? 0) >= 24 << 20)
        #expect(zip(told, told.dropFirst()).allSatisfy { $0.upper == $1.lower })
        fixture.store.commit()
        let path = try #require(dataFiles(fixture).first)
        let isOnDisk = hasPagesOnDisk(path)
        let behind = film.version.length - DropBehind.kept
        #expect(residentBytes(path, ByteRange(0, behind)) == 0 || !isOnDisk)
        #expect(residentBytes(path, ByteRange(behind, film.version.length)) >= DropBehind.kept / 2)

        // Complete: the mount's pages are those that stay.
        #expect(readsRight(fixture, file, film))
        #expect(kernel.pages.withLock { $0 } == told)
        #expect(residentBytes(path, ByteRange(0, behind)) == 0 || !isOnDisk)
    }

    private func readsRight(_ fixture: VolumeFixture, _ file: any FileHandle, _ film: FileOrigin) -> Bool {
        let piece: Int64 = 1 << 20
        return stride(from: 0, to: film.version.length, by: Int(piece)).allSatisfy {
            fixture.read(file, $0, Int(piece)).isRight(film, $0, piece)
        }
    }
}
