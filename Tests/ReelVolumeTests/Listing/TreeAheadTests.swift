import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// Folders that are listed before a program asks: ahead of one that walks, or all of them after the mount.
@Suite struct TreeAheadTests {
    /// A server of folders; a test says what is in each, and which answers wait.
    private final class Library: Sendable {
        /// By path, such as `/d07/`; others have one file.
        let folders: [String: [String]]
        /// Answers for these wait for the gate.
        let held = Shared<Set<String>>([])
        let refused = Shared<Set<String>>([])
        let gate = Gate()
        let server: ScriptedServer

        init(_ folders: [String: [String]]) throws {
            self.folders = folders
            let (held, refused, gate) = (held, refused, gate)
            server = try ScriptedServer { request in
                let path = request.path
                guard path.hasSuffix("/") else { return ServerStep.answer(404) }
                if refused.value.contains(path) { return ServerStep.answer(403) }
                let lines = (folders[path] ?? folders["*"] ?? ["film.mkv"]).map {
                    $0.hasSuffix("/")
                        ? "<a href=\"\($0)\">\($0)</a>  21-Nov-2026 10:00  -\n"
                        : "<a href=\"\($0)\">\($0)</a>  21-Nov-2026 10:00  1000\n"
                }
                let page =
                    "<html><title>Index of \(path)</title><h1>Index of \(path)</h1><pre><a href=\"../\">../</a>\n"
                    + lines.joined() + "</pre></html>"
                let answer = ServerStep.answer(200, [("Content-Type", "text/html")], body: page)
                return held.value.contains(path) ? [.wait(gate)] + answer : answer
            }
        }

        func requests(_ path: String) -> Int { server.requests.count { $0.path == path } }
        var count: Int { server.requests.count }
    }

    @Test("A walk that has ended before it begins holds nothing")
    func endedBefore() throws {
        try withLibrary { (fixture, _) throws in
            _ = fixture.names()
            let tree = fixture.volume.tree
            let (before, walk) = (tree.nodes.counts.known, FolderWalk(tree, .ahead))
            let entry = try fixture.lookup("d00").get()
            let held = try #require(tree.nodes.hold(entry.node))
            let root = try #require(tree.root.directory?.listing)
            walk.end()
            walk.start(at: FolderWalk.Folder(path: "d00", node: held))
            walk.start(in: FolderWalk.Folder(path: "", node: tree.root, listed: root), from: "d00")
            fixture.volume.forget(entry.node, count: 1)
            #expect(tree.nodes.counts.known == before)
        }
    }

    private static func name(_ number: Int) -> String { number < 10 ? "d0\(number)" : "d\(number)" }

    /// Forty folders in the root.
    private func withLibrary(
        _ folders: [String: [String]] = ["/": (0..<40).map { name($0) + "/" }], timeout: Duration = .seconds(10),
        rest: Duration = .seconds(60), log: Monitor<[RequestRecord]> = Monitor([]),
        _ body: (VolumeFixture, Library) throws -> Void
    ) throws {
        let library = try Library(folders)
        defer { library.server.stop() }
        let fixture = try VolumeFixture(library.server.url("/").text, timeout: timeout, refresh: .seconds(3600)) {
            record in log.withLock { $0.append(record) }
        }
        defer { fixture.remove() }
        // What is listed ahead does not depend on how quick the machine is.
        fixture.volume.ahead.state.withLock { $0.walks.rest = rest }
        try body(fixture, library)
    }

    private let film = Result<[String], VolumeError>.success(["film.mkv"])

