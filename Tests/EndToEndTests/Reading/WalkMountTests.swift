import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// Trees that are walked through, or listed as a whole, as programs see them.
    @Suite struct WalkMountTests {
        private static let folders = 60

        /// Folders of two files each.
        /// - Parameter delay: what comes before each answer.
        private func library(
            _ delay: @escaping @Sendable (ServerRequest) -> [ServerStep] = { _ in [.pause(.milliseconds(100))] }
        ) throws -> ScriptedServer {
            try ScriptedServer { request in
                guard request.path.hasSuffix("/") else { return ServerStep.answer(404) }
                let lines =
                    request.path == "/"
                    ? (10..<10 + Self.folders).map { "<a href=\"d\($0)/\">d\($0)/</a>  21-Nov-2026 10:00  -\n" }
                    : (0..<2).map { "<a href=\"\($0).flac\">\($0).flac</a>  21-Nov-2026 10:00  1000\n" }
                let page =
                    "<html><title>Index of \(request.path)</title><h1>Index of \(request.path)</h1><pre>"
                    + "<a href=\"../\">../</a>\n\(lines.joined())</pre></html>"
                return delay(request) + ServerStep.answer(200, [("Content-Type", "text/html")], body: page)
            }
        }

        private func find(_ mount: Mounted) throws -> Int {
            let end = try ChildProcess.run(["find", mount.path, "-type", "f"])
            #expect(end.status == 0, "\(end.errors)")
            return end.output.split(separator: "\n").count
        }

        @Test("find over a slow server does not wait for each folder, and each is asked for once")
        func walk() throws {
            // From the twenty-first folder on none is answered before eight of them are asked for.
            let (gate, asked) = (Gate(), Shared<Set<String>>([]))
            let server = try library { request in
                guard let number = Int(request.path.dropFirst(2).dropLast()), number >= 30 else { return [] }
                asked.change {
                    $0.insert(request.path)
                    if $0.count == 8 { gate.open() }
                }
                return [.wait(gate)]
            }
            defer { server.stop() }
            try withScene { scene in
                let mount = try scene.mount(server.address)
                let before = server.requests.count
                #expect(try find(mount) == 2 * Self.folders)
                #expect(server.requests.count == before + Self.folders)
            }
        }

        @Test("--warm lists all after mounting, status says so, and the tree is there without the server")
        func warm() throws {
            let server = try library()
            defer { server.stop() }
            try withScene { scene in
                let mount = try scene.mount(server.address, ["--warm"])
                let text = "  warm    \(Self.folders + 1) folders listed\n"
                #expect(
                    eventually {
                        (try? ChildProcess.run([program, "status", mount.path]).output.contains(text)) == true
                    })
                server.stop()
                #expect(try find(mount) == 2 * Self.folders)
            }
        }

        @Test("warm in fstab's words and in a catalogue; a list of lists is listed where its own table asks for it")
        func warmCatalogue() throws {
            let (server, feed) = (try library(), try feeds())
            defer {
                server.stop()
                feed.stop()
            }
            try withScene { scene in
                try writeFile(scene.work("all.opml"), opml(feed.address).utf8)
                let tables =
                    "[[source]]\npath = \"library\"\nsource = \"\(server.address)\"\n"
                    + "[[source]]\npath = \"casts\"\nsource = \"all.opml\"\n"
                try writeFile(scene.work("all.toml"), tables.utf8)
                let mount = try scene.mount(scene.work("all.toml"), ["-o", "warm"])
                let text = "  warm    \(Self.folders + 1) folders listed\n"
                let status = { try ChildProcess.run([program, "status", mount.path]).output }
                #expect(eventually { (try? status().contains(text)) == true })
                #expect(feed.requests.isEmpty)
                try writeFile(scene.work("all.toml"), (tables + "warm = true\n").utf8)
                #expect(try ChildProcess.run([program, "refresh", mount.path]).status == 0)
                #expect(eventually { !feed.requests.isEmpty })
            }
        }

        private func feeds() throws -> ScriptedServer {
            try ScriptedServer { request in
                let file = "<enclosure url=\"one.mp3\" type=\"audio/mpeg\" length=\"1000\"/>"
                let item = "<item><title>One</title>\(file)</item>"
                return ServerStep.answer(
                    200, [("Content-Type", "application/rss+xml")],
                    body: "<rss version=\"2.0\"><channel><title>Cast</title>\(item)</channel></rss>")
            }
        }

        private func opml(_ address: String) -> String {
            "<opml version=\"2.0\"><body><outline type=\"rss\" text=\"Cast\" xmlUrl=\"\(address)cast.xml\"/>"
                + "</body></opml>"
        }
    }
}
