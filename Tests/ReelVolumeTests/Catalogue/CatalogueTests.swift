import Glibc
import Logging
import ReelCore
import ReelFilesystem
import ReelHTTP
import ReelThreads
import Synchronization
import TestKit
import Testing

@testable import ReelCache
@testable import ReelVolume

/// A catalogue without a kernel: scripted origins, a real transport for each source, one cache.
private final class CatalogueFixture: KernelCaller, Sendable {
    private let directory: String
    private let cap: Int64
    private let running = Mutex<(store: Store, volume: CatalogueVolume)?>(nil)
    let kernel = Kernel()

    init(_ entries: [CatalogueEntry], cap: Int64 = 1 << 30) throws {
        var template = Array("/tmp/reelfs-catalogue-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw VolumeError.failed }
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        self.cap = cap
        try start(entries)
    }

    var volume: CatalogueVolume { running.withLock { $0!.volume } }
    var store: Store { running.withLock { $0!.store } }
    var filesystem: any Filesystem { volume }

    func start(_ entries: [CatalogueEntry]) throws {
        let store = try Store(
            directory: directory + "/cache", source: "/films.toml", limits: CacheLimits(cap: cap), owner: "/nowhere")
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let volume = CatalogueVolume(entries, store: store, logger: logger)
        volume.connect(kernel)
        running.withLock { $0 = (store, volume) }
    }

    func stop() {
        guard let running = running.withLock({ $0.take() }) else { return }
        running.volume.shutdown()
        running.store.close()
    }

    func remove() {
        stop()
        removeTree(directory)
    }

    /// All folders below one, without looking into sources.
    func folders(_ node: NodeID = rootNode, _ path: [String] = []) -> Set<[String]> {
        guard let names = try? names(path.joined(separator: "/")).get() else { return [] }
        var found: Set<[String]> = []
        for name in names {
            guard let entry = try? lookup((path + [name]).joined(separator: "/")).get() else { continue }
            found.insert(path + [name])
            if splitNode(entry.node).source == 0 { found.formUnion(folders(entry.node, path + [name])) }
        }
        return found
    }
}

/// - Parameters:
///   - login: sent as the header `X-Login`.
///   - ended: called once its transport has ended.
private func entry(
    _ path: String, _ address: String, login: String? = nil, timeout: Duration = .seconds(10),
    refresh: Duration = .seconds(300), keepNext: Int = 0, ended: @escaping @Sendable () -> Void = {}
) -> CatalogueEntry {
    CatalogueEntry(
        path: path.split(separator: "/").map { String($0) }, address: address,
        scope: sourceDirectoryName(address + (login ?? "")), fingerprint: address + " \(login ?? "") \(refresh)",
        options: VolumeOptions(timeout: timeout, refresh: refresh, prebuffer: 0, keepNext: keepNext)
    ) { (line) throws(CatalogueFailure) in
        var configuration = TransportConfiguration(version: "test")
        configuration.line = line
        configuration.usesProxies = false
        if let login { configuration.headers = [("X-Login", login)] }
        guard let origin = try? CurlOrigin(configuration) else { throw CatalogueFailure("no transport") }
        return CatalogueConnection(origin) {
            origin.shutdown()
            ended()
        }
    }
}

/// A listing of these files, and the files.
private func folder(_ files: [String: FileOrigin]) -> ScriptedServer.Script {
    { request in
        if let file = files[String(request.path.dropFirst())] { return file.answer(request) }
        let lines = files.sorted { $0.key < $1.key }.map { name, file in
            "<a href=\"\(name)\">\(name)</a>  21-Nov-2026 10:00  \(file.expectedLength)\n"
        }
        let page = "<html><title>Index of /</title><h1>Index of /</h1><pre><a href=\"../\">../</a>\n"
        return request.path == "/"
            ? ServerStep.answer(200, [("Content-Type", "text/html")], body: page + lines.joined() + "</pre></html>")
            : ServerStep.answer(404)
    }
}

extension FileOrigin {
    fileprivate var expectedLength: Int64 { version.length }
}

extension ScriptedServer {
    fileprivate var address: String { url("/").text }
}

/// Several sources as one tree.
@Suite struct CatalogueTests {
    @Test("A source that never answers holds up nothing of the others, and a look at it ends in time")
    func silence() throws {
        let film = FileOrigin(length: 300_000)
        let server = try ScriptedServer(folder(["a.mkv": film]))
        defer { server.stop() }
        let silent = try ScriptedServer { _ in [.stall] }
        defer { silent.stop() }
        let fixture = try CatalogueFixture([
            entry("silent", silent.address, timeout: .seconds(2)), entry("films", server.address),
        ])
        defer { fixture.remove() }
        // Its request is out, and no answer comes.
        #expect(eventually { silent.requests.count > 0 })
        #expect(fixture.names() == .success(["silent", "films"]))
        #expect((try? fixture.lookup("silent").get())?.attributes.isDirectory == true)
        #expect(fixture.names("films") == .success(["a.mkv"]))
        let file = try fixture.open("films/a.mkv").get()
        #expect(fixture.readAll(file).isRight(film, 0, 300_000))
        fixture.volume.close(file)
        #expect(fixture.volume.status().closedSources?.map(\.path) == ["silent"])
        #expect(fixture.names("silent") == .failure(.timedOut))
        #expect(fixture.lookup("silent/x").map(\.node) == .failure(.timedOut))
    }

