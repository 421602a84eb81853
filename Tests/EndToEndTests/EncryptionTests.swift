import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// An encrypted cache holds what a plain one does, and shows nothing.
    @Suite struct EncryptionTests {
        /// 32 bytes in hexadecimal, in a file that is the mounter's alone.
        private func key(_ scene: Scene, _ name: String = "key", _ digit: String = "a") throws -> String {
            let path = scene.work(name)
            try writeFile(path, Array(String(repeating: digit, count: 64).utf8))
            chmod(path, 0o600)
            return path
        }

        @Test("What kills and remounts leave of an encrypted cache is read right, and nothing of it is readable")
        func crashes() throws {
            let film = FileOrigin(length: 24 << 20)
            let server = try filmServer(film)
            defer { server.stop() }
            try withScene(limit: .seconds(120)) { scene in
                let options = ["--encrypt", "file:" + (try key(scene)), "--cache-size", "16M"]
                var random = SeededGenerator()
                for round in 0..<6 {
                    let mount = try scene.mount(server.address, options)
                    for _ in 0..<12 {
                        let file = try OpenDescriptor(mount.file("film.mkv"))
                        let offset = Int64.random(in: 0..<(film.length - 700_000), using: &random)
                        let count = Int.random(in: 1...700_000, using: &random)
                        let bytes = try file.bytes(at: offset, count: count)
                        let wrong = bytes.withUnsafeBytes {
                            film.version.bytes.firstDifference(in: $0, from: offset)
                        }
                        #expect(wrong == nil && bytes.count == count, "at \(offset), seed \(random.seed)")
                    }
                    if round % 2 == 0 {
                        eventually(within: .seconds(3)) { CacheFolder(path: scene.cache).committedBlocks > 0 }
                        mount.crash()
                    } else {
                        let status = try ChildProcess.run([program, "status", mount.path])
                        #expect(status.output.contains("encrypted; no passthrough"))
                        try mount.unmount()
                    }
                    umount2(mount.path, Int32(MNT_DETACH))
                }
                #expect(CacheFolder(path: scene.cache).bytesOnDisk <= 24 << 20)
                for word in ["film.mkv", "127.0.0.1", scene.mountpoint] {
                    let found = try ChildProcess.run(["grep", "-rlasF", "-e", word, scene.cache])
                    #expect(found.status == 1, "\(word): \(found.output)")
                }
            }
        }

        @Test("A wrong key, none, and one for a plain cache are a sentence each, and lose nothing")
        func keys() throws {
            let film = FileOrigin(length: 1 << 20)
            let server = try filmServer(film)
            defer { server.stop() }
            try withScene(limit: .seconds(120)) { scene in
                let (right, wrong) = (try key(scene), try key(scene, "other", "b"))
                func refusal(_ options: [String]) throws -> String {
                    let end = try scene.tryMount(server.address, options)
                    #expect(end.status != 0)
                    return end.errors
                }
                var mount = try scene.mount(server.address, ["--encrypt", "file:" + right])
                #expect(try readWhole(mount.file("film.mkv")).count == 1 << 20)
                try mount.unmount()
                let asked = server.requests.count
                #expect(try refusal([]).contains("The cache is encrypted"))
                #expect(try refusal(["--encrypt", "file:" + wrong]).contains("The key is not the one of this cache"))
                #expect(try refusal(["--encrypt", "file:" + scene.work("none")]).contains("cannot be opened"))
                #expect(
                    try refusal(["--encrypt", "env:KEY"]).contains("file:PATH, credential:NAME or command:COMMAND"))
                #expect(try refusal(["--encrypt", "command:false"]).contains("ended with status 1"))
                #expect(try refusal(["--encrypt", "credential:key"]).contains("CREDENTIALS_DIRECTORY"))
                chmod(right, 0o644)
                #expect(try refusal(["--encrypt", "file:" + right]).contains("accessible to others"))
                chmod(right, 0o600)
                #expect(server.requests.count == asked)

                let cache = ["--cache-dir", scene.cache]
                let list = try ChildProcess.run([program, "cache", "list"] + cache)
                #expect(list.status == 32 && list.errors.contains("The cache is encrypted"))
                let change =
                    [program, "cache", "rekey"] + cache + ["--encrypt", "file:" + right, "--to", "file:" + wrong]
                #expect(try ChildProcess.run(change).status == 0)
                #expect(try ChildProcess.run(change).status == 32)
                // The same key by the two other ways, with everything that was fetched.
                mount = try scene.mount(server.address, ["--encrypt", "command:cat \(wrong)"])
                #expect(try readWhole(mount.file("film.mkv")).count == 1 << 20)
                try mount.unmount()
                mount = try scene.mount(
                    server.address, ["--encrypt", "credential:other"],
                    environment: ["CREDENTIALS_DIRECTORY": scene.folder + "/work"])
                #expect(try readWhole(mount.file("film.mkv")).count == 1 << 20)
                let busy = try ChildProcess.run([program, "cache", "prune", "--lost-key"] + cache)
                #expect(busy.status == 32 && busy.errors.contains("uses this source's part"))
                try mount.unmount()
                let bodies = server.requests[asked...].filter { $0.path.hasSuffix("film.mkv") && $0.method == "GET" }
                #expect(bodies.isEmpty, "\(bodies.count)")
                let verify = [program, "cache", "verify"] + cache + ["--encrypt", "file:" + wrong]
                #expect(try ChildProcess.run(verify).status == 0)

                #expect(try ChildProcess.run([program, "cache", "prune", "--lost-key"] + cache).status == 0)
                #expect(try names(in: scene.cache).isEmpty)
                mount = try scene.mount(server.address)
                #expect(try readWhole(mount.file("film.mkv")).count == 1 << 20)
                try mount.unmount()
                #expect(try refusal(["--encrypt", "file:" + right]).contains("The cache is not encrypted"))
            }
        }
    }
}
