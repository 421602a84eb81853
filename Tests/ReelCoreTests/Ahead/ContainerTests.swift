import Glibc
import TestKit
import Testing

@testable import ReelCore

/// What the first bytes of films and songs say of the rest.
@Suite struct ContainerTests {
    struct Medium: CustomTestStringConvertible, Sendable {
        /// The name of the file.
        var testDescription: String
        /// What ffmpeg makes it with.
        var words: [String]
        /// nil if the first bytes do not give it.
        var seconds: Double?
        /// What stands at the only place that an open reads behind the first bytes, nil if there is none.
        var opening: [UInt8]?
        /// The same of the first seek.
        var seeking: [UInt8]?

        static let moov: [UInt8] = Array("moov".utf8)
        static let all = [
            Medium(testDescription: "behind.mp4", words: film, opening: moov),
            Medium(testDescription: "behind.mov", words: film, opening: moov),
            Medium(testDescription: "front.mp4", words: film + ["-movflags", "+faststart"], seconds: 20),
            Medium(
                testDescription: "film.mkv", words: film, seconds: 20, seeking: [0x1C, 0x53, 0xBB, 0x6B]),
            Medium(testDescription: "film.avi", words: film, seconds: 20, opening: Array("idx1".utf8)),
            Medium(testDescription: "song.flac", words: song + ["-c:a", "flac"], seconds: 20),
            Medium(testDescription: "song.mp3", words: song + ["-b:a", "128k"]),
        ]

        private static let film = [
            "-f", "lavfi", "-i", "testsrc=size=160x90:rate=10:duration=20", "-f", "lavfi", "-i",
            "anoisesrc=duration=20", "-c:v", "mpeg4", "-b:v", "300k", "-c:a", "libmp3lame",
        ]
        private static let song = ["-f", "lavfi", "-i", "anoisesrc=duration=20:r=48000"]
    }

