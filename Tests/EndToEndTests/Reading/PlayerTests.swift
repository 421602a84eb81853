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

        private func lines(_ text: String, without word: String) -> [Substring] {
            text.split(separator: "\n").filter { !$0.contains(word) }
        }
    }
}
