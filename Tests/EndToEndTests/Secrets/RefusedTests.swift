import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// A source that is remembered, and whose login is not right.
    @Suite struct RefusedTests {
        private static let header = "Authorization: Bearer right"
        private static let film = FileOrigin(length: 300_000)

        private func withSource(_ body: (Scene, String) throws -> Void) throws {
            let film = Self.film
            let server = try ScriptedServer { request in
                guard request["authorization"] == "Bearer right" else { return ServerStep.answer(401) }
                if request.path == "/film.mkv" { return film.answer(request) }
                let page = "<html><title>Index of /</title><pre><a href='film.mkv'>film.mkv</a></pre></html>"
                return ServerStep.answer(200, [("Content-Type", "text/html")], body: page)
            }
            defer { server.stop() }
            try withScene { scene in
                let mount = try scene.mount(server.address, ["--header", Self.header])
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                try mount.unmount()
                try body(scene, server.address)
            }
        }

        @Test(
            "It mounts, says so on stderr, and is not well",
            arguments: [
                (
                    ["--header", "Authorization: Bearer wrong"],
                    ["the origin answers 401; mounted from what is remembered"], "the origin answers 401"
                ),
                (
                    ["--token-command", "false"],
                    ["the token command, ended with status 1", "there is no login for it"],
                    "false, the token command, ended with status 1"
                ),
                (
                    ["--token-command", "echo a b"], ["the token command", "there is no login for it"],
                    "echo, the token command, printed no token"
                ),
                (["--token-command", "echo wrong"], ["the origin answers 401"], "the origin answers 401"),
                (["--credentials", "FILE"], ["the origin answers 401"], "the origin answers 401"),
            ])
        func refused(options: [String], said: [String], verdict: String) throws {
            try withSource { scene, source in
                let file = scene.work("credentials")
                try writeFile(file, "username=joe\npassword=wrong\n".utf8)
                chmod(file, 0o600)
                let end = try scene.mountAnswered(source, options.map { $0 == "FILE" ? file : $0 })
                #expect(end.status == 0 && said.allSatisfy { end.errors.contains($0) }, "\(end)")
                let mount = scene.folder + "/mount"
                #expect(try names(in: mount) == ["film.mkv"])
                // A command that fails may need the network, and the origin has refused nothing.
                if said.contains("there is no login for it") {
                    #expect(Self.film.difference(inFile: mount + "/film.mkv") == nil)
                }
                let status = try ChildProcess.run([program, "status", mount]).output
                let lines = status.split(separator: "\n")
                #expect(lines.dropFirst().first?.contains("\(verdict), since 20") == true, "\(status)")
                #expect(try ChildProcess.run([program, "top", mount]).output.contains("refused"))
                #expect(try ChildProcess.run([program, "umount", mount]).status == 0)
            }
        }

        @Test("A cache that has no room says so, and a source that cannot be mounted names who looks into it")
        func hints() throws {
            try withSource { scene, source in
                let options = ["--header", Self.header]
                let end = try scene.tryMount(source, options + ["--min-free", "90000T"])
                #expect(end.status == 0 && end.errors.contains("no room beside the free space that min-free"), "\(end)")
                #expect(try ChildProcess.run([program, "umount", scene.folder + "/mount"]).status == 0)
                let small = try scene.tryMount(source, options + ["--cache-size", "10K"])
                #expect(small.status == 0 && small.errors.contains("the cache of 10.0 KiB has no room"), "\(small)")
                #expect(try ChildProcess.run([program, "umount", scene.folder + "/mount"]).status == 0)
                let other = try scene.tryMount(source + "film.mkv", ["--header", "Authorization: no"])
                #expect(other.status == 32 && other.errors.contains("; `reelfs doctor` of the same URL"), "\(other)")
            }
        }

        @Test(
            "A program that an option names and that is not there is refused before the mount",
            arguments: ["--resolver", "--token-command", "--on-change"])
        func missing(option: String) throws {
            try withScene { scene in
                for (command, reason) in [
                    ("/no/such/program", "No such file or directory"), ("no-such-program a", "is in no folder of PATH"),
                    ("/etc", "it is a folder"),
                ] {
                    let end = try scene.tryMount("http://localhost:9/", [option, command])
                    #expect(end.status == 1 && end.errors.contains(reason), "\(end)")
                }
            }
        }

        @Test("A page that lists nothing may want a login, which the doctor says")
        func page() throws {
            let server = try ScriptedServer { _ in
                ServerStep.answer(200, [("Content-Type", "text/html")], body: "<html><form>Log in</form></html>")
            }
            defer { server.stop() }
            try withScene { scene in
                let end = try scene.tryMount(server.address)
                #expect(end.status == 32, "\(end)")
                #expect(end.errors.contains("no directory listing; `reelfs doctor` of the same URL"), "\(end)")
            }
        }

        @Test("A mount that fails leaves nothing in the cache")
        func ghosts() throws {
            try withScene { scene in
                for options in [[], ["--only-cached"]] {
                    let end = try scene.tryMount("http://localhost:9/", options)
                    let folders = try names(in: scene.cache).filter { $0.utf8.count == 32 }
                    #expect(end.status == 32 && folders == [], "\(end)")
                }
            }
        }
    }
}
