import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// The file that is there only while the tree can be trusted, without a kernel.
@Suite struct AnchorTests {
    private struct Caller: KernelCaller {
        let filesystem: any Filesystem
    }

    private static func script(_ film: FileOrigin) -> ScriptedServer.Script {
        { request in
            guard request.path == "/" else { return film.answer(request) }
            let body =
                "<html><title>Index of /</title><h1>Index of /</h1><pre><a href=\"../\">../</a>\n"
                + "<a href=\"film.mkv\">film.mkv</a>  21-Nov-2026 10:00  30000000\n</pre></html>"
            return ServerStep.answer(200, [("Content-Type", "text/html")], body: body)
        }
    }

    @Test("It goes with the origin, the kernel hears of it, and it comes back with the origin")
    func outage() throws {
        let film = FileOrigin(length: 30_000_000)
        let server = try ScriptedServer(Self.script(film))
        defer { server.stop() }
        let anchored = Shared<AnchoredVolume?>(nil)
        let news = TreeNews { _ in
        } trust: {
            anchored.value?.check()
        }
        let fixture = try VolumeFixture(server.url("/").text, news: news)
        defer { fixture.remove() }
        let volume = AnchoredVolume(fixture.volume, name: "mounted", modified: 5)
        anchored.set(volume)
        let kernel = Kernel()
        volume.connect(kernel)
        let caller = Caller(filesystem: volume)
        #expect(caller.names() == .success(["film.mkv", "mounted"]))
        let anchor = try caller.open("mounted").get()
        #expect(caller.read(anchor, 0, 10) == .success([]))
        volume.close(anchor)
        let file = try caller.open("film.mkv").get()
        #expect(caller.read(file, 0, 4096).isRight(film, 0, 4096))
        #expect(kernel.forgotten.withLock { $0 }.isEmpty)
        server.stop()
        #expect(caller.read(file, 20_000_000, 4096) == .failure(.offline))
        #expect(eventually { kernel.forgotten.withLock { $0 } == ["mounted"] })
        #expect(caller.names() == .success(["film.mkv"]))
        guard case .failure(.notFound) = caller.lookup("mounted") else { throw Unexpected() }
        let second = try ScriptedServer(port: server.port, Self.script(film))
        defer { second.stop() }
        #expect(eventually(within: .seconds(5)) { (try? caller.names().get()) == ["film.mkv", "mounted"] })
        volume.close(file)
    }

    @Test("An entry of its name is in no listing, and the kernel gets no node of it")
    func hidden() throws {
        let server = try ScriptedServer { request in
            guard request.path == "/" else { return ServerStep.answer(404) }
            return ServerStep.listing([("film.mkv", 1000), ("mounted", 1000)])
        }
        defer { server.stop() }
        try withAnchor(server) { (fixture, volume, isThere) throws in
            let caller = Caller(filesystem: volume)
            for isTrusted in [true, false] {
                if !isTrusted {
                    server.stop()
                    fixture.volume.maintenance.expireListings()
                    // The look finds the listing due, and the origin away.
                    #expect(eventually { (try? caller.names().get()) != nil && !isThere() })
                }
                #expect(caller.names() == .success(isTrusted ? ["film.mkv", "mounted"] : ["film.mkv"]))
                let opened = caller.wait { (done: @escaping Completion<any DirectoryHandle>) in
                    volume.openDirectory(rootNode, done)
                }
                let directory = try opened.get()
                var nodes: [String: NodeID] = [:]
                directory.items(from: 2, withAttributes: true) { item in
                    if let entry = item.entry { nodes[item.name] = entry.node }
                    return true
                }
                #expect(Set(nodes.keys) == ["film.mkv"])
                // The root and the film.
                #expect(fixture.volume.tree.nodes.counts.known == 2)
            }
        }
    }

    /// An index page of these names; folders end in `/`.
    private static func page(_ names: [String]) -> [ServerStep] {
        let lines = names.map { name in
            "<a href=\"\(name)\">\(name)</a>  21-Nov-2026 10:00  \(name.hasSuffix("/") ? "-" : "1000")\n"
        }
        return ServerStep.answer(
            200, [("Content-Type", "text/html")],
            body: "<html><title>Index of /</title><h1>Index of /</h1><pre><a href=\"../\">../</a>\n" + lines.joined()
                + "</pre></html>")
    }

    /// A volume with the anchor `mounted`, and what looks at it without a look at any listing.
    private func withAnchor(
        _ server: ScriptedServer, _ body: (VolumeFixture, AnchoredVolume, () -> Bool) throws -> Void
    ) throws {
        let anchored = Shared<AnchoredVolume?>(nil)
        let news = TreeNews { _ in
        } trust: {
            anchored.value?.check()
        }
        let fixture = try VolumeFixture(server.url("/").text, news: news)
        defer { fixture.remove() }
        let volume = AnchoredVolume(fixture.volume, name: "mounted", modified: 5)
        anchored.set(volume)
        let caller = Caller(filesystem: volume)
        try body(fixture, volume) { if case .success = caller.lookup("mounted") { true } else { false } }
    }

