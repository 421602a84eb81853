import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// HLS playlists as ffmpeg makes them, which a real nginx serves.
    @Suite struct HLSTests {
        struct Form: CustomTestStringConvertible, Sendable {
            var testDescription: String
            var words: [String]
            var isEncrypted = false

            static let all = [
                Form(testDescription: "transport stream", words: ["-hls_segment_filename", "s%03d.ts"]),
                Form(
                    testDescription: "fragments",
                    words: ["-hls_segment_type", "fmp4", "-hls_segment_filename", "s%03d.m4s"]),
                Form(testDescription: "encrypted", words: ["-hls_segment_filename", "s%03d.ts"], isEncrypted: true),
            ]
        }

        /// 128 bits, and not all alike.
        private static let key = (1...16).map { UInt8($0 * 15) }
        private static let vector = "000102030405060708090a0b0c0d0e0f"

        private static let film = [
            "ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=320x180:rate=25:duration=8", "-f",
            "lavfi", "-i", "sine=frequency=440:duration=8", "-c:v", "libx264", "-preset", "ultrafast", "-b:v", "2M",
            "-g", "25", "-pix_fmt", "yuv420p", "-c:a", "aac",
        ]
        private static let list = ["-f", "hls", "-hls_time", "1", "-hls_playlist_type", "vod"]

        /// Makes a playlist and its segments, and serves them.
        /// - Parameter body: its server may be stopped by it.
        private func with(
            _ words: [String], _ body: (Scene, (url: String, stop: () -> Void), _ root: String) throws -> Void
        ) throws {
            try withScene { scene in
                let root = scene.work("root")
                mkdir(root, 0o755)
                try writeFile(root + "/film.key", Self.key)
                try writeFile(scene.work("key"), "film.key\n\(root)/film.key\n\(Self.vector)\n".utf8)
                try succeed(Self.film + words.map { replaced($0, "KEY", scene.work("key")) }, in: root)
                let server = try RealServer(.nginx, root: root, place: scene.work("server"))
                var isStopped = false
                let stop = {
                    if !isStopped { server.stop() }
                    isStopped = true
                }
                defer { stop() }
                try body(scene, (server.url, stop), root)
            }
        }

        private func replaced(_ text: String, _ word: String, _ other: String) -> String {
            text == word ? other : text
        }

        /// The files of that extension in the order of their names, one behind another.
        private func joined(_ root: String, _ suffix: String) throws -> [UInt8] {
            try names(in: root).filter { $0.hasSuffix(suffix) }.sorted().flatMap { try readWhole(root + "/" + $0) }
        }

        @Test(
            "The segments of a film are one file: every byte, every frame, also from the middle and offline",
            arguments: Form.all)
        func plays(_ form: Form) throws {
            let encryption = form.isEncrypted ? ["-hls_key_info_file", "KEY"] : []
            try with(Self.list + encryption + form.words + ["index.m3u8"]) { scene, server, root in
                let expected: [UInt8]
                if form.isEncrypted {
                    let key = Self.key.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
                    let plain = scene.work("plain")
                    mkdir(plain, 0o755)
                    for name in try names(in: root) where name.hasSuffix(".ts") {
                        try succeed([
                            "openssl", "enc", "-d", "-aes-128-cbc", "-K", key, "-iv", Self.vector, "-in",
                            root + "/" + name, "-out", plain + "/" + name,
                        ])
                    }
                    expected = try joined(plain, ".ts")
                } else {
                    let suffix = form.testDescription == "fragments" ? ".m4s" : ".ts"
                    expected = try joined(root, "init.mp4") + joined(root, suffix)
                }
                let local = scene.work("local")
                try writeFile(local, expected)
                let mount = try scene.mount(server.url + "index.m3u8")
                let name = form.testDescription == "fragments" ? "index.mp4" : "index.ts"
                #expect(try names(in: mount.path) == [name])
                let file = mount.file(name)
                var facts = stat()
                #expect(stat(file, &facts) == 0 && facts.st_size == expected.count)
                // From the middle first, then all of it.
                let seek = ["ffmpeg", "-nostdin", "-v", "error", "-ss", "4"]
                let frames = ["-f", "framemd5", "-"]
                #expect(try succeed(seek + ["-i", file] + frames) == succeed(seek + ["-i", local] + frames))
                let isSame = try readWhole(file) == expected
                #expect(isSame)
                let all = try succeed(["ffmpeg", "-nostdin", "-v", "error", "-i", file] + frames)
                #expect(try all == succeed(["ffmpeg", "-nostdin", "-v", "error", "-i", local] + frames))
                #expect(all.split(separator: "\n").count > 200)
                try mount.unmount()
                server.stop()
                let again = try scene.mount(server.url + "index.m3u8")
                let isThere = try readWhole(again.file(name)) == expected
                #expect(isThere)
                // Neither the key nor where it is was written down.
                let key = Self.key.map { "\\x" + String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
                let found = try ChildProcess.run(["grep", "-rlaP", "--", key + "|film\\.key", scene.cache])
                #expect(found.output.isEmpty && found.status == 1, "\(found.output)\(found.errors)")
            }
        }

        @Test("Byte ranges of one resource are the bytes that they name, here all of it")
        func oneResource() throws {
            let words = ["-hls_flags", "single_file", "-hls_segment_filename", "all.ts", "index.m3u8"]
            try with(Self.list + words) { scene, server, root in
                let mount = try scene.mount(server.url + "index.m3u8")
                #expect(try names(in: mount.path) == ["index.ts"])
                let isSame = try readWhole(mount.file("index.ts")) == readWhole(root + "/all.ts")
                #expect(isSame)
            }
        }

        @Test("doctor judges a film by all of its segments")
        func doctor() throws {
            // Long enough to show how fast the line is.
            let words = ["-vf", "noise=alls=40:allf=t", "-b:v", "20M", "-hls_time", "2", "index.m3u8"]
            try with(Self.list + words) { scene, server, root in
                let parts = try names(in: root).filter { $0.hasSuffix(".ts") }
                let sum = try parts.reduce(0) { try $0 + readWhole(root + "/" + $1).count }
                #expect(parts.count > 2)
                let end = try ChildProcess.run(
                    [
                        program, "doctor", server.url + "index.m3u8", "--cache-dir", scene.cache, "--duration", "40s",
                    ], environment: ["no_proxy": "127.0.0.1"], within: .seconds(40))
                #expect(end.output.contains("it will play: \(humanSize(Int64(sum))) in 40s need "), "\(end.output)")
            }
        }

        @Test("A master playlist is a folder with a file a variant")
        func variants() throws {
            let words = [
                "-map", "0:v", "-map", "1:a", "-map", "0:v", "-map", "1:a", "-s:v:1", "160x90", "-b:v:1", "500k",
                "-master_pl_name", "film.m3u8", "-var_stream_map", "v:0,a:0 v:1,a:1", "-hls_segment_filename",
                "v%v_%03d.ts", "v%v.m3u8",
            ]
            try with(Array(words.prefix(8)) + Array(words[8..<12]) + Self.list + Array(words[12...])) {
                scene, server, root in
                let mount = try scene.mount(server.url + "film.m3u8")
                let shown = try names(in: mount.path).sorted()
                #expect(shown.map { $0.prefix { $0 != " " } } == ["160x90", "320x180"], "\(shown)")
                #expect(shown.allSatisfy { $0.hasSuffix("k.ts") })
                for (name, prefix) in zip(shown, ["v1_", "v0_"]) {
                    let parts = try names(in: root).filter { $0.hasPrefix(prefix) }.sorted()
                    let isSame = try readWhole(mount.file(name)) == parts.flatMap { try readWhole(root + "/" + $0) }
                    #expect(isSame, "\(name)")
                }
            }
        }

        @Test("A playlist that is no exact file can be read as it is, and doctor says why")
        func staysAPlaylist() throws {
            let words = [
                "-f", "hls", "-hls_time", "1", "-hls_flags", "omit_endlist", "-hls_list_size", "0", "live.m3u8",
            ]
            try with(words) { scene, server, root in
                let mount = try scene.mount(server.url + "live.m3u8")
                #expect(try names(in: mount.path) == ["live.m3u8"])
                #expect(try readWhole(mount.file("live.m3u8")) == readWhole(root + "/live.m3u8"))
                let doctor = try ChildProcess.run(
                    [program, "doctor", server.url + "live.m3u8", "--cache-dir", scene.cache],
                    environment: ["no_proxy": "127.0.0.1"], within: .seconds(40))
                #expect(doctor.output.contains("it stays a playlist: it is live"), "\(doctor.output)")
            }
        }
    }
}