    @Test("A prefetch of a source that leaves ends, and holds none of its files")
    func leavesWhileFetched() throws {
        let gate = Gate()
        defer { gate.open() }
        let film = FileOrigin(length: 5_000_000)
        let server = try ScriptedServer { request in
            request.path == "/a.mkv" ? [.wait(gate)] : folder(["a.mkv": film])(request)
        }
        defer { server.stop() }
        let fixture = try CatalogueFixture([entry("films", server.address)])
        defer { fixture.remove() }
        let jobs = fixture.volume.prefetches
        let number = try jobs.start(PrefetchRequest(paths: ["films"]), fixture.volume.maintenance)
        #expect(eventually { server.requests.contains { $0.path == "/a.mkv" } })
        fixture.volume.replace(with: [])
        #expect(eventually { jobs.all.first { $0.number == number }?.isOver == true })
        let failures = jobs.all.flatMap(\.failures)
        #expect(
            failures.map(\.path) == ["films/a.mkv"]
                && fixture.store.files.all.allSatisfy {
                    !fixture.store.files.isHeld($0.row)
                }, "\(failures)")
    }

    @Test("An eviction tells that it goes on, and ends where its source leaves")
    func leavesWhileEvicted() throws {
        let films = Dictionary(uniqueKeysWithValues: ["a", "b"].map { ("\($0).mkv", FileOrigin(length: 300_000)) })
        let server = try ScriptedServer(folder(films))
        defer { server.stop() }
        let hasEnded = Shared(false)
        let fixture = try CatalogueFixture([entry("films", server.address) { hasEnded.set(true) }])
        defer { fixture.remove() }
        for (name, film) in films {
            let file = try fixture.open("films/\(name)").get()
            #expect(fixture.readAll(file).isRight(film, 0, 300_000))
            fixture.volume.close(file)
        }
        let isTold = Monitor(false)
        let maintenance = fixture.volume.maintenance
        // The source leaves between one file and the next.
        let watch = MaintenanceWatch { _ in
            if isTold.withLock({ $0 }) { return }
            fixture.volume.replace(with: [])
            isTold.withLock { $0 = true }
            #expect(eventually { hasEnded.value })
        }
        let failure = Monitor<String?>(nil)
        let thread = Thread("evict") {
            do throws(MaintenanceFailure) {
                let report = try maintenance.evict("films", watch)
                failure.withLock { $0 = "\(report.files) files" }
            } catch {
                failure.withLock { $0 = error.description }
            }
        }
        #expect(failure.wait(atMost: .seconds(20)) { $0 } == "its source has left the catalogue")
        if failure.withLock({ $0 }) != nil { thread?.join() } else { thread?.detach() }
        #expect(isTold.withLock { $0 })
    }