    @Test("A command that takes the mount off the line takes it away at once")
    func offline() throws {
        let server = try ScriptedServer(Self.script(FileOrigin(length: 30_000_000)))
        defer { server.stop() }
        try withAnchor(server) { _, volume, isThere in
            let kernel = Kernel()
            volume.connect(kernel)
            #expect(isThere())
            volume.check()
            kernel.forgotten.withLock { $0 = [] }
            volume.setOffline(true)
            #expect(kernel.forgotten.withLock { $0 }.contains("mounted") && !isThere())
        }
    }

    @Test("It comes back once a folder that could not be listed is found to be in the tree no longer")
    func renamed() throws {
        let (isRenamed, gate) = (Shared(false), Gate())
        let server = try ScriptedServer { request in
            switch (request.path, isRenamed.value) {
            case ("/", false): Self.page(["Old/"])
            case ("/Old/", false): Self.page(["Extras/"])
            case ("/Old/Extras/", false): Self.page(["film.mkv"])
            case ("/", true): [.wait(gate)] + Self.page(["New/"])
            default: ServerStep.answer(404)
            }
        }
        defer { server.stop() }
        try withAnchor(server) { (fixture, _, isThere) throws in
            let caller = Caller(filesystem: fixture.volume)
            let folders = try ["Old", "Old/Extras"].map { try caller.lookup($0).get().node }
            #expect(caller.names("Old/Extras") == .success(["film.mkv"]))
            #expect(isThere())
            isRenamed.set(true)
            fixture.volume.maintenance.expireListings()
            for folder in folders {
                fixture.volume.openDirectory(folder) { _ in }
            }
            #expect(eventually { fixture.volume.status().staleDirectories.count == 2 })
            #expect(!isThere())
            // From here on no program looks at any listing.
            gate.open()
            #expect(eventually { isThere() })
            #expect(fixture.volume.status().staleDirectories.isEmpty)
            // Nor does one that still stands in the folder bring its trouble back.
            fixture.volume.openDirectory(folders[0]) { _ in }
            #expect(
                eventually {
                    (try? fixture.volume.extendedAttribute("user.reelfs.stale", of: folders[0]).get()) != nil
                })
            #expect(isThere() && fixture.volume.status().staleDirectories.isEmpty)
        }
    }

    @Test("It comes back with the origin although a folder was due and marked meanwhile, and nobody looks at that")
    func outageWithADueFolder() throws {
        let film = FileOrigin(length: 30_000_000)
        let server = try ScriptedServer(Self.script(film))
        defer { server.stop() }
        try withAnchor(server) { (fixture, _, isThere) throws in
            let caller = Caller(filesystem: fixture.volume)
            let file = try caller.open("film.mkv").get()
            #expect(isThere())
            server.stop()
            #expect(caller.read(file, 20_000_000, 4096) == .failure(.offline))
            fixture.volume.maintenance.expireListings()
            #expect(caller.names() == .success(["film.mkv"]))
            #expect(fixture.volume.status().staleDirectories.map(\.trouble) == ["unreachable"])
            #expect(!isThere())
            let second = try ScriptedServer(port: server.port, Self.script(film))
            defer { second.stop() }
            #expect(eventually { isThere() })
            #expect(fixture.volume.status().staleDirectories.isEmpty)
            // The next look finds the listing due, as any that was not looked at.
            #expect(caller.names() == .success(["film.mkv"]))
            #expect(eventually { second.requests.contains { $0.path == "/" && $0["range"] == nil } })
            fixture.volume.close(file)
        }
    }

    @Test(
        "An origin that is away is looked for as long as programs wait for the news of its return",
        arguments: ["http://127.0.0.1:8080", "https://films.example", "sftp://films.example", "http://[::1]:80"])
    func lookedFor(_ address: String) throws {
        let name = try #require(ResourceURL(trusted: address)).origin
        for hasNews in [true, false] {
            let told = Shared(0)
            let news = TreeNews { _ in
            } trust: {
                told.change { $0 += 1 }
            }
            try withServices(of: nil, VolumeOptions(news: hasNews ? news : nil)) { _, origin, _ in
                origin.tell(name, .silent)
                // Only the way in which it is away has changed.
                origin.tell(name, .unreachable)
                #expect(origin.missed == (hasNews ? [name] : []))
                origin.tell(name, nil)
                #expect(told.value == (hasNews ? 3 : 0))
            }
        }
    }

    @Test("The kernel hears that it has gone although programs looked in between")
    func looksInBetween() throws {
        let film = FileOrigin(length: 30_000_000)
        let server = try ScriptedServer(Self.script(film))
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/").text)
        defer { fixture.remove() }
        let volume = AnchoredVolume(fixture.volume, name: "mounted", modified: 5)
        let kernel = Kernel()
        volume.connect(kernel)
        let caller = Caller(filesystem: volume)
        volume.check()
        #expect(caller.names() == .success(["film.mkv", "mounted"]))
        let told = kernel.forgotten.withLock { $0.count }
        let file = try caller.open("film.mkv").get()
        server.stop()
        #expect(caller.read(file, 20_000_000, 4096) == .failure(.offline))
        #expect(caller.names() == .success(["film.mkv"]))
        guard case .failure(.notFound) = caller.lookup("mounted") else { throw Unexpected() }
        #expect(kernel.forgotten.withLock { $0.count } == told)
        volume.check()
        #expect(kernel.forgotten.withLock { $0.count } == told + 1)
        volume.close(file)
    }
}

private struct Unexpected: Error {}
