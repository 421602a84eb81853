import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// In virtual time.
@Suite struct LoginPageTests {
    @Test("A login page is no new version of a film whose URL has no extension, where mirrors may answer as well")
    func page() throws {
        let film = FileOrigin(length: 6 << 20)
        let isCaptured = Shared(false)
        let server: SimulatedTransport.Server = { request in
            if request.path == "/list.m3u" {
                let list = "#EXTM3U\n#EXTINF:60,A film\nget?id=1\n"
                return ServerStep.answer(200, [("Content-Type", "audio/mpegurl")], body: list)
            }
            return isCaptured.value
                ? ServerStep.answer(200, [("Content-Type", "text/html")], body: "<p>Log in") : film.answer(request)
        }
        let servers: [String: SimulatedTransport.Server] = [
            "http://origin": server, "http://mirror": { _ in ServerStep.answer(503) },
        ]
        try SimulatedWorld.run(servers) { world in
            let options = VolumeOptions(timeout: .seconds(3), mirrors: [ResourceURL("http://mirror/")!])
            let mount = try world.mount("http://origin/list.m3u", options)
            #expect(try mount.lookup("A film").get().attributes.length == 6 << 20)
            isCaptured.set(true)
            let file = try mount.open("A film").get()
            #expect(mount.read(file, 0, 1000) == .failure(.failed))
            mount.filesystem.close(file)
            #expect(try mount.lookup("A film").get().attributes.length == 6 << 20)
        }
    }
}
