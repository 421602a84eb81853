import Glibc
import ReelCore
import TestKit
import Testing

@testable import ReelVolume

/// Names, lengths and listings through the volume.
@Suite struct TreeTests {
    /// A listing as nginx writes it, whose text a test can change; files of one length below it.
    private final class Site: Sendable {
        let film = FileOrigin(length: 1_000_000)
        let server: ScriptedServer

        init(_ names: [(String, Int64?)]) throws {
            let (listing, film) = (Shared(""), film)
            server = try ScriptedServer { request in
                if request.path.hasSuffix("/") {
                    return ServerStep.answer(200, [("Content-Type", "text/html")], body: listing.value)
                }
                return request.path.contains("missing") ? ServerStep.answer(404) : film.answer(request)
            }
            self.text = listing
            show(names)
        }

        let text: Shared<String>

        /// - Parameter names: with the length that the listing gives, nil if it gives none.
        func show(_ names: [(String, Int64?)]) {
            let lines = names.map { name, length in
                "<a href=\"\(name)\">\(name)</a>      21-Nov-2026 10:00      \(length.map { "\($0)" } ?? "-")\n"
            }
            text.set(
                "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><hr><pre><a href=\"../\">../</a>\n"
                    + lines.joined() + "</pre><hr></body></html>")
        }

        var listingRequests: Int { server.requests.count { $0.path.hasSuffix("/") } }
    }

    private func withSite(_ names: [(String, Int64?)], _ body: (VolumeFixture, Site) throws -> Void) throws {
        let site = try Site(names)
        defer { site.server.stop() }
        let fixture = try VolumeFixture(site.server.url("/"))
        defer { fixture.remove() }
        try body(fixture, site)
    }

    @Test func lengthsOfTheListingNeedNoRequestAnEntry() throws {
        let names = (0..<2000).map { ("film%20\($0).mkv", Int64?(1_000_000)) }
        try withSite(names) { fixture, site in
            #expect(fixture.names().map(\.count) == .success(2000))
            for number in 0..<2000 {
                #expect(fixture.lookup("film \(number).mkv").map(\.attributes.length) == .success(1_000_000))
            }
            #expect(site.server.requests.count == 1)
        }
    }

    @Test func lengthsThatNoListingTellsAreAskedForOnceAndRemembered() throws {
        let names = (0..<100).map { ("\($0).mkv", Int64?.none) }
        try withSite(names) { fixture, site in
            for number in 0..<100 {
                #expect(fixture.lookup("\(number).mkv").map(\.attributes.length) == .success(1_000_000))
            }
            let requests = site.server.requests
            #expect(requests.count == 101)
            #expect(requests.dropFirst().allSatisfy { $0["range"] == "bytes=0-0" })
            try fixture.restart()
            let before = site.server.requests.count
            for number in 0..<100 {
                #expect(fixture.lookup("\(number).mkv").map(\.attributes.length) == .success(1_000_000))
            }
            #expect(site.server.requests.count == before)
        }
    }

    /// The end of a media file is asked for by the length that the listing gives: it may lie behind the real one, or
    /// across it.
    @Test(arguments: [0, 999, 999_999, 1_000_001, 1_100_000, 5_000_000, BlockSize.longestFile])
    func aListingThatLiesAboutALengthIsCorrectedAtTheFirstOpen(_ length: Int64) throws {
        try withSite([("film.mkv", length)]) { fixture, site in
            let told = try fixture.lookup("film.mkv").get()
            #expect(told.attributes.length == length)
            let file = try fixture.open("film.mkv").get()
            #expect(fixture.readAll(file).isRight(site.film, 0, 1_000_000))
            let corrected = try fixture.lookup("film.mkv").get()
            #expect(corrected.attributes.length == 1_000_000)
            #expect(corrected.node != told.node)
            #expect(corrected.attributes.inode == told.attributes.inode)
            fixture.volume.close(file)
        }
    }

    @Test func aDirectoryIsListedWhenEnteredAndNotBefore() throws {
        try withSite([("sub/", nil)]) { fixture, site in
            #expect(fixture.names() == .success(["sub"]))
            #expect(site.listingRequests == 1)
            #expect(fixture.names("sub") == .success(["sub"]))
            #expect(fixture.names("sub/sub") == .success(["sub"]))
            #expect(site.listingRequests == 3)
        }
    }

    @Test func anUnknownDirectoryIsAnErrorAndNotEmpty() throws {
        try withSite([("sub/", nil)]) { fixture, site in
            site.server.stop()
            #expect(fixture.names("sub") == .failure(.offline))
        }
    }

