import ReelCore
import ReelSources
import TestKit
import Testing

@testable import ReelVolume

/// Files that come from other places than before.
@Suite struct IdentityTests {
    private static func page(_ files: [String: FileOrigin], query: String = "") -> String {
        let rows = files.sorted { $0.key < $1.key }.map { name, file in
            "<a href=\"\(name)\(query)\">\(name)</a>  01-Jan-2024 10:00  \(file.version.length)\n"
        }
        return "<html><head><title>Index of /films/</title></head><body><h1>Index of /films/</h1><hr><pre>"
            + "<a href=\"../\">../</a>\n" + rows.joined() + "</pre><hr></body></html>"
    }

    private static func server(_ files: [String: FileOrigin], _ token: String = "") throws -> ScriptedServer {
        let query = token.isEmpty ? "" : "?token=" + token
        return try ScriptedServer { request in
            if request.path.hasSuffix("/") {
                return ServerStep.answer(200, [("Content-Type", "text/html")], body: page(files, query: query))
            }
            guard request.target.hasSuffix(query), let name = request.path.split(separator: "/").last,
                let file = files[String(name)]
            else { return ServerStep.answer(403) }
            return file.answer(request)
        }
    }

    private func read(_ files: [String: FileOrigin], _ fixture: VolumeFixture) throws {
        for (name, file) in files {
            let handle = try fixture.open(name).get()
            #expect(fixture.readAll(handle) == .success(file.expectedBytes(ByteRange(0, file.version.length))))
            fixture.volume.close(handle)
        }
    }

    @Test(arguments: [(CacheKey.path, "/films/"), (.name, "/moved/films/")], ["127.0.0.1", "localhost"])
    func theSameLibraryUnderAnotherHostAndOtherSignaturesIsNotFetchedAgain(
        _ key: (mode: CacheKey, path: String), _ host: String
    ) throws {
        let files = [
            "a.mkv": FileOrigin(length: 700_000), "b.mkv": FileOrigin(length: 300_000, seed: 2),
            "cover.jpg": FileOrigin(length: 5000, seed: 3),
        ]
        let (first, second) = (try Self.server(files, "one"), try Self.server(files, "two"))
        defer {
            first.stop()
            second.stop()
        }
        let fixture = try VolumeFixture(
            first.url("/films/").text, timeout: .seconds(5), prebuffer: 0, cacheKey: key.mode)
        defer { fixture.remove() }
        try read(files, fixture)
        try fixture.restart(at: second.url(key.path, host: host).text)
        let page = fixture.receivedBytes
        try read(files, fixture)
        #expect(fixture.receivedBytes == page)
        #expect(fixture.cached("a.mkv") == 700_000)
    }

    @Test func aNewTokenCostsAByteAndAnotherFileBehindOneIsNotMixedWithIt() throws {
        let film = FileOrigin(length: 300_000)
        let other = FileOrigin(FileOrigin.Version(seed: 9, length: 300_000, entityTag: "\"other\""))
        let list = Shared("")
        let server = try ScriptedServer { request in
            guard request.path != "/list.m3u" else {
                return ServerStep.answer(200, [("Content-Type", "audio/x-mpegurl")], body: list.value)
            }
            return (request.target.hasSuffix("=other") ? other : film).answer(request)
        }
        defer { server.stop() }
        list.set("#EXTM3U\n/get.mkv?token=one\n")
        let fixture = try VolumeFixture(server.url("/list.m3u").text, timeout: .seconds(5), prebuffer: 0)
        defer { fixture.remove() }
        try read(["get.mkv": film], fixture)
        list.set("#EXTM3U\n/get.mkv?token=two\n")
        try fixture.restart()
        try read(["get.mkv": film], fixture)
        #expect(fixture.receivedBytes < 1000)
        for (token, file) in [("other", other), ("three", film), ("other", other)] {
            list.set("#EXTM3U\n/get.mkv?token=\(token)\n")
            try fixture.restart()
            try read(["get.mkv": file], fixture)
        }
        #expect(fixture.receivedBytes < 1000)
    }

    @Test func aRedirectThatLeadsToAnotherHostLeadsToTheSameFile() throws {
        let film = FileOrigin(length: 700_000)
        let hosts = try (0..<2).map { _ in try ScriptedServer { film.answer($0) } }
        let target = Shared(hosts[0].url("/one/a.mkv"))
        let server = try ScriptedServer { request in
            request.path.hasSuffix("/")
                ? ServerStep.answer(200, [("Content-Type", "text/html")], body: Self.page(["a.mkv": film]))
                : ServerStep.answer(302, [("Location", target.value.text)])
        }
        defer { for server in hosts + [server] { server.stop() } }
        let fixture = try VolumeFixture(server.url("/films/").text, timeout: .seconds(5), prebuffer: 0)
        defer { fixture.remove() }
        try read(["a.mkv": film], fixture)
        target.set(hosts[1].url("/two/a.mkv", host: "localhost"))
        try fixture.restart()
        let page = fixture.receivedBytes
        // What is confirmed comes without a body.
        fixture.expire()
        try read(["a.mkv": film], fixture)
        #expect(!hosts[1].requests.isEmpty && fixture.receivedBytes == page)
    }

    @Test(
        arguments: [
            FileOrigin.Version(seed: 5, length: 200_000),
            FileOrigin.Version(seed: 5, length: 300_000, entityTag: "\"v2\""),
        ], [CacheKey.path, .name])
    func aFileOfAnotherLengthOrTagUnderTheSameKeyIsAnother(_ version: FileOrigin.Version, _ mode: CacheKey) throws {
        let (old, new) = (FileOrigin(length: 300_000), FileOrigin(version))
        let (first, second) = (try Self.server(["a.mkv": old]), try Self.server(["a.mkv": new]))
        defer {
            first.stop()
            second.stop()
        }
        let fixture = try VolumeFixture(first.url("/films/").text, timeout: .seconds(5), cacheKey: mode)
        defer { fixture.remove() }
        try read(["a.mkv": old], fixture)
        try fixture.restart(at: second.url("/films/").text)
        try read(["a.mkv": new], fixture)
    }
}
