import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// What `status` shows of the files that are open at this moment.
@Suite struct LiveStatusTests {
    private static let length: Int64 = 64 << 20

    private func withFilm(_ body: (VolumeFixture, FileOrigin, any FileHandle) throws -> Void) throws {
        let film = FileOrigin(length: Self.length)
        let server = try ScriptedServer(["/film.mkv": film])
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.mkv"))
        defer { fixture.remove() }
        let file = try fixture.open("film.mkv").get()
        defer { fixture.volume.close(file) }
        try body(fixture, film, file)
    }

    private func status(_ fixture: VolumeFixture) throws -> VolumeStatus.File {
        try #require(fixture.volume.status().files.first)
    }

    @Test("An open file shows its map and its reader, and a closed one neither")
    func map() throws {
        try withFilm { fixture, _, file in
            for offset in stride(from: Int64(0), to: 4 << 20, by: 128 << 10) {
                #expect(try fixture.read(file, offset, 128 << 10).get().count == 128 << 10)
            }
            let told = try status(fixture)
            let map = try #require(told.map)
            #expect(map.count == FileMap.cells && map.hasPrefix("######"), "\(map)")
            let reader = try #require(told.readers?.first)
            #expect(reader.position == 4 << 20)
            #expect(reader.ahead >= 0 && reader.ahead <= Self.length - 4 << 20)
            // A busy machine may have kept a read waiting; what counts as a stall is a matter of `ReadWaitTests`.
            #expect((told.stalls == 0) == (told.lastStall == nil) && told.isPinned == false)
            let handle = try fixture.open("film.mkv").get()
            fixture.volume.close(handle)
        }
    }

    @Test("A reader that is kept waiting for the origin is reported while it waits, and counted afterwards")
    func stall() throws {
        try withFilm { fixture, film, file in
            for offset in stride(from: Int64(0), to: 6 << 20, by: 128 << 10) {
                #expect(try fixture.read(file, offset, 128 << 10).get().count == 128 << 10)
            }
            #expect(try status(fixture).waiting == nil)
            // What is on its way still comes; then the origin takes its time.
            film.fault = .drip(piece: 16 << 10, pause: .milliseconds(100))
            let reader = startThread {
                // Until the volume ends.
                for offset in stride(from: Int64(6 << 20), to: Self.length, by: 128 << 10) {
                    guard case .success = fixture.read(file, offset, 128 << 10) else { return }
                }
            }
            #expect(eventually { (try? status(fixture).waiting ?? 0) ?? 0 >= 300 })
            // On a busy machine the disk may have been late before.
            #expect(eventually { (try? status(fixture).lastStall)??.fault == "origin" })
            let told = fixture.volume.status()
            let last = try #require(told.files.first?.lastStall)
            #expect(last.fault == "origin" && last.milliseconds >= 250, "\(last)")
            #expect(abs(last.when - wallClock()) <= 5)
            #expect(told.stalls?.origin ?? 0 > 0)
            fixture.volume.shutdown()
            reader.join()
        }
    }

    @Test("An origin is reported with its health, its time to the first byte and its bytes")
    func origins() throws {
        try withFilm { fixture, film, file in
            #expect(try fixture.read(file, 0, 4096).get().count == 4096)
            let origin = try #require(fixture.volume.status().origins?.first)
            #expect(origin.health == "well" && origin.origin.hasPrefix("http://127.0.0.1:"))
            #expect(origin.firstByte ?? -1 >= 0 && origin.bytes > 0 && origin.requests > 0 && origin.failed == 0)
            film.fault = .status(500, retryAfter: nil)
            _ = fixture.read(file, 40 << 20, 4096)
            #expect(fixture.volume.status().origins?.first?.failed ?? 0 > 0)
        }
    }

    @Test("A playlist of many hosts leaves no more than a few dozen origins in memory")
    func manyOrigins() {
        let table = OriginTable()
        for number in 0..<1000 { table.took(1, from: "http://host\(number)") }
        table.answered("http://host999", after: .milliseconds(40))
        table.ended("http://host999", isUnwell: true)
        let told = table.status(["http://host998": .doubtful])
        #expect(told.count == OriginTable.most)
        #expect(told[0].origin == "http://host999" && told[0].firstByte == 40 && told[0].failed == 1)
        #expect(told[1].health == "doubtful")
    }
}
