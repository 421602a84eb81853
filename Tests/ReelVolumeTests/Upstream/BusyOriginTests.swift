import ReelCore
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// An origin whose connections are all busy.
@Suite struct BusyOriginTests {
    @Test("An open of cached bytes plays them after two seconds, although its question waits for a connection")
    func cachedBytes() throws {
        let (film, isBusy) = (FileOrigin(length: 1 << 20), Shared(false))
        let names = ["film.mkv"] + (0..<40).map { "\($0).mkv" }
        let lines = names.map { "<a href=\"\($0)\">\($0)</a>   14-Nov-2023 22:13   1048576\r\n" }.joined()
        let page =
            "<html><title>Index of /</title><h1>Index of /</h1><pre><a href=\"../\">../</a>\r\n\(lines)</pre></html>"
        let server = try ScriptedServer { request in
            switch request.path {
            case "/": ServerStep.answer(200, [("Content-Type", "text/html")], body: page)
            // A probe may go to it, too.
            case "/film.mkv" where !isBusy.value: film.answer(request)
            default: [.wait(Gate())]
            }
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/").text, timeout: .seconds(25), prebuffer: 0)
        defer { fixture.remove() }
        try readWhole(fixture, "film.mkv", film)
        fixture.expire()
        isBusy.change { $0 = true }
        let ended = Shared(0)
        for name in names.dropFirst() {
            let node = try fixture.lookup(name).get().node
            fixture.volume.open(node, by: nil) { _ in ended.change { $0 += 1 } }
        }
        #expect(eventually { server.requests.count { !["/", "/film.mkv"].contains($0.path) } >= 16 })
        let file = try fixture.open("film.mkv").get()
        #expect(ended.value == 0, "the others had ended, and left connections")
        #expect(fixture.readAll(file).isRight(film, 0, film.version.length))
        fixture.volume.close(file)
    }
}
