import ReelCore
import ReelFilesystem
import TestKit
import Testing

@testable import ReelVolume

/// A playlist that its server writes on, and whose first segments may go.
private final class Broadcast: Sendable {
    /// Each of another length, none a whole number of blocks.
    private static let segments = (0..<12).map { number in
        FileOrigin(
            FileOrigin.Version(
                seed: UInt64(number + 1), length: 100_000 + 7777 * Int64(number), entityTag: "\"s\(number)\"",
                mediaType: "video/mp2t"))
    }

    private static func start(_ number: Int) -> Int64 { segments[..<number].reduce(0) { $0 + $1.version.length } }

    private let window = Shared(0..<0)
    private let isOver = Shared(false)
    /// The segments are ranges of one file.
    private let isOneFile: Bool
    let server: ScriptedServer

    init(_ first: Range<Int>, isOneFile: Bool = false) throws {
        let (window, isOver, requests) = (window, isOver, Shared(Int64(0)))
        window.set(first)
        self.isOneFile = isOneFile
        server = try ScriptedServer { request in
            let shown = window.value
            if request.path.hasSuffix(".m3u8") {
                let lines = shown.map { number in
                    let range = "#EXT-X-BYTERANGE:\(Self.segments[number].version.length)@\(Self.start(number))\n"
                    return "#EXTINF:2,\n" + (isOneFile ? range + "all.ts\n" : "s\(number).ts\n")
                }.joined()
                return ServerStep.answer(
                    200, [("Content-Type", "application/vnd.apple.mpegurl")],
                    body: "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:\(shown.lowerBound)\n\(lines)"
                        + (isOver.value ? "#EXT-X-ENDLIST\n" : ""))
            }
            if isOneFile {
                // The next segment is being written: the file has another version for each request.
                if !isOver.value { requests.change { $0 += 1 } }
                return all(Self.start(shown.upperBound) + requests.value).answer(request)
            }
            // A player is a little behind: a segment stays for one more playlist.
            guard let number = Int(request.path.dropFirst(2).dropLast(3)),
                (shown.lowerBound - 1..<shown.upperBound).contains(number)
            else { return ServerStep.answer(404) }
            return Self.segments[number].answer(request)
        }
    }

    func show(_ numbers: Range<Int>) { window.set(numbers) }
    func end() { isOver.set(true) }

    func bytes(_ numbers: Range<Int>) -> [UInt8] {
        let range = ByteRange(Self.start(numbers.lowerBound), Self.start(numbers.upperBound))
        if isOneFile { return all(range.upper).expectedBytes(range) }
        return Self.segments[numbers].flatMap { $0.expectedBytes(ByteRange(0, $0.version.length)) }
    }
    func length(_ numbers: Range<Int>) -> Int64 { Int64(bytes(numbers).count) }
}

/// The one file of all segments, of which so much was written.
private func all(_ length: Int64) -> FileOrigin {
    FileOrigin(
        FileOrigin.Version(seed: 99, length: length, entityTag: "\"l\(length)\"", mediaType: "video/mp2t"))
}

/// `--growing`: HLS playlists without an end (EVENT, and live ones).
@Suite(.plainAndSeldomEncrypted) struct GrowingListTests {
    private func with(
        _ first: Range<Int>, growing: Bool = true, isOneFile: Bool = false,
        _ body: (Broadcast, VolumeFixture) throws -> Void
    ) throws {
        let broadcast = try Broadcast(first, isOneFile: isOneFile)
        defer { broadcast.server.stop() }
        let fixture = try VolumeFixture(
            broadcast.server.url("/film.m3u8").text, timeout: .seconds(20), prebuffer: 0, growing: growing)
        defer { fixture.remove() }
        try body(broadcast, fixture)
    }

    @Test(
        "A reader at the end of one that grows gets each new segment, and sees the end with the playlist's",
        arguments: [false, true])
    func event(_ isOneFile: Bool) throws {
        try with(0..<2, isOneFile: isOneFile) { broadcast, fixture in
            let file = try fixture.open("film.ts").get()
            #expect(file.wantsDirectIO)
            #expect(fixture.read(file, 0, 1 << 20) == .success(broadcast.bytes(0..<2)))
            for count in 3...5 {
                let end = fixture.park(file, broadcast.length(0..<count - 1), 1 << 20)
                #expect(end.answerCount == 0)
                broadcast.show(0..<count)
                #expect(end.wait(atMost: .seconds(20)) == .success(broadcast.bytes(count - 1..<count)))
            }
            #expect(try fixture.lookup("film.ts").get().attributes.length == broadcast.length(0..<5))
            let end = fixture.park(file, broadcast.length(0..<5), 100)
            broadcast.end()
            #expect(end.wait(atMost: .seconds(10)) == .success([]))
            #expect(fixture.readAll(file) == .success(broadcast.bytes(0..<5)))
            // Each segment once; the rest are playlists, and a byte a segment for its length.
            #expect(fixture.receivedBytes < broadcast.length(0..<5) + 10_000)
            fixture.volume.close(file)
            // Another open is of the same file, which asks for no segment.
            let again = try fixture.open("film.ts").get()
            let before = fixture.receivedBytes
            #expect(fixture.readAll(again) == .success(broadcast.bytes(0..<5)))
            #expect(fixture.receivedBytes - before < 1000)
            fixture.volume.close(again)
        }
    }

    @Test(
        "A live one is all that was shown since the open, also where its first segments have gone",
        arguments: [false, true])
    func live(_ isOneFile: Bool) throws {
        try with(2..<5, isOneFile: isOneFile) { broadcast, fixture in
            let file = try fixture.open("film.ts").get()
            #expect(fixture.read(file, 0, 1 << 20) == .success(broadcast.bytes(2..<5)))
            for last in 6...9 {
                let end = fixture.park(file, broadcast.length(2..<last - 1), 1 << 20)
                broadcast.show(last - 3..<last)
                #expect(end.wait(atMost: .seconds(20)) == .success(broadcast.bytes(last - 1..<last)))
            }
            #expect(fixture.readAll(file) == .success(broadcast.bytes(2..<9)))
            fixture.volume.close(file)
        }
    }

    @Test("One that has gone on without a reader is another file, which begins where its playlist begins")
    func left() throws {
        try with(0..<3) { broadcast, fixture in
            let file = try fixture.open("film.ts").get()
            #expect(fixture.readAll(file) == .success(broadcast.bytes(0..<3)))
            fixture.volume.close(file)
            broadcast.show(6..<9)
            fixture.expire()
            let isNew = eventually(within: .seconds(20)) {
                guard let file = try? fixture.open("film.ts").get() else { return false }
                defer { fixture.volume.close(file) }
                return fixture.readAll(file) == .success(broadcast.bytes(6..<9))
            }
            #expect(isNew)
        }
    }

    @Test("Without the option it stays a playlist")
    func off() throws {
        try with(0..<2, growing: false) { _, fixture in #expect(fixture.names() == .success(["film.m3u8"])) }
    }
}
