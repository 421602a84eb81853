import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// Files that are fetched whole before anybody opens them.
    @Suite struct KeepTests {
        @Test("Of a feed the newest episode, and the one after the one that mpv plays, play offline")
        func feed() throws {
            try withScene { scene in
                let root = scene.work("root")
                mkdir(root, 0o755)
                let film = [
                    "ffmpeg", "-v", "error", "-f", "lavfi", "-i",
                    "testsrc2=size=640x360:duration=4,noise=alls=60:allf=t",
                    "-c:v", "mpeg4", "-b:v", "4M", "-bitexact",
                ]
                try succeed(film + [root + "/1.mkv"])
                let items = (1...4).reversed().map { number in
                    "<item><title>Part \(number)</title><pubDate>Mon, 0\(number) Jul 2024 10:00:00 GMT</pubDate>"
                        + "<enclosure url='\(number).mkv' type='video/x-matroska' length='5'/></item>"
                }
                let feed = "<rss version='2.0'><channel>\(items.joined())</channel></rss>"
                try writeFile(root + "/feed.xml", Array(feed.utf8))
                for number in 2...4 { try succeed(["cp", root + "/1.mkv", root + "/\(number).mkv"]) }
                let server = try RealServer(.nginx, root: root, place: scene.work("server"))
                defer { server.stop() }
                let mount = try scene.mount(server.url + "feed.xml", ["--keep-new", "1", "--keep-next", "1"])
                func kept(_ line: String) -> Bool {
                    eventually { (try? succeed([program, "status", mount.path]).contains(line)) ?? false }
                }
                #expect(kept("kept    1 of 1 file fetched whole\n"))
                let mpv = ["mpv", "--no-config", "--vo=null", "--ao=null", "--untimed", "--no-terminal"]
                func path(_ number: Int) -> String { mount.file("2024-07-0\(number) Part \(number).mkv") }
                try succeed(mpv + [path(3)])
                #expect(kept("kept    2 of 2 files fetched whole\n"))
                try succeed([program, "offline", "on", mount.path])
                #expect(try Set(names(in: mount.path).map { $0.suffix(5) }) == ["2.mkv", "3.mkv", "4.mkv"])
                for number in 2...4 { try succeed(mpv + [path(number)]) }
                for number in [2, 4] { try succeed(["cmp", path(number), root + "/\(number).mkv"]) }
            }
        }
    }
}
