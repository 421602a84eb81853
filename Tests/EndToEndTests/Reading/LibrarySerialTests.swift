import Glibc
import TestKit
import Testing

extension EndToEnd {
    /// What the programs of media libraries cost the origin, which is a real nginx. How much a mount reads ahead of a
    /// program depends on how fast both are, so these tests run alone.
    @Suite struct LibrarySerialTests {
        /// What a program may cause to be asked for of one film.
        struct Cost: Sendable {
            var bytes: Int64
            var requests: Int
        }

        struct Scanner: CustomTestStringConvertible, Sendable {
            var testDescription: String
            /// Words in front of the path of the film, and behind it.
            var words: [String]
            var behind: [String] = []
            /// The most for a film, by its suffix.
            var most: [String: Cost]

            static let all = [
                // As Jellyfin asks.
                Scanner(
                    testDescription: "ffprobe",
                    words: [
                        "-v", "error", "-analyzeduration", "200M", "-probesize", "1G", "-threads", "0",
                        "-print_format", "json", "-show_streams", "-show_chapters", "-show_format",
                    ],
                    most: ["mp4": Cost(bytes: 600_000, requests: 3), "mkv": Cost(bytes: 400_000, requests: 2)]),
                Scanner(
                    testDescription: "mediainfo", words: [],
                    // It reads 4 MB of an mp4 in a row, as its last films have shown, and half of such an mkv.
                    most: ["mp4": Cost(bytes: 6_000_000, requests: 3)]),
                Scanner(
                    testDescription: "exiftool", words: [],
                    most: ["mp4": Cost(bytes: 600_000, requests: 3), "mkv": Cost(bytes: 600_000, requests: 2)]),
                Scanner(
                    testDescription: "ffmpegthumbnailer", words: ["-i"], behind: ["-o", "/dev/null", "-c", "png"],
                    most: ["mp4": Cost(bytes: 900_000, requests: 4), "mkv": Cost(bytes: 900_000, requests: 5)]),
            ]
        }

        /// This many make a program known as one that looks into many files.
        private static let films = 10

        @Test("A program that looks into all films of a library costs each a few requests", arguments: Scanner.all)
        func scans(_ scanner: Scanner) throws {
            guard isProgram(scanner.testDescription) else {
                try Test.cancel("\(scanner.testDescription) is not installed")
            }
            try withScene { scene in
                let root = scene.work("root")
                mkdir(root, 0o755)
                try makeFilms(root, scene)
                let server = try RealServer(.nginx, root: root, place: scene.work("server"))
                defer { server.stop() }
                let log = scene.work("requests.json")
                let mount = try scene.mount(server.url, ["--request-log", log])
                for number in 0..<Self.films {
                    let film = mount.file(name(number))
                    try succeed([scanner.testDescription] + scanner.words + [film] + scanner.behind)
                }
                try mount.unmount()
                for number in Self.films - 2..<Self.films {
                    guard let most = scanner.most[suffix(number)] else { continue }
                    let all = String(decoding: try readWhole(log), as: UTF8.self).split(separator: "\n")
                        .filter { $0.contains("/\(name(number))\"") }
                    func bytes(_ lines: [Substring]) -> Int64 {
                        lines.reduce(0) { sum, line in
                            let rest = line.split(separator: "\"bytes\":").last
                            return sum + (rest.flatMap { Int64($0.prefix { $0.isNumber }) } ?? 1 << 40)
                        }
                    }
                    let lines = all.filter { !$0.contains("\"from\":\"cache\"") }
                    // ffmpeg 7 reads a megabyte of an mp4 in a row, where older ones read some kilobytes. What is
                    // fetched for a scan ends at a power of two, behind what the kernel reads ahead.
                    let served = bytes(all.filter { $0.contains("\"from\":\"cache\"") })
                    let isCheap = lines.count <= most.requests && bytes(lines) <= max(most.bytes, 3 * served)
                    let said = lines.map { $0.split(separator: "\"range\":").last ?? "" }
                    #expect(isCheap && !lines.isEmpty, "\(said), \(served) from the cache")
                }
            }
        }

        /// Asks as Jellyfin does. What the kernel reads ahead of a program is more than ffprobe reads of such films.
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

        private func suffix(_ number: Int) -> String { number % 2 == 0 ? "mp4" : "mkv" }
        private func name(_ number: Int) -> String { "\(number).\(suffix(number))" }

        /// Makes films of 16 MB, every second one an mp4 with its index at the end.
        private func makeFilms(_ root: String, _ scene: Scene) throws {
            let short = scene.work("short.mkv")
            let picture = ["-f", "lavfi", "-i", "testsrc2=s=1280x720:r=25:duration=1"]
            let sound = ["-f", "lavfi", "-i", "sine=r=48000:duration=1"]
            let codecs = ["-c:v", "mpeg4", "-q:v", "1", "-c:a", "aac"]
            let words = [
                picture + sound + codecs + [short],
                ["-stream_loop", "11", "-i", short, "-c", "copy", scene.work("film.mp4")],
                ["-stream_loop", "11", "-i", short, "-c", "copy", scene.work("film.mkv")],
            ]
            for words in words {
                try succeed(["ffmpeg", "-v", "error"] + words)
            }
            for number in 0..<Self.films {
                #expect(link(scene.work("film." + suffix(number)), root + "/" + name(number)) == 0)
            }
        }
    }
}
