import ReelCore
import TestKit
import Testing

@testable import ReelVolume

/// Feeds as volumes.
@Suite struct FeedTests {
    /// A feed of episodes without a media type; `/broken` never answers with a file.
    private func show(_ names: [String]) -> String {
        let items = names.map { "<item><title>By \($0)</title><enclosure url='/\($0)'/></item>" }
        return "<rss version='2.0'><channel>\(items.joined())</channel></rss>"
    }

    @Test("The request that asks an episode's size also finds its extension, once, and one that fails names it without")
    func extensions() throws {
        let song = FileOrigin(length: 90_000)
        let names = Shared(["place", "bytes", "whole", "broken"])
        let server = try ScriptedServer { [self] request in
            let tagged = Array("ID3\u{4}".utf8) + [UInt8](repeating: 1, count: 1000)
            switch request.path {
            case "/feed.xml":
                return ServerStep.answer(200, [("Content-Type", "application/rss+xml")], body: show(names.value))
            case "/place", "/late": return ServerStep.answer(302, [("Location", "/cdn/song.ogg")])
            case "/cdn/song.ogg": return song.answer(request)
            case "/bytes":
                return [
                    .head(206, [("Content-Range", "bytes 0-63/1004"), ("Content-Length", "64")]),
                    .body(Array(tagged[..<64])),
                ]
            // A server that knows no ranges.
            case "/whole": return [.head(200, [("Content-Length", "1004")]), .body(tagged)]
            default: return ServerStep.answer(404)
            }
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/feed.xml").text, refresh: .zero)
        defer { fixture.remove() }
        let first = ["By place.mkv", "By bytes.mp3", "By whole.mp3", "By broken"]
        #expect(fixture.names() == .success(first))
        #expect(try fixture.lookup("By place.mkv").get().attributes.length == 90_000)
        #expect(try fixture.lookup("By whole.mp3").get().attributes.length == 1004)
        let asked = server.requests.filter { $0.path != "/feed.xml" }
        #expect(asked.count { $0.path == "/bytes" } == 1 && asked.count { $0.path == "/whole" } == 1)
        #expect(asked.allSatisfy { $0["range"] == "bytes=0-63" })
        names.change { $0.append("late") }
        #expect(eventually { fixture.names() == .success(first + ["By late.mkv"]) })
        #expect(server.requests.count { $0.path == "/broken" } == 1, "a name once given stays")
        server.stop()
        try fixture.restart()
        #expect(fixture.names() == .success(first + ["By late.mkv"]))
    }
}
