import ReelCore
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
