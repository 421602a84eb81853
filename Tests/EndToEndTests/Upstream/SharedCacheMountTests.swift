import Glibc
import ReelCore
import ReelThreads
import Synchronization
import TestKit
import Testing

extension EndToEnd {
    /// Mounts whose requests go through the shared cache of `mount-helpers/nginx-cache.example`.
    @Suite struct SharedCacheMountTests {
        /// A web server over one folder, and nginx as a cache in front of it.
        private struct Stage {
            let scene: Scene
            let root: String
            let source: RealServer
            private var isSourceUp = true
            private var isCacheUp = true
            var cache: RealServer

            init(_ scene: Scene, _ films: [String: FileOrigin]) throws {
                self.scene = scene
                root = scene.work("root")
                mkdir(root, 0o755)
                mkdir(root + "/films", 0o755)
                for (name, film) in films { try writeFile("\(root)/films/\(name)", film.whole) }
                source = try RealServer(.nginx, root: root, place: scene.work("source"))
                mkdir(scene.work("kept"), 0o755)
                cache = try Self.recipe(scene, of: source)
            }

            /// The recipe on this machine, with a port of its own where none is given.
            static func recipe(_ scene: Scene, of source: RealServer) throws -> RealServer {
                let text = try #require(contents(examples + "/nginx-cache.example"))
                return try RealServer(root: scene.work("root"), place: scene.work("cache")) { server in
                    let places = [
                        ("/var/cache/nginx/reelfs", scene.work("kept")), ("min_free=2g", ""),
                        ("media.example:443", "127.0.0.1:\(source.port)"), ("https://", "http://"),
                        ("listen 8080", "listen 127.0.0.1:\(server.port)"),
                    ]
                    return try server.nginx(places.reduce(text) { $0.replacing($1.0, with: $1.1) })
                }
            }

            /// The other recipe. Its file holds those of a directory of Traffic Server's, behind lines of their own.
            static func trafficServer(_ scene: Scene, of source: RealServer) throws -> RealServer {
                let text = try #require(contents(examples + "/trafficserver-cache.example"))
                return try RealServer(root: scene.work("root"), place: scene.work("traffic")) { server in
                    let place = server.place
                    for folder in ["run", "log", "kept", "share"] { mkdir("\(place)/\(folder)", 0o755) }
                    let copy = try ChildProcess.run(["cp", "-rT", "/etc/trafficserver", place + "/etc"])
                    try #require(copy.status == 0, "\(copy)")
                    let places = [
                        ("STRING 8080", "STRING 127.0.0.1:\(server.port)"),
                        ("/var/cache/trafficserver 80G", place + "/kept 256M"),
                        ("https://media.example/", source.url),
                    ]
                    let recipe = places.reduce(text) { $0.replacing($1.0, with: $1.1) }
                    for part in recipe.split(separator: "# === ").dropFirst() {
                        let end = try #require(part.firstIndex(of: "\n"))
                        var lines = String(part[end...])
                        // It would become a user of its own, who may not be here.
                        if part.hasPrefix("records") { lines += "\nCONFIG proxy.config.admin.user_id STRING #-1\n" }
                        // As a reader of the recipe adds them to what is there, or puts them in place of it.
                        let path = "\(place)/etc/\(part[..<end])"
                        let before = part.hasPrefix("records") ? contents(path) ?? "" : ""
                        try writeFile(path, (before + lines).utf8)
                    }
                    let folders = [
                        ("prefix", "/usr"), ("exec_prefix", "/usr"), ("bindir", "/usr/bin"), ("sbindir", "/usr/sbin"),
                        ("sysconfdir", place + "/etc"), ("datadir", place + "/share"), ("includedir", "/usr/include"),
                        ("libdir", "/usr/lib/trafficserver"), ("libexecdir", "/usr/lib/trafficserver/modules"),
                        ("localstatedir", place), ("runtimedir", place + "/run"), ("logdir", place + "/log"),
                        ("cachedir", place + "/kept"),
                    ]
                    let layout = folders.map { "\($0): \($1)\n" }.joined()
                    try writeFile(place + "/runroot.yaml", layout.utf8)
                    return ["traffic_server", "--run-root=\(place)/runroot.yaml"]
                }
            }

            var address: String { source.url + "films/" }
            var via: [String] { ["--via", cache.url + "films/"] }

            /// A mount with a cache of its own.
            func mount(_ number: Int, _ options: [String] = []) throws -> Mounted {
                let cache = ["--cache-dir", scene.work("cache\(number)")]
                return try scene.mount(address, via + cache + options, on: "mount\(number)")
            }

