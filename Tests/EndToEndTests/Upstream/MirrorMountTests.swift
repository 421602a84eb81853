import Glibc
import ReelCore
import ReelThreads
import TestKit
import Testing

extension EndToEnd {
    /// Mounts of a source with a mirror.
    @Suite struct MirrorMountTests {
        @Test(
            "One of two servers dies or freezes in mid-film, and no read waits for its deadline",
            arguments: [true, false])
        func death(_ isFrozen: Bool) throws {
            guard RealServer.Kind.nginx.isInstalled else { try Test.cancel("nginx is not installed") }
            let film = FileOrigin(length: 24 << 20)
            try withScene { scene in
                let root = scene.work("root")
                mkdir(root, 0o755)
                mkdir(root + "/films", 0o755)
                try writeFile(root + "/films/film.mkv", film.whole)
                let first = try RealServer(.nginx, root: root, place: scene.work("first"))
                var isUp = true
                defer { if isUp || isFrozen { first.stop() } }
                // The same tree below another path.
                let second = try RealServer(.nginx, root: root + "/films", place: scene.work("second"))
                defer { second.stop() }
                let log = scene.work("requests")
                let mount = try scene.mount(
                    first.url + "films/", ["--mirror", second.url, "--request-log", log, "--timeout", "120"])
                let file = try OpenDescriptor(mount.file("film.mkv"))
                var (offset, longest) = (Int64(0), Duration.zero)
                while offset < film.length {
                    if offset == 4 << 20 {
                        if isFrozen { first.freeze() } else { first.stop() }
                        isUp = false
                    }
                    let count = Int(min(256 << 10, film.length - offset))
                    let start = now()
                    let bytes = try file.bytes(at: offset, count: count)
                    longest = max(longest, now() - start)
                    try #require(bytes.elementsEqual(film.expectedBytes(ByteRange(offset, offset + Int64(count)))))
                    offset += Int64(count)
                }
                // It is a second and a half where no machine is busy: MirrorTests.
                #expect(longest < .seconds(40), "\(longest)")
                #expect(eventually { contents(log)?.contains("\"from\":\"mirror\"") == true })
                let status = try ChildProcess.run([program, "status", mount.path])
                let name = second.url.dropLast()
                #expect(status.output.contains("mirror  \(name): "), "\(status.output)")
            }
        }

        @Test("Doctor sends a mirror no signature of a link")
        func doctor() throws {
            let film = FileOrigin(length: 100_000)
            let first = try ScriptedServer { request in
                let list = ServerStep.answer(
                    200, [("Content-Type", "audio/x-mpegurl")], body: "film.mkv?a=1&token=one\n")
                return request.path == "/films/list.m3u" ? list : film.answer(request)
            }
            defer { first.stop() }
            let second = try ScriptedServer { film.answer($0) }
            defer { second.stop() }
            let end = try ChildProcess.run(
                [program, "doctor", first.url("/films/list.m3u").text, "--mirror", second.url("/pub/list.m3u").text],
                environment: ["no_proxy": "127.0.0.1"])
            #expect(Set(second.requests.map(\.target)) == ["/pub/film.mkv?a=1"], "\(end)")
        }
    }
}
