import Glibc
import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// WebDAV collections: found, listed, refreshed, remembered.
@Suite struct WebDAVTests {
    private static func response(_ href: String, length: Int64? = nil, tag: String = "") -> String {
        let type = length == nil ? "<D:collection/>" : ""
        return "<D:response><D:href>\(href)</D:href><D:propstat><D:prop><D:resourcetype>\(type)</D:resourcetype>"
            + (length.map { "<D:getcontentlength>\($0)</D:getcontentlength>" } ?? "")
            + tag + "<D:getlastmodified>Mon, 06 May 2024 07:08:09 GMT</D:getlastmodified></D:prop>"
            + "<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
    }

    /// A server with `/films/one.mkv` and `/films/sub/two.mkv`.
    private final class Library: Sendable {
        let server: ScriptedServer
        let film = FileOrigin(length: 300_000)
        /// What a GET of a collection gets, and a PROPFIND instead of its answer.
        let page: Shared<[ServerStep]>
        let failure = Shared<[ServerStep]?>(nil)
        /// The names in `/films/`.
        let names = Shared(["one.mkv"])
        /// The tag of its members: the property `getetag`.
        let tag = Shared("")

        init(page: [ServerStep]) throws {
            let (film, failure, names, tag) = (film, failure, names, tag)
            let page = Shared(page)
            self.page = page
            server = try ScriptedServer { request in
                switch (request.method, request.path) {
                case ("PROPFIND", _) where failure.value != nil: return failure.value!
                case ("PROPFIND", "/films"): return ServerStep.answer(301, [("Location", "/films/")])
                case ("PROPFIND", "/films/"):
                    return answer(
                        "/films/", names.value.map { response("/films/\($0)", length: 300_000, tag: tag.value) })
                case ("PROPFIND", "/films/sub/"):
                    return answer("/films/sub/", [response("/films/sub/two.mkv", length: 300_000)])
                case ("GET", let path) where path.hasSuffix(".mkv"): return film.answer(request)
                case ("GET", _): return page.value
                default: return ServerStep.answer(404)
                }
            }
            @Sendable func answer(_ folder: String, _ members: [String]) -> [ServerStep] {
                let sub = folder == "/films/" ? [response(folder + "sub/")] : []
                let text = ([response(folder)] + members + sub).joined()
                return ServerStep.answer(
                    207, [("Content-Type", "text/xml")], body: "<D:multistatus xmlns:D=\"DAV:\">\(text)</D:multistatus>"
                )
            }
        }

        func requests(_ method: String) -> [ServerRequest] { server.requests.filter { $0.method == method } }
    }

    private func withLibrary(
        _ address: String = "dav", page: [ServerStep] = ServerStep.answer(405), refresh: Duration = .zero,
        _ body: (VolumeFixture, Library) throws -> Void
    ) throws {
        let library = try Library(page: page)
        defer { library.server.stop() }
        let url = library.server.url("/films/").text
        let fixture = try VolumeFixture(
            address + url.dropFirst(4), timeout: .seconds(5), refresh: refresh)
        defer { fixture.remove() }
        try body(fixture, library)
    }

    private let all = Result<[String], VolumeError>.success(["one.mkv", "sub"])

    static let pages: [[ServerStep]] = [
        ServerStep.answer(403), ServerStep.answer(405), ServerStep.answer(501), ServerStep.answer(404),
        ServerStep.answer(200, [("Content-Type", "text/html")], body: "<html><p>This is a WebDAV interface</html>"),
        ServerStep.answer(200, [("Content-Type", "application/xml")], body: "<d:error/>"),
        ServerStep.answer(200),
    ]

    @Test(arguments: pages.indices)
    func aFolderThatAPlainRequestDoesNotListIsFoundToBeWebDAVAndAskedForAtOnceFromThenOn(_ page: Int) throws {
        try withLibrary("http", page: Self.pages[page]) { fixture, library in
            #expect(fixture.names() == all)
            #expect(library.requests("GET").count == 1)
            #expect(try fixture.lookup("one.mkv").get().attributes.length == 300_000)
            let file = try fixture.open("one.mkv").get()
            #expect(fixture.read(file, 100, 1000).isRight(library.film, 100, 1000))
            fixture.volume.close(file)
            // The end of the file is asked for beside the open.
            #expect(eventually { fixture.volume.files.all.allSatisfy { !$0.isFetching } })
            let before = library.server.requests.count
            try fixture.restart()
            #expect(fixture.names() == all)
            let later = library.server.requests.dropFirst(before)
            #expect(later.allSatisfy { $0.method == "PROPFIND" && $0.path == "/films/" } && !later.isEmpty)
        }
    }