    @Test("A source that leaves while its film plays fetches no next film")
    func leavesWhileKept() throws {
        let (film, gate) = (FileOrigin(length: 3 << 20), Gate())
        defer { gate.open() }
        let files = folder(["a.mkv": film, "b.mkv": film])
        let server = try ScriptedServer { request in
            (request.path == "/b.mkv" ? [.wait(gate)] : []) + files(request)
        }
        defer { server.stop() }
        let fixture = try CatalogueFixture([entry("films", server.address, keepNext: 1)])
        defer { fixture.remove() }
        let file = try fixture.open("films/a.mkv").get()
        #expect(fixture.readAll(file).isRight(film, 0, 3 << 20))
        let volume = try #require(fixture.volume.sources.first?.volume)
        #expect(eventually { volume.keeper?.status.first?.phase == .fetching })
        fixture.volume.replace(with: [])
        #expect(eventually { volume.keeper?.status.first?.phase == .waiting })
        fixture.volume.close(file)
    }

    @Test("What a source that has left had pinned is seen, unpinned and evicted by commands on all of the mount")
    func leavesPins() throws {
        let film = FileOrigin(length: 300_000)
        let server = try ScriptedServer(folder(["a.mkv": film]))
        defer { server.stop() }
        let fixture = try CatalogueFixture([entry("films", server.address)])
        defer { fixture.remove() }
        let file = try fixture.open("films/a.mkv").get()
        #expect(fixture.readAll(file).isRight(film, 0, 300_000))
        fixture.volume.close(file)
        _ = try fixture.volume.maintenance.pin("films", true, MaintenanceWatch())
        fixture.volume.replace(with: [])
        let maintenance = fixture.volume.maintenance
        func left() -> [Bool] { maintenance.cachedFiles().map { $0.isPinned && $0.path == "films/a.mkv" } }
        #expect(left() == [true] && maintenance.pinnedBytes == 300_000)
        #expect(try maintenance.pin("", false, MaintenanceWatch()).files == 1)
        #expect(left() == [false] && maintenance.pinnedBytes == 0)
        // It holds its files for as long as it ends.
        #expect(eventually { (try? maintenance.evict("", MaintenanceWatch()).bytes) == 300_000 })
        #expect(left() == [])
    }

    @Test("A source that is not open is judged by why", arguments: [401, 503, 404])
    func closed(_ status: Int) throws {
        let server = try ScriptedServer { _ in ServerStep.answer(status) }
        defer { server.stop() }
        let fixture = try CatalogueFixture([entry("films", server.address, timeout: .seconds(2))])
        defer { fixture.remove() }
        #expect(eventually { fixture.volume.status().closedSources?.first?.trouble != nil })
        let verdict = fixture.volume.status().verdict
        let expected: (Verdict.Word, String) =
            [401: (.refused, "login"), 503: (.slow, "origin")][status] ?? (.away, "origin")
        #expect(verdict?.word == expected.0 && verdict?.culprit == expected.1, "\(String(describing: verdict))")
    }

