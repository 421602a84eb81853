import Glibc
import ReelCache
import ReelCore
import ReelFilesystem
import ReelSources
import TestKit
import Testing

@testable import ReelVolume

/// Lists that change while they are mounted.
@Suite struct PlaylistTests {
    private static let two = "#EXTM3U\n#EXTINF:1,First\n/a.mp3\n#EXTINF:2,Second\n/b.mp3\n"

    private func mark(_ fixture: VolumeFixture) -> String? {
        (try? fixture.volume.extendedAttribute("user.reelfs.stale", of: rootNode).get())
            .map { String(decoding: $0, as: UTF8.self) }
    }

    private func write(_ text: String, to path: String) throws {
        let file = try #require(fopen(path, "we"))
        #expect(fputs(text, file) >= 0)
        #expect(fclose(file) == 0)
    }

    /// What the test changes: the list's text.
    private func withList(_ body: (VolumeFixture, Shared<String>, ScriptedServer) throws -> Void) throws {
        let list = Shared(Self.two)
        let server = try ScriptedServer { request in
            guard request.path == "/list.m3u" else { return FileOrigin(length: 1000).answer(request) }
            let text = list.value
            let tag = "\"\(text.hashValue)\""
            if request["if-none-match"] == tag { return [.head(304, [("ETag", tag)])] }
            return ServerStep.answer(200, [("Content-Type", "audio/x-mpegurl"), ("ETag", tag)], body: text)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/list.m3u"), timeout: .seconds(3), refresh: .zero)
        defer { fixture.remove() }
        try body(fixture, list, server)
    }

    @Test func newEntriesAppearGoneOnesGoAndTheKernelIsToldOfEachName() throws {
        try withList { fixture, list, server in
            let kernel = Kernel()
            fixture.volume.connect(kernel)
            #expect(fixture.names() == .success(["First.mp3", "Second.mp3"]))
            list.set("#EXTM3U\n#EXTINF:1,Second\n/b.mp3\n#EXTINF:2,Third\n/c.mp3\n")
            #expect(eventually { fixture.names() == .success(["Second.mp3", "Third.mp3"]) })
            #expect(eventually { Set(kernel.forgotten.withLock { $0 }) == ["First.mp3", "Third.mp3"] })
            let count = server.requests.count
            #expect(
                eventually {
                    _ = fixture.names()
                    return server.requests.dropFirst(count).contains { $0["if-none-match"] != nil }
                })
            #expect(mark(fixture) == nil)
        }
    }

    @Test func aNewSignatureFindsTheBytesOfTheOldOneAndNoneIsRemembered() throws {
        let film = FileOrigin(length: 300_000)
        let (list, valid) = (Shared(""), Shared("one"))
        let server = try ScriptedServer { request in
            if request.path == "/list.m3u" {
                return ServerStep.answer(200, [("Content-Type", "audio/x-mpegurl")], body: list.value)
            }
            guard request.target.hasSuffix("&X-Amz-Signature=" + valid.value) else { return ServerStep.answer(403) }
            return film.answer(request)
        }
        defer { server.stop() }
        func sign() {
            list.set(
                "#EXTM3U\n/film.mkv?X-Amz-Date=20240501T123456Z&X-Amz-Expires=60&X-Amz-Signature=\(valid.value)\n")
        }
        sign()
        let fixture = try VolumeFixture(server.url("/list.m3u"), timeout: .seconds(3))
        defer { fixture.remove() }
        var file = try fixture.open("film.mkv").get()
        #expect(fixture.read(file, 0, 300_000).isRight(film, 0, 300_000))
        fixture.volume.close(file)
        let url = try fixture.volume.extendedAttribute("user.reelfs.url", of: fixture.lookup("film.mkv").get().node)
            .get()
        #expect(url.elementsEqual(server.url("/film.mkv").text.utf8))
        valid.set("two")
        sign()
        try fixture.restart()
        file = try fixture.open("film.mkv").get()
        #expect(fixture.read(file, 0, 300_000).isRight(film, 0, 300_000))
        fixture.volume.close(file)
        // The list, and whether the file has changed.
        #expect(fixture.receivedBytes < 1000)
        let place = SourcePlace.url(server.url("/list.m3u"))
        #expect(fixture.store.entries(at: place)?.entries.map(\.url.text) == [server.url("/film.mkv").text])
        // A link that is no longer good opens nothing that is not there.
        list.change { $0 += "/other.mkv?X-Amz-Date=20240501T123456Z&X-Amz-Expires=60&X-Amz-Signature=one\n" }
        try fixture.restart()
        #expect(throws: VolumeError.accessDenied) { try fixture.lookup("other.mkv").get() }
    }

