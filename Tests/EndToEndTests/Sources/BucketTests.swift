import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// `s3://BUCKET/PREFIX`.
    @Suite struct BucketTests {
        static let oddKeys = [
            "plain.mp4", "large film.mkv", " leading space", "trailing ", "Füße/日本語.mp3", "100%.txt", "50%25.txt",
            "a#b?c",
            "a&b=c;d", "it's*(1)!.txt", "a+b.txt", "\"<tag>\"", "&amp;", "~tilde", "colon:x", "[brackets]", "a\\b",
            "new\tline", "\u{1}\u{1f}\u{7f}", "both", "both/inside", "a//b", "a/", "/rooted", "//", "../up", "./here",
            "dots/..", "dots/.", "dots/...", "x/../../y", "deep/er/and/deeper/film.mkv", "%2e%2e/z", ".!", "..!/a",
            String(repeating: "l", count: 300), String(repeating: "ü", count: 200) + "/x",
        ]

        /// Contents that name their key.
        private static func content(_ key: String) -> [UInt8] {
            Array(key.utf8) + [0] + GeneratedBytes(seed: 7).bytes(ByteRange(0, Int64(key.utf8.count * 997)))
        }

        @Test("Each object of a bucket is a file with its own bytes, whatever its key, also without the service")
        func oddBucket() throws {
            var objects = Dictionary(uniqueKeysWithValues: Self.oddKeys.map { (Array($0.utf8), Self.content($0)) })
            let film = FileOrigin(length: 3 << 20 + 5)
            objects[Array("film.mkv".utf8)] = film.whole
            // The marker of a folder is no file.
            objects[Array("deep/".utf8)] = []
            try withScene { scene in
                let server = try BucketServer(objects, place: scene.work("server"))
                defer { server.stop() }
                let options = ["--endpoint", server.endpoint]
                var mount = try scene.mount("s3://films", options, environment: server.keys)
                let tail = ByteRange(film.length - 5000, film.length)
                // Its tail first.
                #expect(
                    try OpenDescriptor(mount.file("film.mkv")).bytes(at: tail.lower, count: 9000)
                        == film.expectedBytes(tail))
                let expected = Set(objects.values.filter { !$0.isEmpty })
                for isServed in [true, false] {
                    let found = try files(below: mount.path).map { try readWhole($0) }
                    #expect(found.count == expected.count && Set(found) == expected)
                    let shown = try names(in: mount.path)
                    #expect(shown.contains("both") && shown.contains("both (2)") && shown.contains("%2E%2E"))
                    #expect(try readWhole(mount.file("both (2)/inside")) == Self.content("both/inside"))
                    #expect(try names(in: mount.file("deep")) == ["er"])
                    try mount.unmount()
                    if !isServed { break }
                    server.stop()
                    mount = try scene.mount("s3://films", options, environment: server.keys)
                }
            }
        }

        @Test("A prefix is a mount of its own, wrong keys and none are refused, doctor signs as the mount does")
        func keys() throws {
            let film = FileOrigin(length: 900_000)
            try withScene { scene in
                let server = try BucketServer([Array("a b/film.mkv".utf8): film.whole], place: scene.work("server"))
                defer { server.stop() }
                let options = ["--endpoint", server.endpoint, "--region", "eu-west-1"]
                // Without keys moto does not say what is wrong.
                for (wrong, sentence) in [
                    (["AWS_ACCESS_KEY_ID": ""], "the origin answers"),
                    (server.keys.merging(["AWS_SECRET_ACCESS_KEY": "wrong"]) { $1 }, "the origin answers 403"),
                ] {
                    let end = try scene.tryMount(
                        "s3://films/a b", options, environment: ["HOME": scene.work("")].merging(wrong) { $1 })
                    #expect(end.status == 32 && end.errors.contains(sentence), "\(end)")
                }
                let end = try scene.tryMount("s3://films/none", options, environment: server.keys)
                #expect(end.status == 32 && end.errors.contains("no key of the bucket"), "\(end)")
                let mount = try scene.mount("s3://films/a b", options, environment: server.keys)
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                let url = try extendedAttribute("user.reelfs.url", of: mount.file("film.mkv"))
                #expect(url == server.endpoint + "/films/a%20b/film.mkv")
                for place in ["s3://films/a b", mount.path] {
                    let words = [program, "doctor", place, "--cache-dir", scene.cache] + options
                    let report = try ChildProcess.run(words, environment: server.keys, within: .seconds(60))
                    #expect(report.status == 0 && report.output.contains("bucket (S3)"), "\(report)")
                }
            }
        }

        @Test("A bucket of rclone is the local tree for its key alone, also after its server has gone")
        func rclone() throws {
            guard let program = try pythonServer("rclone") else { try Test.cancel("rclone 1.75 is not installed") }
            try withScene { scene in
                let root = scene.work("root")
                mkdir(root, 0o755)
                try makeOddTree(root + "/films", folder: "colon:folder", names: ServerTests.oddNames)
                let server = try RealServer(root: root, place: scene.work("server")) {
                    $0.rclone(program, serve: "s3", "--auth-key", "AKIDEXAMPLE,hunter2")
                }
                let options = ["--endpoint", server.url]
                var keys = ["AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wrong"]
                do {
                    defer { server.stop() }
                    let end = try scene.tryMount("s3://films", options, environment: keys)
                    #expect(end.status == 32 && end.errors.contains("the origin answers 403"), "\(end)")
                    keys["AWS_SECRET_ACCESS_KEY"] = "hunter2"
                    let mount = try scene.mount("s3://films", options, environment: keys)
                    try expectSame(root + "/films", mount.path)
                    try mount.unmount()
                }
                let mount = try scene.mount("s3://films", options, environment: keys)
                try expectSame(root + "/films", mount.path)
            }
        }

        /// Answers as `rclone serve s3` does: ranges with 200, no condition looked at; as AWS does: another region
        /// first. Its keys are AKIDEXAMPLE's of a session `sesame`.
        private static func quirkyServer(_ film: FileOrigin) throws -> ScriptedServer {
            let listing =
                "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>film.mkv</Key>"
                + "<Size>\(film.length)</Size></Contents></ListBucketResult>"
            return try ScriptedServer { request in
                guard request["authorization"]?.contains("Credential=AKIDEXAMPLE/") == true,
                    request["x-amz-security-token"] == "sesame"
                else { return ServerStep.answer(403) }
                guard request["authorization"]?.contains("/eu-south-2/s3/") == true else {
                    return ServerStep.answer(400, [("x-amz-bucket-region", "eu-south-2")])
                }
                guard request.path == "/films/film.mkv" else { return ServerStep.answer(body: listing) }
                let range = request.range(of: film.length) ?? ByteRange(0, film.length)
                let upper = min(range.upper, film.length)
                return [
                    .head(
                        200,
                        [
                            ("Content-Range", "bytes \(range.lower)-\(upper - 1)/\(film.length)"),
                            ("Content-Length", "\(upper - range.lower)"), ("ETag", film.version.entityTag!),
                        ]), .body(film.expectedBytes(ByteRange(range.lower, upper))),
                ]
            }
        }

        @Test("A restart without the keys goes on with those that stood in the mount's environment")
        func restart() throws {
            let film = FileOrigin(length: 900_000)
            let server = try Self.quirkyServer(film)
            defer { server.stop() }
            try withScene { scene in
                let home = ["HOME": scene.work("")]
                let keys = [
                    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "hunter2",
                    "AWS_SESSION_TOKEN": "sesame", "AWS_REGION": "eu-south-2",
                ]
                var mount = try scene.mount(
                    "s3://films", ["--endpoint", server.address], environment: home.merging(keys) { $1 })
                do {
                    let file = try OpenDescriptor(mount.file("film.mkv"))
                    // The keys go from one to the next.
                    for _ in 1...2 { mount = try scene.restart(mount, environment: home) }
                    #expect(try file.bytes(at: 0, count: Int(film.length)) == film.whole)
                }
                #expect(server.requests.allSatisfy { $0["authorization"]?.contains("/eu-south-2/") == true })
                // One of its own, though it says nothing.
                mount = try scene.restart(
                    mount, mayWarn: true, environment: home.merging(["AWS_PROFILE": ""]) { $1 })
                let end = try ChildProcess.run([program, "refresh", mount.path])
                #expect(end.status != 0 && end.errors.contains("403"), "\(end)")
            }
        }

        @Test("Keys sign for the service alone and are nowhere to be seen; a range with status 200 is read right")
        func quirks() throws {
            let film = FileOrigin(length: 900_000)
            let server = try Self.quirkyServer(film)
            defer { server.stop() }
            try withScene { scene in
                let file = scene.work("secret")
                try writeFile(file, "username=AKIDEXAMPLE\npassword=hunter2\ntoken=sesame\n".utf8)
                chmod(file, 0o600)
                let options = [
                    "-o", "credentials=\(file),endpoint=\(server.address)", "--log-level", "trace", "--region", "x-1",
                ]
                var mount = try scene.mount("s3://films", options)
                #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                // Once the region is known it is no longer asked for.
                #expect(server.requests.count { $0["authorization"]?.contains("/x-1/") == true } == 1)
                try mount.unmount()
                mount = try scene.mount("s3://films", options)
                var seen = ["mountinfo": contents("/proc/self/mountinfo")]
                for name in ["cmdline", "environ"] { seen[name] = contents("/proc/\(mount.pid)/\(name)") }
                seen["status"] = try ChildProcess.run([program, "status", "--json", mount.path]).output
                for (name, text) in seen {
                    for secret in ["hunter2", "sesame", "AKIDEXAMPLE"] {
                        #expect(text?.contains(secret) == false, "\(name)")
                    }
                }
                try mount.unmount()
                let found = try ChildProcess.run(["grep", "-rlaE", "hunter2|sesame|AKIDEXAMPLE", scene.cache])
                #expect(found.status == 1 && found.output.isEmpty, "\(found)")
            }
        }

        private func files(below path: String) throws -> [String] {
            try names(in: path).flatMap { name in
                let inner = path + "/" + name
                return try attributes(inner).st_mode & S_IFMT == S_IFDIR ? try files(below: inner) : [inner]
            }
        }
    }
}