    @Test("A source that leaves while looks wait for its next attempt ends them")
    func leavesWhileUnwell() throws {
        let server = try ScriptedServer { request in
            let page =
                "<title>Index of /</title><pre><a href=\"sub/\">sub/</a>\n<a href=\"list.mkv\">list.mkv</a>\n</pre>"
            return request.path == "/"
                ? ServerStep.answer(200, [("Content-Type", "text/html")], body: page)
                : ServerStep.answer(503, [("Retry-After", "500")])
        }
        defer { server.stop() }
        let fixture = try CatalogueFixture([entry("films", server.address, timeout: .seconds(600))])
        defer { fixture.remove() }
        let node = try fixture.lookup("films/sub").get().node
        let folder = try fixture.lookup("films").get().node
        let answers = Monitor<[Bool]>([])
        fixture.volume.openDirectory(node) { result in
            answers.withLock { $0.append(result.map { _ in true } == .success(true)) }
        }
        // Its length is asked for.
        fixture.volume.lookup("list.mkv", in: folder) { result in
            answers.withLock { $0.append(result.map { _ in true } == .success(true)) }
        }
        #expect(eventually { Set(server.requests.map(\.path)).isSuperset(of: ["/sub/", "/list.mkv"]) })
        fixture.volume.replace(with: [])
        #expect(answers.wait(atMost: .seconds(20)) { $0.count == 2 ? $0 : nil } == [false, false])
    }

    @Test("The end of the mount waits for no source that is being opened")
    func end() throws {
        let silent = try ScriptedServer { _ in [.stall] }
        defer { silent.stop() }
        let fixture = try CatalogueFixture([entry("silent", silent.address, timeout: .seconds(600))])
        defer { fixture.remove() }
        #expect(eventually { silent.requests.count > 0 })
        fixture.stop()
        #expect(silent.requests.count == 1, "it asked again")
    }

    @Test("Two logins at one URL show and cache what each gets, also without the origin")
    func logins() throws {
        let films = ["one": FileOrigin(length: 200_000, seed: 1), "two": FileOrigin(length: 200_000, seed: 2)]
        let server = try ScriptedServer { request in
            guard let login = request["x-login"], let film = films[login] else { return ServerStep.answer(401) }
            return folder(["\(login).mkv": film, "film.mkv": film])(request)
        }
        defer { server.stop() }
        let entries = films.keys.sorted().map { entry($0, server.address, login: $0) }
        let fixture = try CatalogueFixture(entries + [entry("none", server.address)])
        defer { fixture.remove() }
        func look() throws {
            for (login, film) in films {
                #expect(fixture.names(login) == .success(["film.mkv", "\(login).mkv"]))
                let file = try fixture.open("\(login)/film.mkv").get()
                #expect(fixture.readAll(file).isRight(film, 0, 200_000))
                fixture.volume.close(file)
            }
        }
        try look()
        #expect(fixture.names("none") == .failure(.accessDenied))
        let listed = fixture.volume.maintenance.cachedFiles()
        #expect(Set(listed.compactMap(\.path)) == ["one/film.mkv", "two/film.mkv"])
        fixture.stop()
        server.stop()
        try fixture.start(entries)
        try look()
    }