    @Test("The first bytes of a file say how long it plays and where programs look next", arguments: Medium.all)
    func tells(_ medium: Medium) throws {
        let file = try made(medium.words, medium.testDescription)
        let length = Int64(file.count)
        #expect(length > 2 * Container.mostHead)
        guard case .found(let container) = Container.reading(Array(file.prefix(16 << 10)), length: length) else {
            return #expect(Bool(false), "nothing is found")
        }
        #expect((container.seconds == nil) == (medium.seconds == nil), "\(container)")
        if let seconds = container.seconds, let expected = medium.seconds { #expect(abs(seconds - expected) < 0.2) }
        let behind = container.opening.filter { $0.upper > Container.mostHead && $0.lower > 0 }
        if let letters = medium.opening {
            #expect(behind.count == 1 && behind[0].upper == length && isThere(letters, in: file, behind[0].lower))
        } else if medium.testDescription.hasPrefix("film") {
            #expect(behind.isEmpty)
        }
        if let letters = medium.seeking {
            #expect(container.seeking.count == 1 && isThere(letters, in: file, container.seeking[0].lower))
        } else {
            #expect(container.seeking.isEmpty)
        }
        #expect(container.front < Container.mostHead)
    }

    @Test func whatAnIndexInFrontHoldsIsToldWithItsLengthAndDuration() throws {
        // A movie of 700,000 bytes, of which the first hundred are there.
        let head = box("ftyp", 24) + number(700_000) + Array("moov".utf8) + number(108) + Array("mvhd".utf8)
        let movie = head + number(0) + number(0) + number(0) + number(1000) + number(90_500)
        let bytes = movie + [UInt8](repeating: 0, count: 200)
        guard case .found(let container) = Container.reading(bytes, length: 1 << 30) else {
            return #expect(Bool(false), "nothing is found")
        }
        #expect(container.front == 700_024 && container.seconds == 90.5)
        #expect(container.opening == [ByteRange(24, 700_024 + 3 * BlockSize.block)])
        #expect(Container.reading(movie, length: 1 << 30) == .needsMore)
    }

    @Test func aPictureInFrontOfASongIsToldWithItsLength() {
        let song = Array("ID3".utf8) + [4, 0, 0x10, 0, 0x2A, 0x11, 0x05]
        guard case .found(let container) = Container.reading(song + [0, 0], length: 9_000_000) else {
            return #expect(Bool(false), "nothing is found")
        }
        #expect(container.front == 20 + 0x2A << 14 + 0x11 << 7 + 5)
        #expect(container.opening.first == ByteRange(0, container.front + 3 * BlockSize.block))
        #expect(container.opening.last == Readahead.tail(of: 9_000_000))
    }

    /// What mkvmerge writes them: tags behind the cues.
    @Test func tagsBehindAFilmAreReadAtItsOpenAndCuesAtItsFirstSeek() throws {
        func element(_ id: [UInt8], _ body: [UInt8]) -> [UInt8] { id + [0x40, UInt8(body.count)] + body }
        func seek(_ id: [UInt8], _ place: Int) -> [UInt8] {
            element([0x4D, 0xBB], element([0x53, 0xAB], id) + element([0x53, 0xAC], number(place)))
        }
        let entries = seek([0x1C, 0x53, 0xBB, 0x6B], 50_000_000) + seek([0x12, 0x54, 0xC3, 0x67], 50_400_000)
        let table = element([0x11, 0x4D, 0x9B, 0x74], entries)
        let facts = element([0x15, 0x49, 0xA9, 0x66], element([0x44, 0x89], bits(of: 5_400_000)))
        let start = element([0x1A, 0x45, 0xDF, 0xA3], [0]) + [0x18, 0x53, 0x80, 0x67, 0x01, 0xFF, 0xFF, 0xFF]
        let film = start + [0xFF, 0xFF, 0xFF, 0xFF] + table + facts + [0x1F, 0x43, 0xB6, 0x75, 0x10, 0, 0, 0]
        let (body, length) = (Int64(start.count + 4), Int64(50_500_000))
        guard case .found(let container) = Container.reading(film, length: length) else {
            return #expect(Bool(false), "nothing is found")
        }
        #expect(container.seconds == 5400)
        #expect(container.seeking == [ByteRange(body + 50_000_000, body + 50_400_000)])
        #expect(container.opening == [ByteRange(body + 50_400_000, length)])
    }

    @Test func whatIsNoMediaFileTellsNothing() {
        #expect(Container.reading(Array("<html><head><title>Index</title>".utf8), length: 5000) == .unknown)
        #expect(Container.reading([0x1A, 0x45, 0xDF], length: 5000) == .needsMore)
        #expect(Container.reading([0x1A, 0x45, 0xDF], length: 3) == .unknown)
        #expect(Container.reading([], length: 0) == .unknown)
        #expect(Container.reading(box("ftyp", 24), length: BlockSize.openEnd) == .unknown)
    }

    @Test func aLieAboutLengthsCausesLittle() {
        let longest = [UInt8](repeating: 0xFF, count: 8)
        let lie = box("ftyp", 8) + number(1) + Array("moov".utf8) + [0x7F] + longest.dropFirst() + longest + longest
        let bytes = lie + [UInt8](repeating: 0xFF, count: 200)
        guard case .found(let container) = Container.reading(bytes, length: 1 << 40) else {
            return #expect(Bool(false), "nothing is found")
        }
        #expect(container.opening == [ByteRange(8, 8 + Container.mostBytes)])
        #expect(container.front == 1 << 40)
    }

    private func isThere(_ letters: [UInt8], in file: [UInt8], _ offset: Int64) -> Bool {
        let here = file.dropFirst(Int(offset)).prefix(8)
        return here.starts(with: letters) || here.dropFirst(4).starts(with: letters)
    }

    private func number(_ value: Int) -> [UInt8] {
        (0..<4).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }

    private func bits(of value: Double) -> [UInt8] {
        (0..<8).reversed().map { UInt8(truncatingIfNeeded: value.bitPattern >> (8 * UInt64($0))) }
    }

    private func box(_ letters: String, _ count: Int) -> [UInt8] {
        number(count) + Array(letters.utf8) + [UInt8](repeating: 0, count: count - 8)
    }

    private func made(_ words: [String], _ name: String) throws -> [UInt8] {
        var template = Array("/tmp/reelfs-container-XXXXXX".utf8CString)
        try #require(mkdtemp(&template) != nil)
        let folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let path = "\(folder)/\(name)"
        defer {
            unlink(path)
            rmdir(folder)
        }
        let end = try ChildProcess.run(["ffmpeg", "-v", "error"] + words + ["-bitexact", path], within: .seconds(60))
        try #require(end.status == 0, "\(end.errors)")
        let file = try #require(fopen(path, "re"), "\(path)")
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 16 << 20)
        let count = fread(&bytes, 1, bytes.count, file)
        return Array(bytes.prefix(count))
    }
}
