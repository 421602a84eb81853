import Glibc
import ReelCore
import TestKit
import Testing

extension EndToEnd {
    /// Recordings that grow on a real server, through the real kernel.
    @Suite(.plainAndSeldomEncrypted) struct GrowingMountTests {
        /// A server over one folder.
        private func withServer(_ body: (Scene, _ root: String, RealServer) throws -> Void) throws {
            guard RealServer.Kind.nginx.isInstalled else { try Test.cancel("nginx is not installed") }
            try withScene { scene in
                let root = scene.work("root")
                mkdir(root, 0o755)
                let server = try RealServer(.nginx, root: root, place: scene.work("server"))
                defer { server.stop() }
                try body(scene, root, server)
            }
        }

        private func requestLog(_ scene: Scene) -> String { scene.work("requests") }

        /// The same with a mount of it.
        private func withFolder(
            _ options: [String] = [], _ body: (Scene, _ root: String, Mounted) throws -> Void
        ) throws {
            try withServer { scene, root, server in
                // The folder is listed when it is filled.
                try writeFile(root + "/other", [1])
                let log = ["--request-log", requestLog(scene)]
                let mount = try scene.mount(server.url, ["--growing", "--refresh", "0"] + log + options)
                try body(scene, root, mount)
            }
        }

        private func append(_ bytes: [UInt8], to path: String) {
            let descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o644)
            defer { close(descriptor) }
            #expect(bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) } == bytes.count)
        }

        private func lines(_ numbers: Range<Int>) -> [UInt8] {
            Array(numbers.map { "line \($0) of a file that is appended to\n" }.joined().utf8)
        }

        private func isThere(_ path: String) -> Bool { eventually(within: .seconds(20)) { access(path, F_OK) == 0 } }

        @Test("tail -f prints what is appended, and stat(2) shows the new size", arguments: [60, 5000])
        func tail(_ count: Int) throws {
            try withFolder(["--timeout", "4"]) { scene, root, mount in
                append(lines(0..<count), to: root + "/log")
                try #require(isThere(mount.file("log")))
                let tail = try ChildProcess(["tail", "-n", "+1", "-s", "0.2", "-f", mount.file("log")])
                defer {
                    tail.signal(SIGTERM)
                    _ = try? tail.wait()
                }
                var end = count
                #expect(eventually { Array(tail.said.output.utf8) == lines(0..<end) })
                // Within the wait of a reader at the end, and after it has seen the end.
                for pause in [0, 5, 0] {
                    sleep(UInt32(pause))
                    append(lines(end..<end + count), to: root + "/log")
                    end += count
                    let expected = lines(0..<end).count
                    let isPrinted = eventually(within: .seconds(30)) { tail.said.output.utf8.count == expected }
                    #expect(isPrinted, "\(tail.said.output.utf8.count) of \(expected)")
                }
                #expect(Array(tail.said.output.utf8).elementsEqual(lines(0..<end)))
                let shown = try attributes(mount.file("log"))
                #expect(shown.st_size == lines(0..<end).count)
            }
        }

        @Test("A handle from before it grew reads on through the page cache")
        func pages() throws {
            try withFolder { scene, root, mount in
                let bytes = GeneratedBytes(seed: 3).bytes(ByteRange(0, 2_000_000))
                let path = root + "/film.ts"
                append(Array(bytes[..<1_000_001]), to: path)
                // Old enough that nobody waits at its end.
                var times = [timeval(tv_sec: 1_700_000_000, tv_usec: 0), timeval(tv_sec: 1_700_000_000, tv_usec: 0)]
                utimes(path, &times)
                try #require(isThere(mount.file("film.ts")))
                let old = try OpenDescriptor(mount.file("film.ts"))
                #expect(try old.bytes(at: 0, count: 2_000_000) == Array(bytes[..<1_000_001]))
                append(Array(bytes[1_000_001...]), to: path)
                let isLonger = eventually(within: .seconds(30)) {
                    (try? readWhole(mount.file("film.ts"))) == bytes
                }
                #expect(isLonger)
                #expect(eventually { (try? old.bytes(at: 999_000, count: 2_000_000)) == Array(bytes[999_000...]) })
                #expect(try attributes(mount.file("film.ts")).st_size == 2_000_000)
            }
        }

        private func mpv(_ file: String, recordingTo copy: String) -> [String] {
            [
                "mpv", "--no-config", "--vo=null", "--ao=null", "--untimed", "--no-terminal",
                "--stream-record=\(copy)", file,
            ]
        }

