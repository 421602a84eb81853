import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// What a volume asks an FTP server.
@Suite struct FileServerTests {
    private func read(
        _ fixture: VolumeFixture, _ name: String, _ offset: Int64, _ count: Int
    ) throws -> Result<[UInt8], VolumeError> {
        try fixture.read(fixture.open(name).get(), offset, count)
    }

    @Test("A file that is listed as empty costs no data connection")
    func empty() throws {
        let server = try ScriptedFileServer()
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("").text)
        defer { fixture.remove() }
        #expect(try fixture.names("").get().sorted() == ["empty", "film.mkv"])
        let listings = server.commands.count { $0 == "EPSV" }
        #expect(try read(fixture, "empty", 0, 10) == .success([]))
        #expect(server.commands.contains("SIZE") && !server.commands.contains("RETR"))
        #expect(server.commands.count { $0 == "EPSV" } == listings)
        let film = try read(fixture, "film.mkv", 1000, 2000)
        #expect(film == .success(Array(ScriptedFileServer.film[1000..<3000])))
    }

    @Test("An address without a slash is a folder, else a file, in one login", arguments: ["film.mkv", "empty"])
    func file(_ name: String) throws {
        let server = try ScriptedFileServer()
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url(name).text)
        defer { fixture.remove() }
        #expect(fixture.names("") == .success([name]))
        let bytes = name == "empty" ? [] : Array(ScriptedFileServer.film[..<50])
        #expect(try read(fixture, name, 0, 50) == .success(bytes))
        #expect(server.sessions.count == 1, "\(server.sessions)")
        // Then the file is asked for at once.
        let lists = server.commands.count { $0 == "CWD" }
        try fixture.restart()
        #expect(fixture.names("") == .success([name]))
        #expect(server.commands.count { $0 == "CWD" } == lists)
        server.stop()
        try fixture.restart()
        #expect(try read(fixture, name, 0, 50) == .success(bytes))
    }

    @Test("A film that is read in order is one transfer of one login, and nothing else of it is asked for")
    func oneTransfer() throws {
        let server = try ScriptedFileServer()
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("").text)
        defer { fixture.remove() }
        let isSame = try fixture.readAll(fixture.open("film.mkv").get()) == .success(ScriptedFileServer.film)
        #expect(isSame)
        let transfers = server.sessions.filter { $0.contains("RETR") }
        #expect(transfers.map { $0.filter { ["USER", "RETR", "REST"].contains($0) } } == [["USER", "RETR"]])
    }

    @Test("A file that is not there is no source") func none() throws {
        let server = try ScriptedFileServer()
        defer { server.stop() }
        #expect { try VolumeFixture(server.url("none").text) } throws: { "\($0)".contains("answers 404") }
    }

    /// The logins and the transfers so far.
    private func transfers(_ server: ScriptedFileServer) -> [Substring] {
        server.commands.filter { ["USER", "RETR", "REST"].contains($0) }
    }

    @Test("Two readers at two places take a transfer and a login each")
    func twoReaders() throws {
        let server = try ScriptedFileServer()
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("").text, prebuffer: 0)
        defer { fixture.remove() }
        let film = try fixture.open("film.mkv").get()
        for offset in stride(from: 0, to: 2 << 20, by: 128 << 10) {
            for place in [offset, offset + 3 << 20] {
                let expected = Array(ScriptedFileServer.film[place..<place + 128 << 10])
                let isSame = fixture.read(film, Int64(place), 128 << 10) == .success(expected)
                #expect(isSame, "\(place)")
            }
        }
        #expect(transfers(server) == ["USER", "RETR", "USER", "REST", "RETR"])
    }

    @Test("A prefetch with a rate of its own goes on with the transfer of its open")
    func prefetch() throws {
        let server = try ScriptedFileServer()
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("").text, prebuffer: 0)
        defer { fixture.remove() }
        let volume = fixture.volume
        let request = PrefetchRequest(paths: ["film.mkv"], rate: RateSchedule("20M"))
        let number = try volume.prefetches.start(request, volume.maintenance)
        let end = now() + .seconds(30)
        let status = volume.prefetches.watch(number, until: { _ in false }, isOver: { now() > end }) { _ in }
        #expect(status?.phase == .done && transfers(server) == ["USER", "RETR"])
    }

    @Test("What a tier has of a film is not asked of the server again, and what it lacks is one transfer")
    func tier() throws {
        let server = try ScriptedFileServer()
        defer { server.stop() }
        let bucket = try ScriptedBucket()
        defer { bucket.stop() }
        for isFull in [false, true] {
            let fixture = try VolumeFixture(
                server.url("").text, prebuffer: 0, tier: bucket.place(patience: .seconds(60)))
            defer { fixture.remove() }
            let isSame = try fixture.readAll(fixture.open("film.mkv").get()) == .success(ScriptedFileServer.film)
            #expect(isSame && (fixture.receivedBytes < 300_000) == isFull, "\(fixture.receivedBytes)")
            #expect(isFull || transfers(server) == ["USER", "RETR"])
            let tier = { fixture.volume.status().tier! }
            #expect(isFull || eventually { tier().writtenBytes == ScriptedFileServer.length })
        }
    }
}
