import ReelCache
import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

@Suite struct NextItemTests {
    @Test("The next item of a list is asked for with the list's login")
    func login() throws {
        let film = FileOrigin(length: 6 << 20)
        let server = try ScriptedServer { request in
            if request["authorization"] == nil {
                return ServerStep.answer(401, [("WWW-Authenticate", "Basic realm=\"films\"")])
            }
            return request.path == "/list.m3u"
                ? ServerStep.answer(200, [("Content-Type", "audio/mpegurl")], body: "#EXTM3U\na.mkv\nb.mkv\n")
                : film.answer(request)
        }
        defer { server.stop() }
        let list = server.url("/list.m3u").text.replacing("http://", with: "http://ann:word@")
        let fixture = try VolumeFixture(list)
        defer { fixture.remove() }
        let file = try fixture.open("a.mkv").get()
        #expect(fixture.readAll(file).isRight(film, 0, 6 << 20))
        fixture.volume.close(file)
        #expect(eventually { fixture.cached("b.mkv") > 0 })
    }

    /// In virtual time.
    @Test("The next item is held for no longer than somebody reads it, once it was opened")
    func left() throws {
        let film = FileOrigin(length: 6 << 20)
        let server: SimulatedTransport.Server = { request in
            request.path == "/list.m3u"
                ? ServerStep.answer(200, [("Content-Type", "audio/mpegurl")], body: "#EXTM3U\na.mkv\nb.mkv\nc.mkv\n")
                : film.answer(request)
        }
        try SimulatedWorld.run(["http://origin": server]) { world in
            let mount = try world.mount("http://origin/list.m3u", VolumeOptions(timeout: .seconds(3)))
            try read("a.mkv", 6 << 20, mount)
            let files = mount.volume.files
            // It is fetched, and kept once the played one has left.
            #expect(world.eventually { files.all.map(\.url.lastSegment) == [Array("b.mkv".utf8)] })
            weak let object = files.all.first?.object
            #expect(object != nil)

            try read("b.mkv", 128 << 10, mount)
            #expect(world.eventually { files.all.isEmpty })
            #expect(world.eventually { object == nil })
        }
    }

    /// Its handle is gone when it returns.
    private func read(_ name: String, _ count: Int64, _ mount: SimulatedWorld.Mount) throws {
        let file = try mount.open(name).get()
        for offset in stride(from: Int64(0), to: count, by: 128 << 10) {
            #expect(try mount.read(file, offset, 128 << 10).get().count == 128 << 10)
        }
        mount.filesystem.close(file)
    }
}
