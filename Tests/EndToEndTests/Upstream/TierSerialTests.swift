import Glibc
import ReelCore
import ReelThreads
import TestKit
import Testing

private func status(_ mount: Mounted) throws -> String {
    try ChildProcess.run([program, "status", mount.path]).output
}

/// Bytes that a mount has read from the tier, and whether it leaves that out.
private func tier(_ mount: Mounted) throws -> (read: Int64, isAvoided: Bool) {
    let text = try ChildProcess.run([program, "status", "--json", mount.path]).output
    let tier = try #require(text.firstMatch(of: /"tier":\{[^}]*\}/)).output
    let read = try #require(tier.firstMatch(of: /"readBytes":(\d+)/)).output.1
    return (try #require(Int64(read)), tier.contains("\"isAvoided\":true"))
}

extension EndToEnd {
    /// Mounts that share a bucket of a real service (`--tier`). What comes from the bucket and what from the origin
    /// depends on how soon the bucket answers.
    @Suite struct TierSerialTests {
        /// What each mount asks the origin for: the version, and the first bytes with it.
        private static let proof: Int64 = 700_000

        @Test(
            "What one mount has fetched another one reads from a bucket of rclone, and the keys are nowhere to be seen")
        func rclone() throws {
            guard let rclone = try pythonServer("rclone") else { try Test.cancel("rclone 1.75 is not installed") }
            let film = FileOrigin(length: 8 << 20 + 4321)
            let origin = try ScriptedServer(["/film.mkv": film])
            defer { origin.stop() }
            try withScene { scene in
                let root = scene.work("root")
                for folder in [root, root + "/shared"] { mkdir(folder, 0o755) }
                let server = try RealServer(root: root, place: scene.work("server")) {
                    $0.rclone(rclone, serve: "s3", "--auth-key", "AKIDEXAMPLE,hunter2")
                }
                defer { server.stop() }
                let keys = ["AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "hunter2"]
                let options = ["--tier", "s3://shared/films", "--endpoint", server.url]
                let source = origin.url("/film.mkv").text
                let first = try scene.mount(source, options, environment: keys)
                #expect(film.difference(inFile: first.file("film.mkv")) == nil)
                let isWritten = eventually(within: .seconds(30)) {
                    (try? status(first))?.contains("8.0 MiB written") == true
                }
                #expect(isWritten, "\((try? status(first)) ?? "")")
                let before = origin.bodyBytesSent
                let second = try scene.mount(
                    source, options + ["--cache-dir", scene.work("other"), "--log-level", "trace"], on: "second",
                    environment: keys)
                #expect(film.difference(inFile: second.file("film.mkv")) == nil)
                #expect(origin.bodyBytesSent - before < Self.proof)
                let text = try status(second)
                #expect(text.contains("tier    s3://shared/films: "), "\(text)")
                for folder in [scene.cache, scene.work("other"), root] {
                    let found = try ChildProcess.run(["grep", "-rlaE", "hunter2|AKIDEXAMPLE", folder])
                    #expect(found.status == 1 && found.output.isEmpty, "\(found)")
                }
                // The origin gets no signature.
                #expect(origin.requests.allSatisfy { $0["authorization"] == nil })
            }
        }

        @Test("All sources of a catalogue share the tier, each also behind a shared cache of its own")
        func catalogue() throws {
            guard RealServer.Kind.nginx.isInstalled else { try Test.cancel("nginx is not installed") }
            let films = (1...2).map { FileOrigin(length: 4 << 20, seed: UInt64($0)) }
            let origins = try films.map { try filmServer($0) }
            defer { for origin in origins { origin.stop() } }
            try withScene { scene in
                let server = try BucketServer([:], place: scene.work("server"))
                defer { server.stop() }
                let cache = try RealServer(root: scene.work("root"), place: scene.work("cache")) { server in
                    try server.nginx(server: "location / { proxy_pass \(origins[1].address); }")
                }
                defer { cache.stop() }
                let tables = ["", "via = \"\(cache.url)\"\n"].enumerated().map { number, via in
                    "[[source]]\npath = \"\(number)\"\nsource = \"\(origins[number].address)\"\n" + via
                }
                let catalogue = scene.work("films.toml")
                try writeFile(catalogue, tables.joined().utf8)
                let tier = ["--tier", "s3://films/tier", "--endpoint", server.endpoint]
                func look(_ mount: Mounted) {
                    for (number, film) in films.enumerated() {
                        #expect(film.difference(inFile: mount.file("\(number)/film.mkv")) == nil)
                    }
                }
                let first = try scene.mount(catalogue, tier, environment: server.keys)
                look(first)
                #expect(!cache.requests.isEmpty)
                #expect(eventually(within: .seconds(30)) { (try? status(first))?.contains("8.0 MiB written") == true })
                let before = origins.reduce(0) { $0 + $1.bodyBytesSent }
                let second = try scene.mount(
                    catalogue, tier + ["--cache-dir", scene.work("other")], on: "second", environment: server.keys)
                look(second)
                let sent = origins.reduce(0) { $0 + $1.bodyBytesSent } - before
                // The mount behind the shared cache asks for whole slices.
                #expect(sent < 2 * Self.proof + 2 << 20, "\(sent)")
                #expect(try status(second).contains("tier    s3://films/tier: "))
            }
        }

        @Test("Mounts that play a film one after the other fetch it once, and a last one plays without its origin")
        func fleet() throws {
            let film = FileOrigin(length: 24 << 20)
            let origin = try ScriptedServer(["/film.mkv": film])
            defer { origin.stop() }
            try withScene { scene in
                // It knows conditional PUT, and verifies signatures.
                let server = try BucketServer([:], place: scene.work("server"))
                defer { server.stop() }
                let mounts = try (0..<4).map { number in
                    try scene.mount(
                        origin.url("/film.mkv").text,
                        [
                            "--tier", "s3://films/tier", "--endpoint", server.endpoint, "--cache-dir",
                            scene.work("cache\(number)"),
                        ], on: "mount\(number)", environment: server.keys)
                }
                let last = mounts[3].file("film.mkv")
                _ = try OpenDescriptor(last).bytes(at: 0, count: 1000)
                for mount in mounts.prefix(3) {
                    let before = origin.bodyBytesSent
                    #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                    let sent = origin.bodyBytesSent - before
                    if mount.path == mounts[0].path {
                        #expect(sent <= film.length * 5 / 4, "\(sent)")
                        #expect(
                            eventually(within: .seconds(60)) {
                                (try? status(mount))?.contains("24.0 MiB written") == true
                            })
                    } else {
                        // A bucket that a busy machine makes slow is left out, and the origin serves the rest. What was
                        // asked of both is little.
                        let (read, isAvoided) = try tier(mount)
                        #expect(read > 0 && sent + read <= film.length * 5 / 4, "\(sent), \(read)")
                        #expect(isAvoided || sent <= film.length / 4, "\(sent)")
                    }
                }
                origin.stop()
                #expect(film.difference(inFile: last) == nil)
                let text = try status(mounts[3])
                #expect(text.contains("tier    s3://films/tier: "), "\(text)")
            }
        }
    }
}