    @Test func namesAndErrorsAreThoseOfAFilesystem() throws {
        try withSite([("film.mkv", 1_000_000), ("missing.mkv", 10), ("sub/", nil)]) { fixture, _ in
            #expect(fixture.lookup("nothing").map(\.node) == .failure(.notFound))
            #expect(fixture.lookup(String(repeating: "x", count: 256)).map(\.node) == .failure(.nameTooLong))
            #expect(fixture.lookup("film.mkv/below").map(\.node) == .failure(.notDirectory))
            let file = try fixture.lookup("film.mkv").get()
            #expect(fixture.volume.extendedAttribute("user.nothing", of: file.node) == .failure(.noAttribute))
            let acl = fixture.volume.extendedAttribute("system.posix_acl_access", of: file.node)
            #expect(acl == .failure(.unsupported))
            guard case .failure(let gone) = fixture.open("missing.mkv") else { Issue.record("opened"); return }
            #expect(gone == .stale)
            let directory = try fixture.lookup("sub").get()
            let opened = fixture.wait { fixture.volume.open(directory.node, $0) }
            guard case .failure(.isDirectory) = opened else { Issue.record("a directory was opened as a file"); return }
        }
    }

    @Test func theURLOfAFileIsSeenWithoutCredentials() throws {
        try withSite([("film.mkv", 1_000_000)]) { fixture, site in
            let entry = try fixture.lookup("film.mkv").get()
            let url = try fixture.volume.extendedAttribute("user.reelfs.url", of: entry.node).get()
            #expect(String(decoding: url, as: UTF8.self) == site.server.url("/film.mkv").text)
        }
    }

    @Test func aListIsADirectoryOfItsFiles() throws {
        let film = FileOrigin(length: 1000)
        let list = "#EXTM3U\n#EXTINF:10,First Song\na.mp3\n#EXTINF:10,First Song\nb.mp3\n/c.mp3\n"
        let server = try ScriptedServer { request in
            request.path == "/lists/all.m3u"
                ? ServerStep.answer(200, [("Content-Type", "audio/x-mpegurl")], body: list) : film.answer(request)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/lists/all.m3u"))
        defer { fixture.remove() }
        let names = try fixture.names().get()
        #expect(names.count == 3 && Set(names).count == 3)
        #expect(names.contains("First Song.mp3") && names.contains("c.mp3"))
        let file = try fixture.open(names[1]).get()
        #expect(fixture.readAll(file).isRight(film, 0, 1000))
        fixture.volume.close(file)
        #expect(server.requests.contains { $0.path == "/lists/b.mp3" })
        server.stop()
        try fixture.restart()
        #expect(fixture.names() == .success(names))
    }

    @Test(
        arguments: ["/films", "/all.m3u"],
        [
            ("text/plain", "Service unavailable"), ("application/json", "{\"error\": \"maintenance\"}"),
            ("application/octet-stream", "sorry"), ("text/html", "<html><body>password</body></html>"),
            ("video/mp4", "0123456789"),
        ])
    func anAnswerOfAnotherKindAtMountTimeTakesNoKnownTreeAway(_ path: String, _ other: (String, String)) throws {
        let isOther = Shared(false)
        let server = try ScriptedServer { request in
            if isOther.value { return ServerStep.answer(200, [("Content-Type", other.0)], body: other.1) }
            return path == "/films"
                ? ServerStep.answer(
                    200, [("Content-Type", "text/html")],
                    body: "<html><title>Index of /films</title><h1>Index of /films</h1><pre><a href=\"../\">../</a>\n"
                        + "<a href=\"a.mp3\">a.mp3</a>  21-Nov-2026 10:00  1000\n</pre></html>")
                : ServerStep.answer(200, [("Content-Type", "audio/x-mpegurl")], body: "#EXTM3U\na.mp3\n")
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url(path))
        defer { fixture.remove() }
        #expect(fixture.names() == .success(["a.mp3"]))
        isOther.set(true)
        try fixture.restart()
        #expect(fixture.names() == .success(["a.mp3"]))
    }

    @Test func anEmptyListAtMountTimeIsNoOtherKindOfSource() throws {
        let isEmpty = Shared(false)
        let segment = FileOrigin(length: 100_000)
        let server = try ScriptedServer { request in
            if request.path == "/s.ts" { return segment.answer(request) }
            guard request.path == "/film.m3u8" else { return ServerStep.answer(404) }
            let list =
                "#EXTM3U\n" + (isEmpty.value ? "" : "#EXT-X-TARGETDURATION:2\n#EXTINF:2,\ns.ts\n#EXT-X-ENDLIST\n")
            return ServerStep.answer(200, [("Content-Type", "application/vnd.apple.mpegurl")], body: list)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/film.m3u8"))
        defer { fixture.remove() }
        #expect(fixture.names() == .success(["film.ts"]))
        isEmpty.set(true)
        try fixture.restart()
        isEmpty.set(false)
        #expect(fixture.names() == .success(["film.ts"]))
        let file = try fixture.open("film.ts").get()
        #expect(fixture.read(file, 0, 1000).isRight(segment, 0, 1000))
        fixture.volume.close(file)
    }

    @Test func aLoginPageIsNoListing() throws {
        let server = try ScriptedServer { _ in
            ServerStep.answer(
                200, [("Content-Type", "text/html")], body: "<html><body><form>password</form></body></html>")
        }
        defer { server.stop() }
        let parent = "/tmp/reelfs-refused-\(getpid())"
        mkdir(parent, 0o700)
        defer { removeTree(parent) }
        #expect(throws: SourceError.self) { try VolumeFixture(server.url("/films/").text, below: parent) }
        #expect(rmdir(parent) == 0, "the fixture leaves its directory")
    }
}
