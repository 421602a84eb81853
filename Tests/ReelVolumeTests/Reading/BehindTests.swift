import ReelCore
import ReelFilesystem
import Synchronization
import TestKit
import Testing

@testable import ReelVolume

/// What readers leave behind does not stay in memory.
@Suite(.plainAndEncrypted) struct BehindTests {
    /// Its last extents are fetched when the reader is 16 MiB before them, as the cache is small.
    private func withFilm(
        readsDataFiles: Bool, _ body: (VolumeFixture, FileOrigin, any FileHandle, Kernel) throws -> Void
    ) throws {
        let film = FileOrigin(length: 64 << 20)
        let server = try ScriptedServer(["/film.mkv": film])
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"), cap: 128 << 20)
        defer { fixture.remove() }
        let kernel = Kernel(readsDataFiles: readsDataFiles)
        fixture.volume.connect(kernel)
        let file = try fixture.open("film.mkv").get()
        defer { fixture.volume.close(file) }
        try body(fixture, film, file, kernel)
    }

    private func readsRight(_ fixture: VolumeFixture, _ file: any FileHandle, _ film: FileOrigin) -> Bool {
        let piece: Int64 = 1 << 20
        return stride(from: 0, to: film.version.length, by: Int(piece)).allSatisfy {
            fixture.read(file, $0, Int(piece)).isRight(film, $0, piece)
        }
    }

    private func isConnected(_ ranges: [ByteRange]) -> Bool {
        zip(ranges, ranges.dropFirst()).allSatisfy { $0.upper == $1.lower }
    }

    /// A page that the kernel holds at that moment, in a batch of another processor or to move it, stays.
    private func isLeft(_ path: String, _ range: ByteRange) -> Bool { residentBytes(path, range) < range.count / 16 }

    @Test(arguments: [false, true]) func aLongFileLeavesThePageCacheBehindItsReader(readsDataFiles: Bool) throws {
        try withFilm(readsDataFiles: readsDataFiles) { fixture, film, file, kernel in
            // Fetched: the mount's pages go, each once, and the data file's when they are durable.
            #expect(readsRight(fixture, file, film))
            let told = kernel.pages.withLock { $0 }
            #expect(told.first?.lower == 0 && (told.last?.upper ?? 0) >= 24 << 20 && isConnected(told))
            fixture.store.commit()
            let path = try #require(dataFiles(fixture).first)
            let isOnDisk = hasPagesOnDisk(path)
            let behind = ByteRange(0, film.version.length - DropBehind.kept)
            if !readsDataFiles { #expect(isLeft(path, behind) || !isOnDisk, "\(residentBytes(path, behind))") }
            // What is not written yet is not read from the data file.

            // Complete: those stay from which the kernel reads without asking.
            kernel.pages.withLock { $0 = [] }
            #expect(readsRight(fixture, file, film))
            let again = kernel.pages.withLock { $0 }
            // The kernel cannot decrypt.
            if readsDataFiles, !CacheKind.isEncrypted {
                #expect(again.first?.lower == 0 && again.last?.upper == behind.upper && isConnected(again))
                #expect(residentBytes(path, behind) >= behind.count / 2)
            } else {
                #expect(again.isEmpty)
                #expect(isLeft(path, behind) || !isOnDisk, "\(residentBytes(path, behind))")
            }
        }
    }
}