    private func read(_ fixture: VolumeFixture, _ numbers: some Sequence<Int>) {
        for number in numbers { #expect(fixture.names(Self.name(number)) == film) }
    }

    /// All that has been begun on the queue is done.
    private func settle(_ fixture: VolumeFixture) {
        for _ in 0..<3 {
            let isDone = Monitor<Bool?>(nil)
            fixture.volume.services.later { isDone.withLock { $0 = true } }
            _ = isDone.wait(atMost: .seconds(10)) { $0 }
        }
    }

    @Test("A look into two folders, again and again, lists nothing else")
    func twoFolders() throws {
        try withLibrary { fixture, library in
            for _ in 0..<5 { read(fixture, [0, 1]) }
            settle(fixture)
            #expect(library.count == 3)
        }
    }

    @Test("The third folder of a walk has the next ones listed, as many as the budget says, and they cost no request")
    func ahead() throws {
        try withLibrary { fixture, library in
            read(fixture, 0...2)
            // Sixteen from the third one on.
            #expect(eventually { library.count == 1 + 18 })
            settle(fixture)
            #expect(library.count == 19 && library.requests("/d17/") == 1 && library.requests("/d18/") == 0)
            read(fixture, 0..<40)
            #expect(library.count == 41 && Set(library.server.requests.map(\.path)).count == 41)
        }
    }

    @Test("A walk from a folder in the middle has those behind it listed first, then those before it")
    func middle() throws {
        try withLibrary { fixture, library in
            read(fixture, [10, 20, 30])
            #expect(eventually { library.requests("/d39/") == 1 && library.requests("/d05/") == 1 })
            settle(fixture)
            #expect(library.requests("/d06/") == 0)
        }
    }

    @Test("What is in a folder is listed before the next folders")
    func depth() throws {
        var folders = ["/": (0..<40).map { Self.name($0) + "/" }]
        for number in 0..<40 { folders["/\(Self.name(number))/"] = ["x/", "y/", "z/"] }
        try withLibrary(folders) { fixture, library in
            for number in 0...2 { #expect(fixture.names(Self.name(number)) == .success(["x", "y", "z"])) }
            for number in 0..<40 {
                for child in ["x", "y", "z"] { #expect(fixture.names("\(Self.name(number))/\(child)") == film) }
            }
            let requests = library.server.requests.map(\.path)
            let twice = Dictionary(grouping: requests) { $0 }.filter { $1.count > 1 }.keys
            #expect(twice.isEmpty && requests.count == 161, "\(twice)")
        }
    }

    @Test("Twelve are listed at a time, and a program's own listing does not wait for them")
    func demandFirst() throws {
        try withLibrary { fixture, library in
            library.held.set(Set((3..<35).map { "/\(Self.name($0))/" }))
            read(fixture, 0...2)
            #expect(eventually { library.count == 4 + 12 })
            read(fixture, 35...37)
            settle(fixture)
            #expect(library.requests("/d35/") == 1 && library.requests("/d37/") == 1)
            #expect(library.count <= 4 + 12 + 3)
            library.gate.open()
            #expect(eventually { library.count >= 30 })
        }
    }

    @Test("A walk that stops has its requests ended within a second, and goes on with the next folder that is read")
    func stop() throws {
        let log = Monitor<[RequestRecord]>([])
        // Six times what the test waits for their ends.
        try withLibrary(timeout: .seconds(120), rest: .milliseconds(700), log: log) { fixture, library in
            library.held.set(Set((3..<40).map { "/\(Self.name($0))/" }))
            read(fixture, 0...2)
            #expect(eventually { library.count == 4 + 12 })
            #expect(log.wait(atMost: .seconds(20)) { $0.count >= 4 + 12 ? true : nil } == true)
            // On a busy machine the three folders are read so slowly that the walk may begin twice.
            let asked = library.count
            settle(fixture)
            #expect(library.count == asked && asked <= 4 + 12 + 3)
            #expect(fixture.volume.status().staleDirectories.isEmpty)
            library.gate.open()
            read(fixture, 3..<40)
            #expect(Set(library.server.requests.map(\.path)).count == 41)
        }
    }

    @Test("A folder that a program waits for is not given up, and is asked for once")
    func joined() throws {
        let log = Monitor<[RequestRecord]>([])
        try withLibrary(log: log) { fixture, library in
            library.held.set(["/d03/", "/d04/"])
            read(fixture, 0...2)
            #expect(eventually { library.requests("/d04/") == 1 })
            let reader = startJoinable { fixture.names("d04") == .success(["film.mkv"]) }
            let directory = { (fixture.volume.tree.nodes[try fixture.lookup("d04").get().node])?.directory }
            #expect(eventually { (try? directory()?.demand.isDemanded) == true })
            // The walk does not stop while a program waits; nothing is ended until that has what it wants.
            library.gate.open()
            #expect(reader.join())
            #expect(library.requests("/d04/") == 1)
        }
    }

    @Test("A listing that was given up is asked for again where a program comes for it at that moment")
    func givenUp() throws {
        try withLibrary { fixture, library in
            library.held.set(["/d05/"])
            let entry = try fixture.lookup("d05").get()
            let node = try #require(fixture.volume.tree.nodes[entry.node])
            let directory = try #require(node.directory)
            let found = Monitor<Bool?>(nil)
            fixture.volume.tree.listAhead(node, directory) { result in
                if case .givenUp = result { found.withLock { $0 = true } } else { found.withLock { $0 = false } }
            }
            #expect(eventually { library.requests("/d05/") == 1 })
            directory.demand.giveUp()
            let reader = startJoinable { fixture.names("d05") == .success(["film.mkv"]) }
            #expect(found.wait(atMost: .seconds(10)) { $0 } == true)
            library.gate.open()
            #expect(reader.join())
            #expect(library.requests("/d05/") == 2)
        }
    }

    @Test("A tree without end costs no more than the budget")
    func endless() throws {
        try withLibrary(["*": (0..<9).map { Self.name($0) + "/" }]) { fixture, library in
            // Else the folders of the first that is answered would take the whole budget.
            library.held.set(Set((3..<9).map { "/\(Self.name($0))/" }))
            let all = Result<[String], VolumeError>.success((0..<9).map { Self.name($0) })
            for number in 0...2 { #expect(fixture.names(Self.name(number)) == all) }
            #expect(eventually { library.requests("/d02/d00/") == 1 })
            library.gate.open()
            #expect(eventually { library.count == 1 + 2 + 16 })
            settle(fixture)
            #expect(library.count == 1 + 2 + 16 && library.requests("/d02/d00/") == 1)
        }
    }

    @Test("Folders that cannot be listed end the walk, and change nothing that a program sees")
    func refused() throws {
        try withLibrary { fixture, library in
            library.refused.set(Set((3..<40).map { "/\(Self.name($0))/" }))
            read(fixture, 0...2)
            #expect(eventually { library.count >= 4 + 4 })
            // Those that were under way when the fourth failed.
            settle(fixture)
            #expect(library.count <= 4 + 16)
            #expect(fixture.names("d03") == .failure(.accessDenied))
            library.refused.set([])
            read(fixture, [3, 4])
        }
    }

    @Test("Nothing is listed ahead of an origin that is away")
    func away() throws {
        let log = Monitor<[RequestRecord]>([])
        try withLibrary(timeout: .seconds(1), log: log) { fixture, library in
            library.server.stop()
            for number in 0..<3 { #expect(throws: VolumeError.self) { try fixture.names(Self.name(number)).get() } }
            settle(fixture)
            let asked = Set(log.withLock { $0 }.map(\.file))
            #expect(asked.count <= 4, "\(asked)")
        }
    }

    @Test("A list's folders, which may be anywhere, are not listed ahead")
    func lists() throws {
        let url = try #require(ResourceURL("http://127.0.0.1/list"))
        #expect(!FeedSource(root: .url(url)).listsAhead && !PlaylistSource(root: .url(url)).listsAhead)
        #expect(!HLSSource(root: .url(url)).listsAhead && !FeedSource(root: .path("/list")).listsAhead)
        #expect(ListingSource(root: .url(url)).listsAhead && WebDAVSource(root: .url(url)).listsAhead)
    }

    @Test("A warm mount lists all folders once, says how many, and asks for none of them after a remount")
    func warm() throws {
        var folders = ["/": (0..<20).map { Self.name($0) + "/" }]
        folders["/d05/"] = ["x/", "y/"]
        let library = try Library(folders)
        defer { library.server.stop() }
        library.refused.set(["/d07/"])
        let fixture = try VolumeFixture(library.server.url("/").text, refresh: .seconds(3600), warm: .all)
        defer { fixture.remove() }
        #expect(eventually { fixture.volume.status().warming?.isOver == true })
        let status = try #require(fixture.volume.status().warming)
        #expect(status.folders == 23 && status.failed == 1)
        #expect(library.count == 23 && eventually { fixture.volume.tree.nodes.counts.known == 1 })
        for number in 0..<20 where number != 5 && number != 7 { read(fixture, [number]) }
        #expect(fixture.names("d05/x") == film)
        try fixture.restart()
        #expect(eventually { fixture.volume.status().warming?.isOver == true })
        // The root, and the one that is still not listed.
        let again = library.server.requests[23...].map(\.path)
        #expect(again.contains("/") && again.allSatisfy { $0 == "/" || $0 == "/d07/" }, "\(again)")
    }

    @Test("A warm mount that ends in the middle of it ends at once")
    func warmEnds() throws {
        let library = try Library(["*": (0..<5).map { Self.name($0) + "/" }])
        defer { library.server.stop() }
        let fixture = try VolumeFixture(
            library.server.url("/").text, timeout: .seconds(120), refresh: .seconds(3600), warm: .all)
        defer { fixture.remove() }
        #expect(eventually { library.count > 50 })
        // The walk has no end of its own.
        #expect(
            startJoinable {
                fixture.stop()
                return true
            }.join())
    }
}
