import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// Real players on small films and songs that a real nginx serves.
    @Suite struct PlayerTests {
        struct Medium: CustomTestStringConvertible, Sendable {
            var testDescription: String
            /// What ffmpeg makes it with.
            var words: [String]

            static let all = [
                Medium(testDescription: "moov at the end.mp4", words: film("mpeg4", "aac")),
                Medium(testDescription: "faststart.mp4", words: film("mpeg4", "aac") + ["-movflags", "+faststart"]),
                Medium(testDescription: "film.mkv", words: film("mpeg4", "aac")),
                Medium(testDescription: "song.mp3", words: song + ["-c:a", "libmp3lame"]),
                Medium(testDescription: "song.flac", words: song + ["-c:a", "flac"]),
            ]

            private static func film(_ video: String, _ audio: String) -> [String] {
                let picture = ["-f", "lavfi", "-i", "testsrc=size=320x180:rate=25:duration=4"]
                let sound = ["-f", "lavfi", "-i", "sine=frequency=440:duration=4"]
                return picture + sound + ["-c:v", video, "-b:v", "4M", "-c:a", audio]
            }

            private static let song = ["-f", "lavfi", "-i", "sine=frequency=440:duration=8"]
        }

        @Test("A film or song decodes, plays and seeks through the mount as the local file does", arguments: Medium.all)
        func plays(_ medium: Medium) throws {
            try withScene { scene in
                let root = scene.work("root")
                mkdir(root, 0o755)
                let local = root + "/" + medium.testDescription
                try succeed(["ffmpeg", "-v", "error"] + medium.words + ["-bitexact", local])
                let server = try RealServer(.nginx, root: root, place: scene.work("server"))
                defer { server.stop() }
                let mount = try scene.mount(server.url)
                let remote = mount.file(medium.testDescription)

                let probe = ["ffprobe", "-v", "error", "-show_format", "-show_streams", "-of", "flat"]
                let (expected, found) = (try succeed(probe + [local]), try succeed(probe + [remote]))
                #expect(lines(found, without: "filename") == lines(expected, without: "filename"))
                let frames = try succeed(["ffmpeg", "-v", "error", "-i", remote, "-f", "framemd5", "-"])
                #expect(try frames == succeed(["ffmpeg", "-v", "error", "-i", local, "-f", "framemd5", "-"]))
                #expect(frames.split(separator: "\n").count > 50)

                // As fast as it decodes: without sound and picture there is no clock to keep.
                let mpv = [
                    "mpv", "--no-config", "--vo=null", "--ao=null", "--untimed", "--ao-null-untimed", "--no-terminal",
                ]
                try succeed(mpv + [remote])
                try succeed(mpv + ["--start=50%", remote])
            }
        }

        /// As Jellyfin asks. What the kernel reads ahead of a program is more than ffprobe reads of such films.
        @Test(
            "A probe of a film costs three requests and no more than its index and its beginning",
            arguments: [("behind.mp4", 900_000), ("film.mkv", 700_000)])
        func probe(_ name: String, most: Int64) throws {
            try withScene { scene in
                let root = scene.work("root")
                mkdir(root, 0o755)
                let picture = ["-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25:duration=8"]
                let sound = ["-f", "lavfi", "-i", "sine=frequency=440:duration=8"]
                let codecs = ["-c:v", "mpeg4", "-q:v", "1", "-c:a", "aac"]
                try succeed(["ffmpeg", "-v", "error"] + picture + sound + codecs + [root + "/" + name])
                let server = try RealServer(.nginx, root: root, place: scene.work("server"))
                defer { server.stop() }
                let log = scene.work("requests.json")
                let mount = try scene.mount(server.url, ["--request-log", log])
                let sizes = ["-analyzeduration", "200M", "-probesize", "1G", "-threads", "0"]
                let shown = ["-print_format", "json", "-show_streams", "-show_chapters", "-show_format"]
                try succeed(["ffprobe", "-v", "error"] + sizes + shown + [mount.file(name)])

                func requests() -> [String] {
                    String(decoding: (try? readWhole(log)) ?? [], as: UTF8.self).split(separator: "\n")
                        .map { String($0) }
                        .filter { !$0.contains("\"why\":\"listing\"") && !$0.contains("\"from\":\"cache\"") }
                }
                // A request is written down when it has ended.
                #expect(eventually { requests().contains { $0.contains("\"tail\"") } && requests().count >= 2 })
                let bytes = requests().map { line in
                    line.split(separator: "\"bytes\":").last.flatMap { Int64($0.prefix { $0.isNumber }) } ?? .max / 100
                }
                let length = try readWhole(root + "/" + name).count
                #expect(length > 2 << 20 && bytes.count <= 3 && bytes.reduce(0, +) <= most, "\(length): \(requests())")
            }
        }

        @discardableResult
        private func succeed(_ words: [String]) throws -> String {
            let end = try ChildProcess.run(words, within: .seconds(40))
            #expect(end.status == 0, "\(words.joined(separator: " ")): \(end.output)\(end.errors)")
            return end.output
        }

        private func lines(_ text: String, without word: String) -> [Substring] {
            text.split(separator: "\n").filter { !$0.contains(word) }
        }
    }
}