            /// Bytes of a file that the web server sent.
            func sent(_ name: String) -> Int64 {
                source.requests.reduce(0) { sum, line in
                    let words = line.split(separator: " ")
                    return words.last.map { $0.hasSuffix("/" + name) } == true ? sum + (Int64(words[1]) ?? 0) : sum
                }
            }

            /// Reads in order. - Returns: the longest wait.
            func play(_ film: FileOrigin, _ path: String, _ range: ByteRange) throws -> Duration {
                let file = try OpenDescriptor(path)
                var (offset, longest) = (range.lower, Duration.zero)
                while offset < range.upper {
                    let count = min(256 << 10, range.upper - offset)
                    let start = now()
                    let bytes = try file.bytes(at: offset, count: Int(count))
                    longest = max(longest, now() - start)
                    try #require(
                        bytes.elementsEqual(film.expectedBytes(ByteRange(offset, offset + count))), "\(offset)")
                    offset += count
                }
                return longest
            }

            mutating func stopSource() {
                if isSourceUp { source.stop() }
                isSourceUp = false
            }

            mutating func stopCache() {
                if isCacheUp { cache.stop() }
                isCacheUp = false
            }

            mutating func end() {
                stopSource()
                stopCache()
            }
        }

        private static let examples = repository + "/mount-helpers"
        private static let length: Int64 = 16 << 20

        private func withStage(_ films: [String: FileOrigin], _ body: (inout Stage) throws -> Void) throws {
            guard RealServer.Kind.nginx.isInstalled else { try Test.cancel("nginx is not installed") }
            try withScene { scene in
                var stage = try Stage(scene, films)
                defer { stage.end() }
                try body(&stage)
            }
        }

