import ReelCore
import ReelFilesystem
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
}
