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

        @Test("A resolver that fails is a refusal, and tells its reason in the log")
        func refusal() throws {
            try withScene { scene in
                let list = scene.work("pages.m3u")
                try write("http://127.0.0.1:9/film.mkv\n", to: list)
                let script = scene.work("resolver")
                try write("echo 'no such film: http://me:pw@h/?key=s3cret' >&2\nexit 5\n", to: script)
                let mount = try scene.mount(list, ["--resolver", "/bin/sh " + script])
                errno = 0
                #expect(open(mount.file("film.mkv"), O_RDONLY) == -1 && errno == EACCES)
            }
        }

        private func write(_ text: String, to path: String) throws {
            let file = try #require(fopen(path, "we"))
            defer { fclose(file) }
            #expect(fputs(text, file) >= 0)
        }
    }
}