        /// Four seconds of film, written as fast as they play.
        @Test("A player follows a recording from its beginning to its end", arguments: ["ffmpeg", "mpv", "cat"])
        func player(_ name: String) throws {
            guard isProgram(name) || name == "cat", isProgram("ffmpeg") else {
                try Test.cancel("\(name) is not installed")
            }
            try withFolder(["--timeout", "4"]) { scene, root, mount in
                let (local, remote) = (root + "/film.ts", mount.file("film.ts"))
                let recorder = try ChildProcess([
                    "ffmpeg", "-v", "error", "-re", "-f", "lavfi", "-i", "testsrc=size=320x180:rate=25:duration=6",
                    "-c:v", "mpeg2video", "-b:v", "4M", "-f", "mpegts", "-flush_packets", "1", local,
                ])
                defer { recorder.signal(SIGTERM) }
                try #require(eventually { ((try? attributes(local))?.st_size ?? 0) > 200_000 })
                try #require(isThere(remote))
                let copy = scene.work("copy.ts")
                let words =
                    switch name {
                    case "cat": ["sh", "-c", "cat '\(remote)' > '\(copy)'"]
                    case "mpv": mpv(remote, recordingTo: copy)
                    default:
                        ["ffmpeg", "-v", "error", "-i", remote, "-f", "framemd5", copy]
                    }
                let end = try ChildProcess.run(words, within: .seconds(90))
                #expect(end.status == 0, "\(end.errors)")
                _ = try recorder.wait(within: .seconds(20))
                if name == "cat" {
                    let (found, whole) = (try readWhole(copy), try readWhole(local))
                    #expect(whole.starts(with: found))
                    let said = String(decoding: try readWhole(requestLog(scene)), as: UTF8.self)
                    #expect(found.count == whole.count, "\(said)")
                } else {
                    let sums = try pictureSums(of: name == "mpv" ? copy : local)
                    if name == "ffmpeg" { #expect(contents(copy) == sums) }
                    let count = pictureCount(sums)
                    #expect(count >= 145, "\(count) of 150 frames")
                }
            }
        }

        private static let event = ["-hls_playlist_type", "event"]

        /// Eight seconds of film in segments of one, written as fast as they play.
        @Test(
            "A player follows a broadcast of HLS from its open to its end",
            arguments: [
                ("ffmpeg", event), ("mpv", event), ("cvlc", event),
                // Ranges of one file.
                ("ffmpeg", event + ["-hls_flags", "single_file"]),
                ("mpv", event + ["-hls_segment_type", "fmp4"]),
                // Live: the first two segments go on the way.
                ("ffmpeg", ["-hls_list_size", "6", "-hls_flags", "delete_segments"]),
            ])
        func broadcast(_ name: String, _ kind: [String]) throws {
            guard isProgram(name), isProgram("ffmpeg") else { try Test.cancel("\(name) is not installed") }
            try withServer { scene, root, server in
                let list = root + "/film.m3u8"
                let recorder = try ChildProcess(
                    [
                        "ffmpeg", "-v", "error", "-re", "-f", "lavfi", "-i",
                        "testsrc=size=320x180:rate=25:duration=8", "-c:v", "mpeg2video", "-b:v", "1M", "-g", "25",
                        "-f", "hls", "-hls_time", "1",
                    ] + kind + [list])
                defer { recorder.signal(SIGTERM) }
                let parts = { (contents(list) ?? "").split(separator: "\n").count { $0.hasPrefix("#EXTINF") } }
                try #require(eventually(within: .seconds(20)) { parts() >= 2 })
                // VLC runs as another user.
                let others = name == "cvlc" && geteuid() == 0 ? ["--allow-other"] : []
                let mount = try scene.mount(
                    server.url + "film.m3u8",
                    ["--growing", "--timeout", "20", "--request-log", requestLog(scene)] + others)
                let remote = mount.file(kind.contains("fmp4") ? "film.mp4" : "film.ts")
                let home = scene.openHome()
                let copy = home + "/copy.ts"
                let end =
                    switch name {
                    case "cvlc": try vlc([remote], home: home, to: copy)
                    case "mpv": try ChildProcess.run(mpv(remote, recordingTo: copy), within: .seconds(90))
                    default:
                        try ChildProcess.run(
                            ["ffmpeg", "-v", "error", "-i", remote, "-c", "copy", "-f", "mpegts", copy],
                            within: .seconds(90))
                    }
                #expect(end.status == 0, "\(end.errors)")
                _ = try recorder.wait(within: .seconds(20))
                let count = try pictureCount(pictureSums(of: copy))
                // On a busy machine a live one may have lost segments before its open: those of 25 frames, from 0 on.
                let asked = String(decoding: try readWhole(requestLog(scene)), as: UTF8.self)
                let lost = kind.contains("delete_segments") ? (0..<3).first { asked.contains("/film\($0).ts") } : 0
                let wanted = 200 - 25 * (lost ?? 0)
                #expect(lost != nil && count >= wanted - 5, "\(count) of \(wanted) frames")
            }
        }
    }
}
