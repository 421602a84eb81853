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
            try withScene { scene in
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

        /// Serves `Hidden-Title.mkv`, of which any eight bytes are among `Self.marks`.
        private func markedServer(length: Int64) throws -> ScriptedServer {
            let version = FileOrigin.Version(length: length, entityTag: "\"Secret-Tag\"")
            let script = folderScript(["Hidden-Title.mkv": FileOrigin(version)])
            let bytes = Array(repeating: Array("MARK".utf8), count: Int(length) / 4).flatMap { $0 }
            return try ScriptedServer { request in
                script(request).map { step in
                    guard case .generated(_, let range) = step else { return step }
                    return .body(Array(bytes[Int(range.lower)..<Int(range.upper)]))
                }
            }
        }

        private static let marks = ["MARKMARK", "ARKMARKM", "RKMARKMA", "KMARKMAR"]

        @Test("After kills in the middle of writes no eight bytes of a film, no name and no URL are in the cache")
        func nothingToRead() throws {
            let length: Int64 = 6 << 20
            let server = try markedServer(length: length)
            defer { server.stop() }
            try withScene { scene in
                let options = ["--encrypt", "file:" + (try key(scene)), "--cache-size", "4M", "--log-level", "trace"]
                let words = Self.marks + ["Hidden", "Title", "Secret-Tag", "matroska", server.address, scene.folder]
                var random = SeededGenerator()
                func look(_ moment: String) throws {
                    let patterns = words.flatMap { ["-e", $0] }
                    let found = try ChildProcess.run(["grep", "-rlaF"] + patterns + [scene.cache])
                    #expect(found.status == 1, "\(moment), seed \(random.seed): \(found)")
                    let names = try ChildProcess.run(["find", scene.cache]).output
                        .replacing(scene.cache, with: "")
                    #expect(!words.contains { names.contains($0) }, "\(moment): \(names)")
                }
                for round in 0..<8 {
                    let mount = try scene.mount(server.address, options)
                    let reader = try ChildProcess(["cat", mount.file("Hidden-Title.mkv")])
                    let wanted = Int.random(in: 0..<Int(length), using: &random)
                    eventually { server.bodyBytesSent >= Int64(round) * length / 2 + Int64(wanted) }
                    try look("running, round \(round)")
                    if round % 4 < 3 {
                        mount.crash()
                        umount2(mount.path, Int32(MNT_DETACH))
                        _ = try reader.wait()
                    } else {
                        let end = try reader.wait()
                        #expect(end.status == 0 && end.output.utf8.count == Int(length), "seed \(random.seed)")
                        try mount.unmount()
                    }
                    try look("round \(round)")
                }
                // The words are found where they are.
                try writeFile(scene.cache + "/seen", Array(Self.marks[3].utf8))
                let seen = try ChildProcess.run(["grep", "-rlaF", "-e", Self.marks[3], scene.cache])
                #expect(seen.output == scene.cache + "/seen\n")
            }
        }

        @Test("status and doctor say that an encrypted mount has no passthrough, and why")
        func told() throws {
            let server = try filmServer(FileOrigin(length: 300_000))
            defer { server.stop() }
            try withScene { scene in
                let mount = try scene.mount(server.address, ["--encrypt", "file:" + (try key(scene))])
                #expect(try readWhole(mount.file("film.mkv")).count == 300_000)
                let status = try ChildProcess.run([program, "status", mount.path])
                #expect(status.output.contains("  cache   encrypted; no passthrough\n"), "\(status)")
                let json = try ChildProcess.run([program, "status", "--json", mount.path])
                #expect(json.output.contains("\"isEncrypted\":true"), "\(json)")
                let doctor = try ChildProcess.run([program, "doctor", mount.path])
                let sentence = "the cache is encrypted: complete files are read through reelfs, without passthrough"
                #expect(doctor.output.replacing("\n      ", with: " ").contains("ok    " + sentence), "\(doctor)")
                #expect(!doctor.output.contains("passthrough: the kernel reads"), "\(doctor)")
            }
        }

        @Test("A wrong key, none, and one for a plain cache are a sentence each, and lose nothing")
        func keys() throws {
            let film = FileOrigin(length: 1 << 20)
            let server = try filmServer(film)
            defer { server.stop() }
            try withScene { scene in
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
                #expect(try refusal([]).contains("reelfs: the cache is encrypted"))
                #expect(try refusal(["--encrypt", "file:" + wrong]).contains("the key is not the one of this cache"))
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
                #expect(list.status == 32 && list.output.isEmpty && list.errors.contains("the cache is encrypted"))
                let prune = try ChildProcess.run([program, "cache", "prune"] + cache)
                #expect(prune.status == 32 && prune.output.isEmpty && prune.errors.contains("the cache is encrypted"))
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
                // A confirmation of the version, after some seconds, asks for one byte.
                let bodies = server.requests[asked...].filter {
                    $0.path.hasSuffix("film.mkv") && $0.range(of: 1 << 20)?.count != 1
                }
                #expect(bodies.isEmpty, "\(bodies.count)")
                let verify = [program, "cache", "verify"] + cache + ["--encrypt", "file:" + wrong]
                #expect(try ChildProcess.run(verify).status == 0)

                #expect(try ChildProcess.run([program, "cache", "prune", "--lost-key"] + cache).status == 0)
                #expect(try names(in: scene.cache).isEmpty)
                mount = try scene.mount(server.address)
                #expect(try readWhole(mount.file("film.mkv")).count == 1 << 20)
                try mount.unmount()
                #expect(try refusal(["--encrypt", "file:" + right]).contains("the cache is not encrypted"))
            }
        }
    }
}
