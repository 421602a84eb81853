import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// What another user puts in the way of a mount of root's.
    @Suite(.enabled(if: geteuid() == 0, "needs root")) struct TrustTests {
        static let film = FileOrigin(length: 100_000)
        static let other: uid_t = 61_234

        @Test("Options of another user's file send nothing that root alone can read")
        func config() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withScene { scene in
                let (secret, file) = (scene.work("secret"), scene.work("options"))
                try writeFile(secret, "X-Key: sesame\n".utf8)
                chmod(secret, 0o600)
                try writeFile(file, "header = @\(secret)\n".utf8)
                try #require(chmod(file, 0o600) == 0 && chown(file, Self.other, Self.other) == 0)
                let end = try scene.tryMount(server.address, ["-o", "config=\(file)"])
                #expect(end.status == 1 && end.errors.contains(file), "\(end.errors)")
                #expect(server.requests.isEmpty)
                try #require(chown(file, 0, 0) == 0)
                try scene.mount(server.address, ["-o", "config=\(file)"]).unmount()
                #expect(server.requests.first?["x-key"] == "sesame")
            }
        }

        @Test("A list of another user takes no login of root's along, and is no source where headers would follow it")
        func list() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withScene { scene in
                let (list, netrc) = (scene.work("list.m3u"), scene.work(".netrc"))
                try writeFile(netrc, "default login joe password hunter2\n".utf8)
                chmod(netrc, 0o600)
                let home = ["HOME": scene.folder + "/work"]
                for owner in [Self.other, 0] {
                    let isOwn = owner == 0
                    let path = isOwn ? "own/film.mkv" : "other/film.mkv"
                    try writeFile(list, "\(server.address)\(path)\n".utf8)
                    try #require(chown(list, owner, owner) == 0)
                    let end = try scene.tryMount(list, ["--header", "X-Key: sesame"], environment: home)
                    #expect(end.status == (isOwn ? 0 : 1), "\(end)")
                    if isOwn {
                        #expect(try ChildProcess.run([program, "umount", scene.mountpoint]).status == 0)
                    } else {
                        #expect(end.errors.contains("could be changed") && server.requests.isEmpty, "\(end)")
                    }
                    let mount = try scene.mount(list, environment: home)
                    #expect(Self.film.difference(inFile: mount.file("film.mkv")) == nil)
                    let logins = server.requests.filter { $0.path == "/" + path }.map { $0["authorization"] }
                    #expect(!logins.isEmpty && logins.allSatisfy { ($0 != nil) == isOwn }, "\(path): \(logins)")
                    try mount.unmount()
                }
            }
        }

        @Test("A link of another user to a file that root alone can read is not followed")
        func link() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withScene { scene in
                let secret = scene.work("secret")
                try writeFile(secret, "X-Key: sesame\n".utf8)
                chmod(secret, 0o600)
                try #require(chown(scene.work(""), Self.other, Self.other) == 0)
                defer { chown(scene.work(""), 0, 0) }
                for options in [["--header", "@\(secret)"], ["--credentials", secret], ["--config", secret]] {
                    let end = try scene.tryMount(server.address, options)
                    #expect(end.status == 1 && end.errors.contains("another user"), "\(end.errors)")
                }
                #expect(server.requests.isEmpty)
            }
        }

        @Test("A cache below another user's directory is refused by mount and by the commands on it")
        func cache() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withScene { scene in
                try scene.mount(server.address).unmount()
                try #require(chown(scene.cache, Self.other, Self.other) == 0)
                let end = try scene.tryMount(server.address)
                #expect(end.status == 32 && end.errors.contains("another user"), "\(end.errors)")
                for words in [["list"], ["verify"], ["prune"]] {
                    let end = try ChildProcess.run([program, "cache"] + words + ["--cache-dir", scene.cache])
                    #expect(end.status == 32 && end.errors.contains("another user"), "\(words): \(end.errors)")
                }
            }
        }

        @Test("A cache directory that is exchanged for a link while it is used loses nothing to the daemon's end")
        func exchanged() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withScene { scene in
                let mount = try scene.mount(server.address)
                #expect(Self.film.difference(inFile: mount.file("film.mkv")) == nil)
                let (moved, victim) = (scene.work("moved"), scene.work("victim"))
                let name = try #require(entries(scene.cache).first)
                try #require(rename(scene.cache, moved) == 0)
                mkdir(victim, 0o755)
                mkdir(victim + "/" + name, 0o755)
                let files = ["control", "lock", "index.sqlite.is-damaged"].map {
                    "\(victim)/\(name)/\($0)"
                }
                for file in files { try writeFile(file, "mine".utf8) }
                try #require(symlink(victim, scene.cache) == 0)
                waitForStartingChildren()
                try #require(unmount(mount.path))
                #expect(eventually { !isRunning(mount.pid) })
                for file in files { #expect(contents(file) == "mine", "\(file)") }
                #expect(access("\(moved)/\(name)/control", F_OK) != 0)
            }
        }

        @Test("Controls in the name of a mount point reach no terminal")
        func controls() throws {
            let server = try anywhereServer(Self.film)
            defer { server.stop() }
            try withScene { scene in
                let name = "m\u{1B}]0;x\u{7}\u{9B}2J\u{202E}\n<0>"
                let mount = try scene.mount(server.address, on: name)
                var outputs: [ChildProcess.End] = []
                let ask = { (words: [String]) in outputs.append(try ChildProcess.run([program] + words)) }
                for words in [["status"], ["status", "--json"], ["doctor", mount.path], ["cache", "list"]] {
                    try ask(words + (words[0] == "cache" ? ["--cache-dir", scene.cache] : []))
                }
                // Another sentence reports a daemon that does not answer.
                mount.freeze()
                for words in [["status"], ["pin", mount.path]] { try ask(words) }
                kill(mount.pid, SIGCONT)
                try mount.unmount()
                try ask(["umount", mount.path])
                for output in outputs {
                    for scalar in (output.output + output.errors).unicodeScalars where scalar != "\n" {
                        let isSafe =
                            scalar.value >= 0x20 && !(0x7F...0x9F).contains(scalar.value) && scalar != "\u{202E}"
                        #expect(isSafe, "U+\(String(scalar.value, radix: 16)) in \(output)")
                    }
                    #expect(!(output.output + output.errors).contains("\n<0>"))
                }
            }
        }
    }
}

private func entries(_ folder: String) -> [String] {
    guard let stream = opendir(folder) else { return [] }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) {
            $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        if !name.hasPrefix(".") { names.append(name) }
    }
    return names
}