    @Test("A catalogue that is read again keeps open files and unchanged sources, and forgets the others")
    func again() throws {
        let film = FileOrigin(length: 3 << 20)
        let server = try ScriptedServer(folder(["a.mkv": film, "b.mkv": film]))
        defer { server.stop() }
        let (kept, left) = (entry("kept/one", server.address), entry("kept/left", server.address, login: "x"))
        let fixture = try CatalogueFixture([kept, left])
        defer { fixture.remove() }
        let node = try fixture.lookup("kept/one").get().node
        let gone = try fixture.lookup("kept/left").get().node
        let file = try fixture.open("kept/left/a.mkv").get()
        #expect(fixture.read(file, 0, 65536).isRight(film, 0, 65536))
        // Both are open, so that neither asks for its listing later.
        #expect(fixture.names("kept/one") == .success(["a.mkv", "b.mkv"]))
        let asked = server.requests.count
        fixture.volume.replace(with: [kept, entry("new", server.address, login: "y")])
        #expect(fixture.names() == .success(["kept", "new"]))
        #expect(fixture.names("kept") == .success(["one"]))
        #expect(try fixture.lookup("kept/one").get().node == node)
        #expect(fixture.lookup("kept/left").map(\.node) == .failure(.notFound))
        #expect(fixture.kernel.forgotten.withLock { $0 }.contains("left"))
        #expect(fixture.kernel.forgotten.withLock { $0 }.contains("new"))
        #expect(fixture.names("new") == .success(["a.mkv", "b.mkv"]))
        #expect(fixture.volume.status().bytesServed == 65536, "a source that leaves takes its counters along")
        // It is read on to its end.
        #expect(fixture.readAll(file).isRight(film, 0, 3 << 20))
        fixture.volume.close(file)
        #expect(
            eventually {
                fixture.wait { fixture.volume.attributes(of: gone, $0) }.map { _ in true } == .failure(.stale)
            }, "a source that is not used ends")
        #expect(fixture.volume.status().bytesServed == 65536 + 3 << 20)
        #expect(server.requests[asked...].allSatisfy { $0.path != "/" || $0["x-login"] == "y" })
    }

    @Test("A source that could not be opened is tried again when it is looked at")
    func secondTry() throws {
        let film = FileOrigin(length: 1000)
        let first = try ScriptedServer(folder([:]))
        let port = first.port
        first.stop()
        let address = "http://127.0.0.1:\(port)/"
        let fixture = try CatalogueFixture([entry("films", address, timeout: .seconds(1))])
        defer { fixture.remove() }
        guard case .failure = fixture.names("films") else { throw VolumeError.failed }
        let trouble = try #require(fixture.volume.status().closedSources?.first?.trouble)
        #expect(trouble.contains(address))
        let server = try ScriptedServer(port: port, folder(["a.mkv": film]))
        defer { server.stop() }
        #expect(eventually(within: .seconds(20)) { fixture.names("films") == .success(["a.mkv"]) })
        #expect(fixture.volume.status().closedSources == nil)
    }

    @Test("Sources that write into a small cache at the same time read right, and the cap holds")
    func writers() throws {
        let cap: Int64 = 12 << 20
        let films = (1...3).map { FileOrigin(length: 6 << 20, seed: UInt64($0)) }
        let servers = try films.map { try ScriptedServer(folder(["a.mkv": $0])) }
        defer { for server in servers { server.stop() } }
        let fixture = try CatalogueFixture(
            servers.enumerated().map { entry("s\($0.offset)", $0.element.address) }, cap: cap)
        defer { fixture.remove() }
        let readers = films.enumerated().map { index, film in
            startJoinable {
                for _ in 0..<3 {
                    guard let file = try? fixture.open("s\(index)/a.mkv").get() else { return false }
                    defer { fixture.volume.close(file) }
                    guard fixture.readAll(file).isRight(film, 0, 6 << 20) else { return false }
                }
                return true
            }
        }
        for reader in readers { #expect(reader.join()) }
        #expect(fixture.store.usage.used <= cap)
    }

    @Test("The sources of a catalogue share one line")
    func line() throws {
        let films = [FileOrigin(length: 5000, seed: 1), FileOrigin(length: 6000, seed: 2)]
        let servers = try films.map { try ScriptedServer(["/film.mkv": $0]) }
        defer { for server in servers { server.stop() } }
        let lines = Shared<[ObjectIdentifier]>([])
        let entries = servers.enumerated().map { number, server in
            var made = entry("source\(number)", server.url("/film.mkv").text)
            let connect = made.connect
            made.connect = { (line) throws(CatalogueFailure) in
                lines.change { $0 += [ObjectIdentifier(line)] }
                return try connect(line)
            }
            return made
        }
        let fixture = try CatalogueFixture(entries)
        defer { fixture.remove() }
        for number in 0...1 {
            #expect(eventually { (try? fixture.lookup("source\(number)/film.mkv").get()) != nil })
        }
        #expect(lines.value.count == 2 && Set(lines.value).count == 1)
    }

    @Test("Folders of any catalogue are those of its paths, however often it is read again")
    func randomTrees() throws {
        var random = SeededGenerator()
        let fixture = try CatalogueFixture([])
        defer { fixture.remove() }
        var inodes: [[String]: UInt64] = [:]
        for _ in 0..<30 {
            var paths: [[String]] = []
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let path = (0..<Int.random(in: 1...4, using: &random)).map { _ in
                    ["a", "b", "é", "c d"].randomElement(using: &random)!
                }
                if paths.allSatisfy({ zip($0, path).contains { $0 != $1 } }) { paths.append(path) }
            }
            fixture.volume.replace(with: paths.map { entry($0.joined(separator: "/"), "/nowhere/at/all") })
            let model = Set(paths.flatMap { path in path.indices.map { Array(path[...$0]) } })
            #expect(fixture.folders() == model, "seed \(random.seed)")
            for path in model {
                let found = try fixture.lookup(path.joined(separator: "/")).get().attributes.inode
                #expect(inodes[path, default: found] == found, "seed \(random.seed)")
                inodes[path] = found
            }
        }
    }

    @Test("Commands on a path go to its source, on a folder to all below, and the paths are those of the mount")
    func commands() throws {
        let film = FileOrigin(length: 300_000)
        let server = try ScriptedServer(folder(["a.mkv": film]))
        defer { server.stop() }
        let fixture = try CatalogueFixture([
            entry("media/one", server.address), entry("media/two", server.address, login: "x"),
            entry("dead", "/nowhere/at/all"),
        ])
        defer { fixture.remove() }
        for path in ["media/one/a.mkv", "media/two/a.mkv"] {
            let file = try fixture.open(path).get()
            #expect(fixture.readAll(file).isRight(film, 0, 300_000))
            fixture.volume.close(file)
        }
        let commands = fixture.volume.maintenance
        #expect(Set(fixture.volume.status().files.map(\.path)) == ["media/one/a.mkv", "media/two/a.mkv"])
        #expect(try commands.pin("media", true).files == 2)
        #expect(try commands.pin("", true).unlistedDirectories == 1)
        #expect(commands.cachedFiles().count { $0.isPinned } == 2)
        #expect(try commands.pin("media/two/a.mkv", false).files == 1)
        #expect(commands.cachedFiles().filter { $0.isPinned }.map(\.path) == ["media/one/a.mkv"])
        #expect(try commands.verify(nil, repairs: false).files == 2)
        #expect(throws: MaintenanceFailure.self) { try commands.evict("media/three") }
        #expect(throws: MaintenanceFailure.self) { try commands.evict("dead/a") }
        let asked = server.requests.count { $0.path == "/" }
        #expect(try commands.refresh("media", isRecursive: false).failedDirectories == [])
        #expect(server.requests.count { $0.path == "/" } == asked, "the folder is the catalogue's")
        #expect(try commands.refresh("media/one", isRecursive: false).failedDirectories == [])
        #expect(server.requests.count { $0.path == "/" } == asked + 1)
        #expect(try commands.refresh("", isRecursive: true).failedDirectories.map(\.path) == ["dead"])
        #expect(server.requests.count { $0.path == "/" } == asked + 3)
        #expect(throws: MaintenanceFailure.self) { try commands.refresh("media/one/b", isRecursive: false) }
        #expect(eventually { (try? commands.evict("media/one").bytes) == 300_000 })
        let two = "media/two/a.mkv"
        // As a cache that is not mounted names it.
        let key = "\(sourceDirectoryName(server.address + "x")) \(server.address)a.mkv"
        #expect(MountNames(fixture.store).path(ofKey: key) == two)
        #expect(
            eventually {
                _ = try? commands.prune(freeing: .max)
                return !fixture.volume.status().files.contains { $0.path == two && $0.cachedBytes > 0 }
            })
    }
}