    private static let webPage = ServerStep.answer(
        200, [("Content-Type", "text/html")], body: "<html><p>This is a WebDAV interface</html>")

    @Test("A page at a collection's address without its slash is asked by PROPFIND, and else it is a file")
    func pageWithoutSlash() throws {
        let library = try Library(page: Self.webPage)
        defer { library.server.stop() }
        let fixture = try VolumeFixture(library.server.url("/films"), timeout: .seconds(5))
        #expect(fixture.names() == all && fixture.names("sub") == .success(["two.mkv"]))
        fixture.remove()
        for refusal in [405, 501, 200, 401] {
            library.failure.set(ServerStep.answer(refusal))
            let page = try VolumeFixture(library.server.url("/films"), timeout: .seconds(5))
            defer { page.remove() }
            #expect(page.names() == .success(["films"]), "\(refusal)")
        }
        // A page of a site is none that a collection shows.
        let asked = library.requests("PROPFIND").count
        let page = try VolumeFixture(library.server.url("/films/about.html"), timeout: .seconds(5))
        defer { page.remove() }
        #expect(page.names() == .success(["about.html"]) && library.requests("PROPFIND").count == asked)
    }

    @Test("A collection that shows a page to all and lists only to those who log in is reported with its status")
    func pageBeforeLogin() throws {
        let library = try Library(page: Self.webPage)
        library.failure.set(ServerStep.answer(401))
        defer { library.server.stop() }
        #expect { try VolumeFixture(library.server.url("/films/"), timeout: .seconds(5)) } throws: {
            "\($0)".contains("the origin answers 401")
        }
    }

    @Test func aListingThatWorksCostsNoOtherQuestion() throws {
        let page = "<title>Index of /films/</title><pre><a href=\"../\">../</a>\n<a href=\"one.mkv\">one.mkv</a></pre>"
        try withLibrary("http", page: ServerStep.answer(200, [("Content-Type", "text/html")], body: page)) {
            #expect($0.names() == .success(["one.mkv"]))
            #expect($1.requests("PROPFIND").isEmpty)
        }
    }

    @Test(arguments: [404, 401, 403, 500])
    func whereNeitherListsAnythingTheFirstAnswerIsTheReason(_ status: Int) throws {
        let library = try Library(page: ServerStep.answer(status == 500 ? 403 : status))
        library.failure.set(ServerStep.answer(status == 500 ? 405 : status))
        defer { library.server.stop() }
        #expect { try VolumeFixture(library.server.url("/films/"), timeout: .seconds(5)) } throws: {
            "\($0)".contains("the origin answers \(status == 500 ? 403 : status)")
        }
        // A file that is not there is no folder.
        #expect(throws: SourceError.self) {
            try VolumeFixture(library.server.url("/films/none.bin"), timeout: .seconds(5))
        }
        #expect(!library.requests("PROPFIND").contains { $0.path.contains("none") })
    }

    @Test func aSchemeOfItsOwnNeedsNoGuessAndASlashIsNotNeeded() throws {
        let library = try Library(page: ServerStep.answer(405))
        defer { library.server.stop() }
        let fixture = try VolumeFixture("dav://127.0.0.1:\(library.server.port)/films", timeout: .seconds(5))
        defer { fixture.remove() }
        #expect(fixture.names() == all && fixture.names("sub") == .success(["two.mkv"]))
        #expect(library.requests("GET").isEmpty)
        let sent = try #require(library.server.requests.first)
        #expect(
            sent.path == "/films/" && sent["depth"] == "1" && sent["content-type"]?.hasPrefix("application/xml") == true
        )
        #expect(String(decoding: sent.body, as: UTF8.self).contains("<propfind xmlns=\"DAV:\">"))
        let url = try fixture.volume.extendedAttribute("user.reelfs.url", of: fixture.lookup("sub/two.mkv").get().node)
            .get()
        #expect(String(decoding: url, as: UTF8.self) == library.server.url("/films/sub/two.mkv").text)
    }

    static let failures: [[ServerStep]] = [
        ServerStep.answer(404), ServerStep.answer(207, [], body: "<html>Log in</html>"), ServerStep.answer(207),
        ServerStep.answer(207, [], body: "<D:multistatus xmlns:D='DAV:'>" + response("/films/")),
        ServerStep.answer(207, [], body: "<D:multistatus xmlns:D='DAV:'>" + response("/x/") + "</D:multistatus>"),
    ]

    @Test(arguments: failures.indices)
    func aFolderNeverShrinksBecauseOfAnErrorAndPlaysWithoutItsServer(_ number: Int) throws {
        try withLibrary { fixture, library in
            #expect(fixture.names() == all && fixture.names("sub") == .success(["two.mkv"]))
            let file = try fixture.open("one.mkv").get()
            #expect(try fixture.readAll(file).get().count == 300_000)
            fixture.volume.close(file)
            library.failure.set(Self.failures[number])
            #expect(
                eventually {
                    if fixture.names() != all { Issue.record("the tree is another") }
                    return (try? fixture.volume.extendedAttribute("user.reelfs.stale", of: rootNode).get()) != nil
                })
            try fixture.restart()
            #expect(fixture.names() == all)
            library.server.stop()
            try fixture.restart()
            #expect(fixture.names() == all && fixture.names("sub") == .success(["two.mkv"]))
            let again = try fixture.open("one.mkv").get()
            #expect(fixture.read(again, 100, 1000).isRight(library.film, 100, 1000))
            fixture.volume.close(again)
        }
    }

    /// A version of the same length and date: a moment after an open no other question would be asked.
    @Test func anotherEntityTagInTheListingIsAnotherVersionOfTheFile() throws {
        try withLibrary { fixture, library in
            library.tag.set("<D:getetag>\"v1\"</D:getetag>")
            #expect(eventually { fixture.names() == all && library.requests("PROPFIND").count > 1 })
            func bytes() -> [UInt8]? {
                guard let file = try? fixture.open("one.mkv").get() else { return nil }
                defer { fixture.volume.close(file) }
                return try? fixture.readAll(file).get()
            }
            let whole = { library.film.expectedBytes(ByteRange(0, 300_000)) }
            let first = whole()
            #expect(bytes() == first)
            var version = library.film.version
            (version.bytes, version.entityTag) = (GeneratedBytes(seed: 2), "\"v2\"")
            library.film.change(to: version)
            // As before: the listing shows nothing new.
            library.tag.set("<D:getetag>W/&quot;v1&quot;</D:getetag>")
            let asked = library.requests("PROPFIND").count
            #expect(eventually { fixture.names() == all && library.requests("PROPFIND").count > asked + 2 })
            #expect(bytes() == first)
            library.tag.set("<D:getetag>v2</D:getetag>")
            let isNew = eventually {
                _ = fixture.names()
                return bytes() == whole()
            }
            #expect(isNew)
            #expect(whole() != first)
        }
    }

    @Test(arguments: [423, 425, 429])
    func aServerThatSaysWaitIsAskedAgain(_ status: Int) throws {
        let moments = Shared<[ContinuousClock.Instant]>([])
        let server = try ScriptedServer { _ in
            moments.change { $0.append(.now) }
            if moments.value.count == 1 { return ServerStep.answer(status, [("Retry-After", "1")]) }
            return ServerStep.answer(
                207,
                body:
                    "<D:multistatus xmlns:D='DAV:'>\(Self.response("/"))\(Self.response("/a", length: 1))</D:multistatus>"
            )
        }
        defer { server.stop() }
        let fixture = try VolumeFixture("dav://127.0.0.1:\(server.port)/", timeout: .seconds(5))
        defer { fixture.remove() }
        #expect(fixture.names() == .success(["a"]))
        let asked = moments.value
        // Without the header it would be asked sooner.
        #expect(asked.count == 2 && asked[1] - asked[0] >= .seconds(1))
    }
}