        @Test("Of a film that eight mounts read the source sends one, and a ninth plays when the source is gone")
        func eight() throws {
            let films = [
                "once.mkv": FileOrigin(length: Self.length), "row.mkv": FileOrigin(length: Self.length, seed: 2),
            ]
            try withStage(films) { stage in
                let mounts = try (1...8).map { try stage.mount($0) }
                for mount in mounts { #expect(films["row.mkv"]!.difference(inFile: mount.file("row.mkv")) == nil) }
                let film = films["once.mkv"]!
                let troubles = Mutex<[String]>([])
                let readers = mounts.map { mount in
                    startThread {
                        let trouble = film.difference(inFile: mount.file("once.mkv"))
                        if let trouble { troubles.withLock { $0.append(trouble) } }
                    }
                }
                for reader in readers { reader.join() }
                #expect(troubles.withLock { $0 } == [])
                let told = try mounts.map { try ChildProcess.run([program, "status", $0.path]).output }
                let line = "via     \(stage.cache.url.dropLast()): "
                #expect(told.allSatisfy { $0.contains(line) && $0.contains(" missed") }, "\(told)")
                // A mount that the machine kept waiting for a second has asked the source itself, as it should. The
                // cache may fetch a slice of 1 MiB twice meanwhile.
                if !told.contains(where: { $0.contains("failed or slow a moment ago") }) {
                    for name in films.keys {
                        let sent = stage.sent(name)
                        #expect(sent <= Self.length + 3 << 20, "\(name): \(sent)")
                    }
                }
                stage.stopSource()
                let ninth = try stage.mount(9)
                #expect(try names(in: ninth.path) == ["once.mkv", "row.mkv"])
                for (name, film) in films { #expect(film.difference(inFile: ninth.file(name)) == nil) }
            }
        }

        @Test("Traffic Server keeps the slices of a film, as its recipe sets it up")
        func trafficServer() throws {
            let plugin = "/usr/lib/trafficserver/modules/slice.so"
            guard isProgram("traffic_server"), access(plugin, R_OK) == 0 else {
                try Test.cancel("Traffic Server is not installed")
            }
            let film = FileOrigin(length: Self.length)
            try withStage(["film.mkv": film]) { stage in
                stage.cache.stop()
                stage.cache = try Stage.trafficServer(stage.scene, of: stage.source)
                // On a busy machine a slice is asked for again before Traffic Server has written it: then a later mount
                // has it.
                var costs: [Int64] = []
                for number in 1...6 where costs.last.map({ $0 > 1 << 20 }) ?? true {
                    let (mount, before) = (try stage.mount(number), stage.sent("film.mkv"))
                    #expect(film.difference(inFile: mount.file("film.mkv")) == nil)
                    costs.append(stage.sent("film.mkv") - before)
                }
                #expect(costs.count > 1 && costs.last! <= 1 << 20, "\(costs)")
                let words = [program, "doctor", "--cache-dir", stage.scene.cache] + stage.via + [stage.address]
                var said = ""
                // On a busy machine it is asked again before it has written the first answer.
                let keeps = try (0..<4).contains { _ in
                    let end = try ChildProcess.run(words, environment: ["no_proxy": "127.0.0.1,localhost"])
                    said = end.output.replacing("\n      ", with: " ")
                    return end.status == 0 && said.contains("keeps ranges: it had the second answer")
                }
                #expect(keeps, "\(said)")
            }
        }

        @Test("No read waits for its deadline where a shared cache is killed, or its disk is full")
        func killedAndFull() throws {
            let film = FileOrigin(length: 24 << 20)
            try withStage(["film.mkv": film]) { stage in
                let disk = geteuid() == 0 ? try SmallDisk(.tmpfs, megabytes: 4, at: stage.scene.work("kept")) : nil
                defer { disk?.end() }
                let mount = try stage.mount(1, ["--timeout", "120"])
                let path = mount.file("film.mkv")
                // It is a second and a half where no machine is busy: SharedCacheTests.
                let limit = Duration.seconds(40)
                #expect(try stage.play(film, path, ByteRange(0, 12 << 20)) < limit, "full")
                stage.stopCache()
                #expect(try stage.play(film, path, ByteRange(12 << 20, 18 << 20)) < limit, "killed")
                #expect(film.difference(inFile: path) == nil)
            }
        }

        @Test("A film that changes while a shared cache has half of it is read as one version or the other")
        func halfOld() throws {
            let length: Int64 = 64 << 20
            let (old, new) = (FileOrigin(length: length), FileOrigin(length: length, seed: 2))
            try withStage(["film.mkv": old]) { stage in
                let path = stage.root + "/films/film.mkv"
                // nginx makes its entity tag of the length and the second of the change: both happen in one here.
                let yesterday = timespec(tv_sec: time(nil) - 86_400, tv_nsec: 0)
                try #require(utimensat(AT_FDCWD, path, [yesterday, yesterday], 0) == 0)
                _ = try stage.play(old, try stage.mount(1).file("film.mkv"), ByteRange(0, 8 << 20))
                try writeFile(path + ".new", new.whole)
                #expect(rename(path + ".new", path) == 0)
                #expect(stage.sent("film.mkv") < length)
                let second = try stage.mount(2)
                var answers: [String?] = []
                #expect(
                    eventually {
                        // The first read of a version that is gone fails; the next open finds the other one.
                        guard let bytes = try? readWhole(second.file("film.mkv")) else { return false }
                        answers = [old.difference(from: bytes), new.difference(from: bytes)]
                        return true
                    })
                #expect(answers.contains(nil), "\(answers)")
            }
        }

        /// Caches that a user may name, and what the doctor says of each.
        private static let kinds: [(String, [String])] = [
            (
                "recipe",
                ["keeps ranges: it had the second answer", "tells versions apart", "from the source in"]
            ),
            (
                "proxy_cache c; proxy_cache_valid any 1h; add_header X-Cache $upstream_cache_status;",
                ["keeps whole files"]
            ),
            ("add_header X-Cache MISS;", ["keeps no ranges"]),
            ("add_header Vary x;", ["does not say whether it keeps"]),
            ("proxy_set_header Range \"\"; max_ranges 0;", ["answers a range with the whole file"]),
            ("return 403;", ["answers 403", "--via-credentials"]),
            ("proxy_hide_header ETag; add_header ETag '\"other\"';", ["has another version of the file"]),
        ]

        @Test("The doctor says what a shared cache keeps", arguments: 0..<7)
        func doctor(_ number: Int) throws {
            let (lines, expected) = Self.kinds[number]
            try withStage(["film.mkv": FileOrigin(length: Self.length)]) { stage in
                if number > 0 {
                    stage.cache.stop()
                    let (port, place) = (stage.source.port, stage.scene.work("other"))
                    stage.cache = try RealServer(root: stage.root, place: place) { server in
                        try server.nginx(
                            http: "proxy_cache_path \(place)/kept keys_zone=c:1m;",
                            server: "location / { proxy_pass http://127.0.0.1:\(port); \(lines) }")
                    }
                }
                let words = ["doctor", "--cache-dir", stage.scene.cache] + stage.via + [stage.address]
                let end = try ChildProcess.run(
                    [program] + words, environment: ["no_proxy": "127.0.0.1,localhost"], within: .seconds(30))
                let said = end.output.replacing("\n      ", with: " ")
                for text in expected { #expect(said.contains(text), "\(said)") }
                #expect(end.status == ([0, 1, 3].contains(number) ? 0 : 1), "\(end)")
            }
        }
    }
}
