import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// Everything that SOURCE may be beside a listing.
    @Suite struct SourceTests {
        @Test("The URL of a file is a mount with that file")
        func oneFile() throws {
            let film = FileOrigin(length: 3 << 20 + 5)
            let server = try ScriptedServer(["/some/place/A film.mkv": film, "/some/place/A%20film.mkv": film])
            defer { server.stop() }
            try withScene { scene in
                let mount = try scene.mount(server.address + "some/place/A%20film.mkv")
                #expect(try names(in: mount.path) == ["A film.mkv"])
                #expect(film.difference(inFile: mount.file("A film.mkv")) == nil)
            }
        }

        struct List: CustomTestStringConvertible, Sendable {
            var testDescription: String
            var type: String
            /// `BASE` stands for the URL that entries count from.
            var text: String
            var names: [String]

            static let all = [
                List(
                    testDescription: "list.m3u", type: "audio/x-mpegurl",
                    text: "#EXTM3U\n#EXTINF:12,First Song\nBASEone.mp3\n#EXTINF:-1,Second Song\nBASEtwo.mp3\n",
                    names: ["First Song.mp3", "Second Song.mp3"]),
                List(
                    testDescription: "list.m3u8", type: "application/vnd.apple.mpegurl",
                    text: "BASEone.mp3\r\nBASEtwo.mp3\r\n", names: ["one.mp3", "two.mp3"]),
                List(
                    testDescription: "list.pls", type: "audio/x-scpls",
                    text:
                        "[playlist]\nFile1=BASEone.mp3\nTitle1=First\nFile2=BASEtwo.mp3\nNumberOfEntries=2\nVersion=2\n",
                    names: ["First.mp3", "two.mp3"]),
                List(
                    testDescription: "list.xspf", type: "application/xspf+xml",
                    text: "<?xml version=\"1.0\"?><playlist version=\"1\" xmlns=\"http://xspf.org/ns/0/\"><trackList>"
                        + "<track><location>BASEone.mp3</location><title>First</title></track>"
                        + "<track><location>BASEtwo.mp3</location></track></trackList></playlist>",
                    names: ["First.mp3", "two.mp3"]),
                List(
                    testDescription: "list.txt", type: "text/plain", text: "BASEone.mp3\nBASEtwo.mp3\n",
                    names: ["one.mp3", "two.mp3"]),
            ]
        }

        @Test("A list is a mount with its entries, from a URL and from a path", arguments: List.all, [true, false])
        func list(_ list: List, _ isRemote: Bool) throws {
            let songs = [FileOrigin(length: 70_000, seed: 1), FileOrigin(length: 80_000, seed: 2)]
            let server = try ScriptedServer { request in
                switch request.path {
                case "/songs/one.mp3": songs[0].answer(request)
                case "/songs/two.mp3": songs[1].answer(request)
                case "/songs/" + list.testDescription:
                    // Relative entries count from the list.
                    ServerStep.answer(200, [("Content-Type", list.type)], body: replaced(list.text, with: ""))
                default: ServerStep.answer(404)
                }
            }
            defer { server.stop() }
            try withScene { scene in
                var source = server.address + "songs/" + list.testDescription
                if !isRemote {
                    source = scene.work(list.testDescription)
                    try writeFile(source, replaced(list.text, with: server.address + "songs/").utf8)
                }
                let mount = try scene.mount(source)
                #expect(try names(in: mount.path) == list.names)
                for (name, song) in zip(list.names, songs) {
                    #expect(song.difference(inFile: mount.file(name)) == nil, "\(name)")
                }
            }
        }

        @Test("Two entries of one name both stay, each with its own bytes")
        func oneName() throws {
            let songs = [FileOrigin(length: 1000, seed: 1), FileOrigin(length: 2000, seed: 2)]
            let server = try ScriptedServer(["/a/song.mp3": songs[0], "/b/song.mp3": songs[1]])
            defer { server.stop() }
            try withScene { scene in
                let lines = "\(server.address)a/song.mp3\n\(server.address)b/song.mp3\n"
                try writeFile(scene.work("list.txt"), lines.utf8)
                let mount = try scene.mount(scene.work("list.txt"))
                let shown = try names(in: mount.path)
                #expect(Set(shown).count == 2)
                let found = try shown.map { try readWhole(mount.file($0)) }
                #expect(found.sorted { $0.count < $1.count } == songs.map { $0.whole })
            }
        }

        @Test("What cannot be a source is one sentence and status 32", arguments: ["none.mkv", "page.html"])
        func useless(_ path: String) throws {
            let server = try ScriptedServer { request in
                request.path == "/page/"
                    ? ServerStep.answer(200, [("Content-Type", "text/html")], body: "<p>Nothing is here")
                    : ServerStep.answer(404)
            }
            defer { server.stop() }
            try withScene { scene in
                let end = try scene.tryMount(server.address + (path == "page.html" ? "page/" : path))
                #expect(end.status == 32)
                #expect(end.errors.split(separator: "\n").count == 1, "\(end.errors)")
            }
        }

        @Test("A resource that gives no length is read to its end, then has one, and is not fetched again")
        func unknownLength() throws {
            let film = FileOrigin(length: 3 << 20 + 9)
            film.fault = .chunkedWithoutLength
            let server = try ScriptedServer(["/live.mkv": film])
            defer { server.stop() }
            try withScene { scene in
                try writeFile(scene.work("list.txt"), "\(server.address)live.mkv\n".utf8)
                let mount = try scene.mount(scene.work("list.txt"))
                let path = mount.file("live.mkv")
                let copy = scene.work("copy")
                #expect(try ChildProcess.run(["sh", "-c", "cat \"$0\" > \"$1\"", path, copy]).status == 0)
                #expect(film.difference(inFile: copy) == nil)
                #expect(eventually { (try? attributes(path))?.st_size == off_t(film.length) })
                let before = server.bytesAsked(of: film.length)
                #expect(film.difference(inFile: path) == nil)
                // A confirmation of the version may cost the one byte of a one-byte range.
                #expect(server.bytesAsked(of: film.length) - before <= 1)
            }
        }
    }
}

private func replaced(_ text: String, with base: String) -> String {
    var (result, rest) = ("", text[...])
    while let place = rest.firstRange(of: "BASE") {
        result += rest[..<place.lowerBound] + base
        rest = rest[place.upperBound...]
    }
    return result + rest
}
