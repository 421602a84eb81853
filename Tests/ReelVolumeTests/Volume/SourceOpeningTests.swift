import Glibc
import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// Documents that take long to read, or would take forever.
@Suite struct SourceOpeningTests {
    /// A tree whose `sub/` is a page of this many bytes that hold no entry at all.
    private static func library(_ size: Int) throws -> ScriptedServer {
        let root = "<title>Index of /</title><pre><a href=\"sub/\">sub/</a>\n</pre>"
        let page = "<title>Index of /sub/</title><pre>" + String(repeating: "<b>&amp;", count: size / 8)
        return try ScriptedServer { request in
            ServerStep.answer(200, [("Content-Type", "text/html")], body: request.path == "/" ? root : page)
        }
    }

    @Test("A listing is read no longer than whoever asked may wait")
    func deadline() throws {
        // A tenth of a second is too short for this page, be it for the line or for the reading.
        let server = try Self.library(24 << 20)
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/"))
        defer { fixture.remove() }
        try fixture.restart(timeout: .milliseconds(700))
        #expect(fixture.names("sub").map { $0.count } == .failure(.timedOut))
    }

    @Test("A source of which nothing is cached is not called away where nothing may be asked for")
    func offline() {
        let sentence = "\(SourceError.origin(ResourceURL("http://h/")!, .away(.offline), reason: ""))"
        #expect(sentence.contains("nothing is cached of it") && !sentence.contains("away"), "\(sentence)")
    }

    @Test("The end of the mount does not wait for a listing that is being read")
    func end() throws {
        let server = try Self.library(48 << 20)
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/"), timeout: .seconds(120))
        defer { fixture.remove() }
        let sub = try fixture.lookup("sub").get()
        let answer = Monitor<Result<Bool, VolumeError>?>(nil)
        fixture.volume.openDirectory(sub.node) { result in answer.withLock { $0 = result.map { _ in true } } }
        // The page is there, and takes an unoptimised build some ten seconds to read. Its transfer may still have to
        // report its end, so that the answer may come after the end of the mount.
        #expect(eventually { fixture.receivedBytes > 48 << 20 })
        fixture.volume.shutdown()
        #expect(eventually { answer.withLock { $0 } == .failure(.timedOut) })
    }

    @Test(
        "A source that cannot be mounted says why, and not that it is known to be away by now",
        arguments: [
            ("http://127.0.0.1:PORT/films/", "Connection refused"),
            ("http://127.0.0.1:PORT/film.mkv", "Connection refused"),
            ("http://nobody.invalid/films/", "nobody.invalid"),
        ])
    func reasons(_ address: String, _ reason: String) throws {
        // Its port refuses from now on.
        let server = try ScriptedServer { _ in [.close] }
        server.stop()
        let source = address.replacing("PORT", with: "\(server.port)")
        #expect { try VolumeFixture(source) } throws: {
            "\($0)".contains("the origin cannot be reached (") && "\($0)".contains(reason)
        }
    }

    @Test("A local list whose disk hangs holds up no other listing, and its own look ends at the deadline")
    func hungDisk() throws {
        let server = try Self.library(8)
        defer { server.stop() }
        var template = Array("/tmp/reelfs-list-XXXXXX".utf8CString)
        let folder = try #require(mkdtemp(&template).map { String(cString: $0) })
        defer { removeTree(folder) }
        let path = folder + "/list.m3u"
        func write(_ names: [String]) throws {
            let file = try #require(fopen(path, "w"))
            fputs("#EXTM3U\n" + names.map { server.url("/\($0)").text + "\n" }.joined(), file)
            fclose(file)
        }
        try write(["a.mkv"])
        let fixture = try VolumeFixture(path, refresh: .zero)
        defer { fixture.remove() }
        try fixture.restart(timeout: .milliseconds(500))
        #expect(fixture.names() == .success(["a.mkv"]))
        let gate = Gate()
        defer { gate.open() }
        _ = fixture.volume.services.readLocally { gate.wait(within: .seconds(60)) }
        try write(["a.mkv", "b.mkv"])
        fixture.volume.maintenance.expireListings()
        #expect(fixture.names() == .success(["a.mkv"]))
        let isDone = Shared(false)
        fixture.volume.services.later { isDone.set(true) }
        #expect(eventually { isDone.value }, "the thread of all listings is free")
        #expect(eventually { fixture.volume.status().staleDirectories.map(\.trouble) == ["timed-out"] })
        gate.open()
        #expect(eventually { fixture.names() == .success(["a.mkv", "b.mkv"]) })
    }

    @Test("A local list that is no regular file is refused at once", arguments: ["fifo", "directory", "device"])
    func local(_ kind: String) throws {
        var template = Array("/tmp/reelfs-list-XXXXXX".utf8CString)
        let folder = try #require(mkdtemp(&template).map { String(cString: $0) })
        defer { removeTree(folder) }
        let path = kind == "device" ? "/dev/zero" : folder + "/list.m3u"
        if kind == "fifo" { #expect(mkfifo(path, 0o600) == 0) }
        if kind == "directory" { #expect(mkdir(path, 0o700) == 0) }
        #expect { try VolumeFixture(path) } throws: { "\($0)".contains("no regular file") }
    }
}
