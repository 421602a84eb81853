import Glibc
import ReelCore
import Synchronization
import TestKit
import Testing

extension EndToEnd {
    /// Mounts whose files a command resolves.
    @Suite struct ResolverMountTests {
        private static let example = repository + "/mount-helpers/resolver.example"

        @Test("A list of pages is a mount of the media on them, over links that serve a few requests each")
        func pages() throws {
            let film = FileOrigin(length: 12 << 20)
            let link = Mutex((number: 0, uses: 0))
            let server = try ScriptedServer { request in
                if request.path == "/pages/film.html" {
                    let number = link.withLock { link in
                        link = (link.number + 1, 0)
                        return link.number
                    }
                    return ServerStep.answer(
                        200, [("Content-Type", "text/html")],
                        body: "<html><video><source src='../media/\(number)?sig=s3cret'></video></html>")
                }
                let isGood = link.withLock { link in
                    guard request.target == "/media/\(link.number)?sig=s3cret" else { return false }
                    link.uses += 1
                    return link.uses <= 3
                }
                return isGood ? film.answer(request) : ServerStep.answer(403)
            }
            defer { server.stop() }
            try withScene { scene in
                let list = scene.work("pages.m3u")
                try write("#EXTM3U\n#EXTINF:1,Film\n\(server.address)pages/film.html\n", to: list)
                let mount = try scene.mount(list, ["--resolver", "python3 " + Self.example])
                let names = try names(in: mount.path)
                try #require(names.count == 1)
                #expect(film.difference(inFile: mount.file(names[0])) == nil)
                #expect(link.withLock { $0.number } > 1)
            }
        }

        @Test("A resolver that gives no place is in the verdict, and no longer when it gives one again")
        func verdict() throws {
            let film = FileOrigin(length: 300_000)
            let server = try ScriptedServer { request in
                request.path == "/list.m3u"
                    ? ServerStep.answer(body: "#EXTM3U\nhttp://127.0.0.1:9/film.mkv\n") : film.answer(request)
            }
            defer { server.stop() }
            try withScene { scene in
                let script = scene.work("resolver")
                try write("exit 5\n", to: script)
                let mount = try scene.mount(server.url("/list.m3u").text, ["--resolver", "/bin/sh " + script])
                func status() throws -> String { try ChildProcess.run([program, "status", mount.path]).output }
                #expect(readingCode(mount.file("film.mkv")) == EACCES)
                let refused = try status()
                #expect(refused.contains("the resolver"), "\(refused)")
                try write(#"read -r q; echo '{"url": "\#(server.url("/film.mkv").text)"}'"# + "\n", to: script)
                #expect(eventually { film.difference(inFile: mount.file("film.mkv")) == nil })
                let again = try status()
                #expect(!again.contains("the resolver"), "\(again)")
            }
        }

        @Test(
            "A resolver that fails, hangs, prints without end or is killed is a refusal in time, and the log says why",
            arguments: [
                ("exit 5", #"ended with status 5: no film: {"name":"film.mkv","reason":"open","url":"http://"#),
                ("exec sleep 1000", "did not answer in time"), ("exec yes >&2", "did not answer in time"),
                ("exec yes", "wrote more than 64 KiB"),
                ("kill -9 $$", "was ended by signal 9"),
            ])
        func refusal(end: String, told: String) throws {
            let server = try ScriptedServer { request in
                ServerStep.answer(body: "http://me:hunter2@\(request["host"] ?? "")/film.mkv?sig=s3cret\n")
            }
            defer { server.stop() }
            try withScene { scene in
                let script = scene.work("resolver")
                try write("read -r question; echo first >&2; echo \"no film: $question\" >&2; \(end)\n", to: script)
                let options = ["--resolver", "/bin/sh " + script, "--timeout", "20", "--header", "X-Key: sesame"]
                let mount = try ForegroundMount(
                    scene, server.url("/pages.m3u").text, options + ["--log-level", "trace"])
                // It has half of the time of an open, which is over with ETIMEDOUT.
                errno = 0
                #expect(open(mount.file("film.mkv"), O_RDONLY) == -1 && errno == EACCES, "\(errno)")
                let sentence = "the resolver gave no place: /bin/sh \(told)"
                #expect(eventually { mount.log.contains(sentence) }, "\(mount.log)")
                for word in ["hunter2", "s3cret", "sesame", "first"] {
                    #expect(!mount.log.contains(word), "\(mount.log)")
                }
                mount.child.signal(SIGTERM)
                #expect(try mount.child.wait().status == 0)
            }
        }

        private func write(_ text: String, to path: String) throws {
            let file = try #require(fopen(path, "we"))
            defer { fclose(file) }
            #expect(fputs(text, file) >= 0)
        }
    }
}