    /// Before a reader gets an error, and once for all links.
    @Test func anExpiredLinkHasTheListGiveANewOne() throws {
        let film = FileOrigin(length: 300_000)
        let requests = Shared(0)
        let expires = Shared("20240501T123456Z&X-Amz-Expires=60&X-Amz-Signature=old")
        let server = try ScriptedServer { request in
            if request.path == "/list.m3u" {
                requests.change { $0 += 1 }
                let lines = ["one", "two"].map { "/\($0).mkv?X-Amz-Date=\(expires.value)\n" }
                return ServerStep.answer(body: "#EXTM3U\n" + lines.joined())
            }
            return request.target.contains("new") ? film.answer(request) : ServerStep.answer(403)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/list.m3u"), timeout: .seconds(5), refresh: .seconds(3600))
        defer { fixture.remove() }
        expires.set("20240501T123456Z&X-Amz-Expires=4000000000&X-Amz-Signature=new")
        #expect(fixture.names() == .success(["one.mkv", "two.mkv"]) && requests.value == 1)
        for name in ["one.mkv", "two.mkv"] {
            let file = try fixture.open(name).get()
            #expect(fixture.read(file, 0, 300_000).isRight(film, 0, 300_000))
            fixture.volume.close(file)
        }
        #expect(requests.value == 2)
    }

    /// In virtual time.
    @Test("After a restart no file of a signed list is asked for before that has said how, unless that takes long")
    func firstList() throws {
        let film = FileOrigin(length: 300_000)
        let unsigned = Shared(0)
        for (pause, wasSigned) in [(Duration.seconds(1), true), (.seconds(20), true), (.seconds(1), false)] {
            let isInTime = pause == .seconds(1) && wasSigned
            unsigned.set(0)
            let servers: [String: SimulatedTransport.Server] = [
                "http://list": { _ in
                    [.pause(pause)] + ServerStep.answer(body: "#EXTM3U\nhttp://films/film.mkv?hdnts=good\n")
                },
                "http://films": { request in
                    if !request.target.hasSuffix("?hdnts=good") { unsigned.change { $0 += 1 } }
                    return film.answer(request)
                },
            ]
            try SimulatedWorld.run(servers) { world in
                let options = VolumeOptions(timeout: .seconds(10))
                let mount = try world.mount("http://list/list.m3u", options) { store in
                    let film = SourceEntry(
                        name: "film.mkv", url: ResourceURL("http://films/film.mkv")!, isDirectory: false)
                    store.set("kind", PlaylistSource.kind)
                    if wasSigned { store.set("signed", "yes") }
                    store.remember(
                        StoredListing(entries: EntryList([film]), fetchedAt: 1, complete: true),
                        for: "http://list/list.m3u")
                }
                let file = try mount.open("film.mkv").get()
                #expect(mount.read(file, 0, 1000).isRight(film, 0, 1000))
                mount.volume.close(file)
            }
            #expect((unsigned.value == 0) == isInTime)
        }
    }

    /// A list that gives no new one is not asked for each read.
    @Test func aListWithExpiredLinksIsAskedForNewOnesOnceAWhile() throws {
        let server = try ScriptedServer { request in
            guard request.path == "/list.m3u" else { return ServerStep.answer(403) }
            let links = (0..<9).map { "/\($0).mkv?X-Amz-Date=20240501T123456Z&X-Amz-Expires=6&X-Amz-Signature=a\n" }
            return ServerStep.answer(body: "#EXTM3U\n" + links.joined())
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/list.m3u"), timeout: .seconds(5), refresh: .seconds(3600))
        defer { fixture.remove() }
        for place in 0..<9 {
            #expect(throws: VolumeError.accessDenied) { try fixture.lookup("\(place).mkv").get() }
        }
        #expect(server.requests.count { $0.path == "/list.m3u" } == 2)
    }

    @Test func anEntryKeepsItsNameForAsLongAsItsURLIsListed() throws {
        try withList { fixture, list, _ in
            list.set("#EXTM3U\n#EXTINF:1,Song\n/a.mp3\n#EXTINF:2,Song\n/b.mp3\n")
            #expect(eventually { fixture.names() == .success(["First.mp3", "Second.mp3"]) })
            list.set("#EXTM3U\n#EXTINF:0,Second\n/new.mp3\n#EXTINF:2,Other\n/b.mp3\n")
            let names = Result<[String], VolumeError>.success(["Second (2).mp3", "Second.mp3"])
            #expect(eventually { fixture.names() == names })
            let url = try fixture.volume.extendedAttribute(
                "user.reelfs.url", of: fixture.lookup("Second.mp3").get().node
            ).get()
            #expect(String(decoding: url, as: UTF8.self).hasSuffix("/b.mp3"))
            // Over a remount, too.
            list.set("#EXTM3U\n#EXTINF:2,Another\n/b.mp3\n")
            try fixture.restart()
            #expect(fixture.names() == .success(["Second.mp3"]))
        }
    }

    @Test func aLocalListIsReadAgainOnceItHasChanged() throws {
        let path = "/tmp/reelfs-list-\(getpid())-\(UInt32.random(in: 0 ... .max)).txt"
        defer { unlink(path) }
        try write("http://127.0.0.1:9/a.mp3\n", to: path)
        let fixture = try VolumeFixture(path, refresh: .seconds(300))
        defer { fixture.remove() }
        let (one, two) = (["a.mp3"], ["b.mp3", "a.mp3"])
        for _ in 0..<3 { #expect(fixture.names() == .success(one)) }
        try write("http://127.0.0.1:9/b.mp3\nhttp://127.0.0.1:9/a.mp3\n", to: path)
        #expect(eventually { fixture.names() == .success(two) })
        unlink(path)
        #expect(
            eventually {
                if fixture.names() != .success(two) { Issue.record("the tree is another") }
                return mark(fixture)?.hasPrefix("unreachable ") == true
            })
        try write("http://127.0.0.1:9/a.mp3\n", to: path)
        #expect(eventually { fixture.names() == .success(one) && mark(fixture) == nil })
    }
}
