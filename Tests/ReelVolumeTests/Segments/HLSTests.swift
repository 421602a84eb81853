import CCrypto
import Glibc
import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// HLS playlists whose segments a scripted server has: what is asked for, and what comes of it.
@Suite struct HLSTests {
    /// A playlist, and segments of any lengths and contents.
    private final class Stage: Sendable {
        let text = Shared("")
        let segments: [FileOrigin]
        let server: ScriptedServer
        /// Answers in the place of a segment or the playlist, nil to leave it as it is.
        let override = Shared<(@Sendable (ServerRequest) -> [ServerStep]?)?>(nil)

        init(_ lengths: [Int64]) throws {
            let segments = lengths.enumerated().map { index, length in
                FileOrigin(
                    FileOrigin.Version(
                        seed: UInt64(index + 1), length: length, entityTag: "\"s\(index)\"", mediaType: "video/mp2t"))
            }
            self.segments = segments
            let (text, override) = (text, override)
            server = try ScriptedServer { request in
                if let steps = override.value?(request) { return steps }
                if request.path.hasSuffix(".m3u8") {
                    let tag = "\"\(text.value.utf8.count)-\(text.value.hashValue)\""
                    if request["if-none-match"] == tag { return [.head(304, [("ETag", tag)])] }
                    return ServerStep.answer(
                        200, [("Content-Type", "application/vnd.apple.mpegurl"), ("ETag", tag)], body: text.value)
                }
                guard let number = Int(request.path.dropFirst(7).dropLast(3)), segments.indices.contains(number)
                else { return ServerStep.answer(404) }
                return segments[number].answer(request)
            }
        }

        func write(_ numbers: some Sequence<Int>, query: String = "", end: String = "#EXT-X-ENDLIST\n") {
            text.set(
                "#EXTM3U\n#EXT-X-TARGETDURATION:2\n"
                    + numbers.map { "#EXTINF:2,\ns\($0).ts\(query)\n" }.joined() + end)
        }

        var whole: [UInt8] { segments.flatMap { $0.whole } }
        var playlist: ResourceURL { server.url("/film/index.m3u8") }

        /// Ranges asked of segments since request number `start`, as `s1 0-0`.
        func asked(since start: Int = 0) -> [String] {
            server.requests[start...].filter { $0.path.hasSuffix(".ts") }.map { request in
                "\(request.path.dropFirst(6).dropLast(3)) \(request["range"]?.dropFirst(6) ?? "all")"
            }
        }

        func playlists(since start: Int = 0) -> Int {
            server.requests[start...].filter { $0.path.hasSuffix(".m3u8") }.count
        }
    }

    private func with(
        _ lengths: [Int64], refresh: Duration = .seconds(300), shown: Int? = nil,
        _ body: (Stage, VolumeFixture) throws -> Void
    ) throws {
        let stage = try Stage(lengths)
        defer { stage.server.stop() }
        stage.write(0..<(shown ?? lengths.count))
        let fixture = try VolumeFixture(stage.playlist.text, timeout: .seconds(5), refresh: refresh, prebuffer: 0)
        defer { fixture.remove() }
        try body(stage, fixture)
    }

    /// - Parameter body: gets the path of a playlist on the disk that holds `text`.
    private func withLocal(_ text: String, _ body: (String) throws -> Void) throws {
        try withTemporaryDirectory { directory in
            let path = directory + "/a film.m3u8"
            let stream = try #require(fopen(path, "we"))
            fputs(text, stream)
            fclose(stream)
            defer { unlink(path) }
            try body(path)
        }
    }

    @Test("A playlist on the disk with whole URLs is a file, also after the origin has gone", arguments: [false, true])
    func local(_ isMaster: Bool) throws {
        let stage = try Stage([300_000, 17, 200_001])
        defer { stage.server.stop() }
        stage.write(0..<3)
        let segments = (0..<3).map { "#EXTINF:2,\n\(stage.server.url("/film/s\($0).ts").text)\n" }.joined()
        let media = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n\(segments)#EXT-X-ENDLIST\n"
        let master = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=5000\n\(stage.playlist.text)\n"
        try withLocal(isMaster ? master : media) { path in
            let fixture = try VolumeFixture(path, timeout: .seconds(5), prebuffer: 0)
            defer { fixture.remove() }
            let name = isMaster ? "5k.ts" : "a film.ts"
            #expect(fixture.names() == .success([name]))
            let isSame = try bytes(fixture, name) == stage.whole
            #expect(isSame)
            let node = try fixture.lookup(name).get().node
            let url = try fixture.volume.extendedAttribute("user.reelfs.url", of: node).get()
            #expect(url == Array((isMaster ? stage.playlist.text : path).utf8))
            stage.server.stop()
            try fixture.restart()
            #expect(fixture.names() == .success([name]))
            let isStillSame = try bytes(fixture, name) == stage.whole
            #expect(isStillSame)
        }
    }

    @Test(
        "A playlist on the disk that is no file of exact length says why",
        arguments: [
            ("s0.ts\n#EXT-X-ENDLIST\n", "a segment of it has no http(s) URL"),
            ("http://127.0.0.1:9/s0.ts\n", "it is live"),
        ])
    func localRefused(_ text: String, _ reason: String) throws {
        try withLocal("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n" + text) { path in
            #expect { try VolumeFixture(path) } throws: { "\($0)".contains(reason) }
        }
    }

    private func bytes(_ fixture: VolumeFixture, _ name: String = "index.ts") throws -> [UInt8] {
        let file = try fixture.open(name).get()
        defer { fixture.volume.close(file) }
        let length = try fixture.lookup(name).get().attributes.length
        var all: [UInt8] = []
        while Int64(all.count) < length {
            let piece = try fixture.read(file, Int64(all.count), 100_000).get()
            if piece.isEmpty { break }
            all += piece
        }
        return all
    }

    @Test(
        "Byte ranges are a file of these bytes alone",
        arguments: [[ByteRange(376, 564), ByteRange(752, 940)], [ByteRange(376, 940)], [ByteRange(0, 376)]])
    func clip(_ ranges: [ByteRange]) throws {
        let stage = try Stage([1000])
        defer { stage.server.stop() }
        let lines = ranges.map { "#EXT-X-BYTERANGE:\($0.count)@\($0.lower)\n#EXTINF:2,\ns0.ts\n" }.joined()
        stage.text.set("#EXTM3U\n#EXT-X-TARGETDURATION:2\n\(lines)#EXT-X-ENDLIST\n")
        let fixture = try VolumeFixture(stage.playlist.text, timeout: .seconds(5), prebuffer: 0)
        defer { fixture.remove() }
        #expect(fixture.names() == .success(["index.ts"]))
        #expect(try fixture.lookup("index.ts").get().attributes.length == ranges.reduce(0) { $0 + $1.count })
        let expected = ranges.flatMap { stage.segments[0].whole[Int($0.lower)..<Int($0.upper)] }
        #expect(try bytes(fixture) == expected)
    }

    @Test("Segments are one file of exact length, each asked for its length once, with the bytes of all")
    func joins() throws {
        try with([300_007, 1, 0, 170_001, 16]) { stage, fixture in
            #expect(fixture.names() == .success(["index.ts"]))
            let entry = try fixture.lookup("index.ts").get()
            #expect(entry.attributes.length == 470_025)
            // A byte of each, and all of the empty one, which has none.
            let lengths = stage.asked().filter { !$0.hasSuffix("all") }
            #expect(lengths.filter { $0.hasSuffix(" 0-0") }.count >= 5)
            #expect(stage.playlists() == 2)
            let isSame = try bytes(fixture) == stage.whole
            #expect(isSame)
            let type = try fixture.volume.extendedAttribute("user.mime_type", of: entry.node).get()
            #expect(String(decoding: type, as: UTF8.self) == "video/mp2t")
            let url = try fixture.volume.extendedAttribute("user.reelfs.url", of: entry.node).get()
            #expect(String(decoding: url, as: UTF8.self) == stage.playlist.text)
        }
    }

    @Test("A read in the middle asks for its pieces alone")
    func middle() throws {
        let lengths = [Int64](repeating: 500_000, count: 8)
        try with(lengths) { stage, fixture in
            let file = try fixture.open("index.ts").get()
            defer { fixture.volume.close(file) }
            // The beginning and the end of media are fetched when it is opened.
            _ = fixture.read(file, 0, 1000)
            #expect(eventually { stage.asked().contains { $0.hasPrefix("s7 ") && !$0.hasSuffix(" 0-0") } })
            let start = stage.server.requests.count
            let found = try fixture.read(file, 1_990_000, 20_000).get()
            let isSame = found == Array(stage.whole[1_990_000..<2_010_000])
            #expect(isSame)
            let asked = stage.asked(since: start).filter { !$0.hasPrefix("s7") }
            #expect(Set(asked.map { $0.prefix(2) }).isSubset(of: ["s3", "s4"]), "\(asked)")
        }
    }

    @Test("Lengths are remembered for good: a remount and a longer list ask for none that is known")
    func remembered() throws {
        try with([1000, 2000, 3000, 4000], refresh: .zero, shown: 3) { stage, fixture in
            #expect(try bytes(fixture).count == 6000)
            fixture.stop()
            let start = stage.server.requests.count
            try fixture.start()
            #expect(try fixture.lookup("index.ts").get().attributes.length == 6000)
            let same = try bytes(fixture) == Array(stage.whole.prefix(6000))
            #expect(same)
            #expect(stage.asked(since: start) == [])
            // The list grows by one segment, and only that is asked for.
            stage.write(0..<4)
            #expect(
                eventually(within: .seconds(15)) {
                    _ = fixture.names()
                    guard let file = try? fixture.open("index.ts").get() else { return false }
                    fixture.volume.close(file)
                    return (try? fixture.lookup("index.ts").get())?.attributes.length == 10_000
                })
            let lengths = Set(stage.asked(since: start).filter { $0.hasSuffix(" 0-0") })
            #expect(lengths.subtracting(["s0 0-0"]) == ["s3 0-0"], "beside the first byte of the file, which is of s0")
        }
    }

    @Test("What was read plays without the server, and a part that was not fails")
    func offline() throws {
        try with([Int64](repeating: 2_000_000, count: 6)) { stage, fixture in
            let file = try fixture.open("index.ts").get()
            #expect(try fixture.read(file, 0, 100_000).get() == Array(stage.whole.prefix(100_000)))
            fixture.volume.close(file)
            fixture.stop()
            stage.server.stop()
            try fixture.start()
            #expect(try fixture.lookup("index.ts").get().attributes.length == 12_000_000)
            let again = try fixture.open("index.ts").get()
            defer { fixture.volume.close(again) }
            #expect(try fixture.read(again, 0, 100_000).get() == Array(stage.whole.prefix(100_000)))
            guard case .failure = fixture.read(again, 6_000_000, 1000) else {
                Issue.record("bytes that were never fetched")
                return
            }
        }
    }

    @Test("A segment that changes ends the open version, and the next open has the new one", arguments: [true, false])
    func changes(_ isLonger: Bool) throws {
        try with([400_000, 400_000, 400_000, 400_000]) { stage, fixture in
            let file = try fixture.open("index.ts").get()
            _ = fixture.read(file, 0, 1000)
            stage.segments[2].change(
                to: FileOrigin.Version(seed: 99, length: isLonger ? 500_000 : 400_000, entityTag: "\"new\""))
            #expect(fixture.read(file, 900_000, 1000) == .failure(.stale))
            fixture.volume.close(file)
            #expect(
                eventually(within: .seconds(10)) {
                    (try? bytes(fixture)) == stage.whole
                })
        }
    }

    @Test("A film that was encoded again is whole at the first open after the error")
    func allChange() throws {
        try with([400_000, 400_000, 400_000, 400_000]) { stage, fixture in
            let file = try fixture.open("index.ts").get()
            _ = fixture.read(file, 0, 1000)
            for number in 1...3 {
                stage.segments[number].change(
                    to: FileOrigin.Version(seed: UInt64(90 + number), length: 400_000, entityTag: "\"new\""))
            }
            #expect(fixture.read(file, 500_000, 1000) == .failure(.stale))
            fixture.volume.close(file)
            let isWhole = try bytes(fixture) == stage.whole
            #expect(isWhole)
        }
    }

    @Test("A playlist that names variants from now on makes no empty film, and its own list brings the film back")
    func becomesMaster() throws {
        try with([400_000, 400_000], refresh: .milliseconds(1)) { stage, fixture in
            let isFilm = try bytes(fixture) == stage.whole
            #expect(isFilm)
            stage.text.set("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=5000\nother.m3u8\n")
            let asked = stage.server.requests.count
            var isRight = true
            let isAsked = eventually {
                if let found = try? bytes(fixture), found != stage.whole { isRight = false }
                return !isRight || stage.playlists(since: asked) > 1
            }
            #expect(isRight && isAsked)
            stage.write(0..<2)
            #expect(eventually { (try? bytes(fixture)) == stage.whole })
        }
    }

    @Test("A server without ranges is joined as well, and each piece is read from its first byte")
    func withoutRanges() throws {
        try with([300_000, 200_000, 100_000]) { stage, fixture in
            stage.override.set { request in
                guard request.path.hasSuffix(".ts"), let number = Int(request.path.dropFirst(7).dropLast(3)) else {
                    return nil
                }
                let bytes = stage.segments[number].whole
                let type = [("Content-Type", "video/mp2t"), ("ETag", "\"s\(number)\"")]
                return [.head(200, type + [("Content-Length", "\(bytes.count)")]), .body(bytes)]
            }
            let isSame = try bytes(fixture) == stage.whole
            #expect(isSame)
        }
    }

    @Test(
        "A segment whose answers lie gives right bytes or an error, and is right again when they are",
        arguments: [
            FileOrigin.Fault.wrongContentRange, .wrongTotal, .noContentRange, .tooLongBody, .shortBody(after: 1000),
            .htmlWith200, .changedETag, .gzip, .wholeToRange, .endlessBody,
        ])
    func lies(_ fault: FileOrigin.Fault) throws {
        try with([Int64](repeating: 1_000_000, count: 5)) { stage, fixture in
            let file = try fixture.open("index.ts").get()
            _ = fixture.read(file, 0, 1000)
            stage.segments[2].fault = fault
            if case .success(let found) = fixture.read(file, 2_400_000, 50_000) {
                let isRight = found == Array(stage.whole[2_400_000..<2_450_000])
                #expect(isRight)
            }
            fixture.volume.close(file)
            stage.segments[2].fault = nil
            #expect(eventually(within: .seconds(10)) { (try? bytes(fixture)) == stage.whole })
        }
    }

    // MARK: Encrypted

    private static let key = (0..<16).map { UInt8($0 * 7 + 1) }

    private static func encrypted(_ plain: [UInt8], number: Int, key: [UInt8] = key) -> [UInt8] {
        let context = EVP_CIPHER_CTX_new()
        defer { EVP_CIPHER_CTX_free(context) }
        let vector = [UInt8](repeating: 0, count: 15) + [UInt8(number)]
        var (result, count, end) = ([UInt8](repeating: 0, count: plain.count + 16), Int32(0), Int32(0))
        #expect(EVP_EncryptInit_ex(context, EVP_aes_128_cbc(), nil, key, vector) == 1)
        #expect(EVP_EncryptUpdate(context, &result, &count, plain, Int32(plain.count)) == 1)
        result.withUnsafeMutableBufferPointer {
            #expect(EVP_EncryptFinal_ex(context, $0.baseAddress! + Int(count), &end) == 1)
        }
        return Array(result.prefix(Int(count + end)))
    }

    /// A server of encrypted segments of these lengths.
    /// - Parameters:
    ///   - key: that it sends.
    ///   - cipher: the key with which it encrypts them; another makes other versions of them.
    ///   - refusals: how often it refuses the key before.
    private func withEncrypted(
        _ lengths: [Int], key: Shared<[UInt8]>, cipher: Shared<[UInt8]> = Shared(key),
        refusals: Shared<Int> = Shared(0),
        damage: @escaping @Sendable ([UInt8]) -> [UInt8] = { $0 },
        _ body: (ScriptedServer, VolumeFixture, _ plain: [UInt8]) throws -> Void
    ) throws {
        let plain = lengths.enumerated().map { index, length in
            GeneratedBytes(seed: UInt64(index)).bytes(ByteRange(0, Int64(length)))
        }
        let server = try ScriptedServer { request in
            let type = [("Content-Type", "application/octet-stream")]
            if request.path == "/e.m3u8" {
                return ServerStep.answer(
                    200, [("Content-Type", "audio/mpegurl")],
                    body: "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:5\n"
                        + "#EXT-X-KEY:METHOD=AES-128,URI=\"k?secret\"\n"
                        + lengths.indices.map { "\($0).ts\n" }.joined() + "#EXT-X-ENDLIST\n")
            }
            if request.path == "/k" {
                if refusals.value > 0 {
                    refusals.change { $0 -= 1 }
                    return ServerStep.answer(403)
                }
                return [.head(200, type + [("Content-Length", "\(key.value.count)")]), .body(key.value)]
            }
            guard let number = Int(request.path.dropFirst().dropLast(3)), plain.indices.contains(number) else {
                return ServerStep.answer(404)
            }
            let bytes = damage(Self.encrypted(plain[number], number: number + 5, key: cipher.value))
            let tag = ("ETag", "\"e\(number)-\(cipher.value[0])\"")
            let asked = request.range(of: Int64(bytes.count)) ?? ByteRange(0, Int64(bytes.count))
            let range = asked.clamped(to: ByteRange(0, Int64(bytes.count)))
            let place = "bytes \(range.lower)-\(range.upper - 1)/\(bytes.count)"
            return [
                .head(206, type + [tag, ("Content-Range", place), ("Content-Length", "\(range.count)")]),
                .body(Array(bytes[Int(range.lower)..<Int(range.upper)])),
            ]
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/e.m3u8"), timeout: .seconds(5))
        defer { fixture.remove() }
        try body(server, fixture, plain.flatMap { $0 })
    }

    @Test("Encrypted segments: one request for the key, two a segment for its length, none after a remount")
    func cipher() throws {
        let lengths = [100_000, 15, 0, 16, 17, 300_001]
        try withEncrypted(lengths, key: Shared(Self.key)) { server, fixture, plain in
            #expect(try fixture.lookup("e.ts").get().attributes.length == Int64(plain.count))
            func paths() -> [String] { server.requests.map(\.path).filter { $0 != "/e.m3u8" } }
            #expect(paths().filter { $0 == "/k" }.count == 1)
            #expect(paths().count == 1 + 2 * lengths.count, "\(paths())")
            let ends = server.requests.compactMap { $0["range"] }.filter { $0 == "bytes=99984-100015" }
            #expect(ends.count == 1, "the last block, and the one before")
            let isSame = try bytes(fixture, "e.ts") == plain
            #expect(isSame)
            let file = try fixture.open("e.ts").get()
            for (offset, count) in [(0, 1), (15, 2), (99_990, 40), (100_031, 17), (100_048, 33), (250_003, 100_001)] {
                let isRight =
                    fixture.read(file, Int64(offset), count) == .success(Array(plain[offset..<offset + count]))
                #expect(isRight, "\(offset)")
            }
            fixture.volume.close(file)
            let count = server.requests.count
            try fixture.restart()
            let isThere = try bytes(fixture, "e.ts") == plain
            #expect(isThere)
            #expect(Set(server.requests[count...].map(\.path)) == ["/e.m3u8"])
        }
    }

    /// In virtual time.
    @Test("An encrypted segment that is another one before its end was looked at is asked about again")
    func cipherOfAnother() throws {
        struct Stored: Sendable {
            var plain: [UInt8]
            var tag: String
            var isWell = true
            var bytes: [UInt8] { HLSTests.encrypted(plain, number: 0) }
        }
        let stored = Shared(
            Stored(plain: GeneratedBytes(seed: 1).bytes(ByteRange(0, 4000)), tag: "\"1\"", isWell: false))
        let server: SimulatedTransport.Server = { request in
            if request.path == "/k" { return [.head(200, [("Content-Length", "16")]), .body(Self.key)] }
            guard request.path == "/0.ts" else {
                return ServerStep.answer(
                    200, [("Content-Type", "audio/mpegurl")],
                    body:
                        "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\n0.ts\n#EXT-X-ENDLIST\n")
            }
            let (bytes, now) = (stored.value.bytes, stored.value)
            let all = ByteRange(0, Int64(bytes.count))
            let range = (request.range(of: all.upper) ?? all).clamped(to: all)
            if range.lower > 0, !now.isWell { return ServerStep.answer(503) }
            let isRange = request["range"] != nil && request["if-range"] ?? now.tag == now.tag
            let part = isRange ? range : all
            let place = ("Content-Range", "bytes \(part.lower)-\(part.upper - 1)/\(bytes.count)")
            let headers = [("ETag", now.tag), ("Content-Length", "\(part.count)")] + (isRange ? [place] : [])
            return [.head(isRange ? 206 : 200, headers), .body(Array(bytes[Int(part.lower)..<Int(part.upper)]))]
        }
        try SimulatedWorld.run(["http://origin": server]) { world in
            let mount = try world.mount("http://origin/e.m3u8", VolumeOptions(timeout: .seconds(3)))
            #expect(throws: VolumeError.self) { try mount.lookup("e.ts").get() }
            stored.set(Stored(plain: GeneratedBytes(seed: 2).bytes(ByteRange(0, 5000)), tag: "\"2\""))
            #expect(world.eventually { (try? mount.lookup("e.ts").get().attributes.length) == 5000 })
        }
    }

    @Test("A read in the middle of an encrypted segment needs the block before it, and no more")
    func cipherInTheMiddle() throws {
        let lengths = [Int](repeating: 2_000_000, count: 4)
        try withEncrypted(lengths, key: Shared(Self.key)) { server, fixture, plain in
            let file = try fixture.open("e.ts").get()
            defer { fixture.volume.close(file) }
            let isRight = fixture.read(file, 3_000_007, 1000) == .success(Array(plain[3_000_007..<3_001_007]))
            #expect(isRight)
            let asked = server.requests.filter { $0.path == "/1.ts" }.compactMap { $0.range(of: 2_000_016) }
            #expect(asked.contains { $0.lower > 800_000 && $0.lower % 16 == 0 && $0.upper <= 1_300_000 }, "\(asked)")
        }
    }

    @Test("A key whose link has expired is asked for by the one that the playlist has now")
    func expiredKey() throws {
        let refusals = Shared(0)
        try withEncrypted([1000, 2000], key: Shared(Self.key), refusals: refusals) { _, fixture, plain in
            _ = try fixture.lookup("e.ts").get()
            // The lengths are remembered, and the key is not.
            try fixture.restart()
            refusals.set(1)
            let isSame = try bytes(fixture, "e.ts") == plain
            #expect(isSame)
            #expect(refusals.value == 0)
        }
    }

    @Test("A film that was encrypted again with another key in the same place is whole at the next open")
    func anotherKey() throws {
        let (key, cipher) = (Shared(Self.key), Shared(Self.key))
        try withEncrypted([400_000, 400_000], key: key, cipher: cipher) { _, fixture, plain in
            let file = try fixture.open("e.ts").get()
            _ = fixture.read(file, 0, 1000)
            for one in [key, cipher] { one.set(Self.key.reversed()) }
            #expect(fixture.read(file, 500_000, 1000) == .failure(.stale))
            fixture.volume.close(file)
            let isWhole = try bytes(fixture, "e.ts") == plain
            #expect(isWhole)
        }
    }

    @Test("A key that does not open a segment, or is none, is an error", arguments: [0, 3, 15, 16, 17, 4096])
    func wrongKey(_ count: Int) throws {
        let key = Shared([UInt8](repeating: 9, count: count))
        try withEncrypted([1000], key: key) { _, fixture, plain in
            if case .success = fixture.open("e.ts") { Issue.record("opened with a wrong key") }
            key.set(Self.key)
            let isRight = try bytes(fixture, "e.ts") == plain
            #expect(isRight, "and another one is asked for")
        }
    }

    @Test("An encrypted segment that is not made of whole blocks is an error")
    func brokenBlocks() throws {
        try withEncrypted([1000], key: Shared(Self.key), damage: { Array($0.dropLast()) }) { _, fixture, _ in
            if case .success = fixture.open("e.ts") { Issue.record("opened") }
        }
    }

    // MARK: More

    @Test("A segment that cannot be had is an error, and not a hole", arguments: [404, 403, 500])
    func missing(_ status: Int) throws {
        try with([300_000, 300_000, 300_000]) { stage, fixture in
            stage.override.set { $0.path == "/film/s1.ts" ? ServerStep.answer(status) : nil }
            if case .success = fixture.open("index.ts") { Issue.record("opened without a length") }
            stage.override.set(nil)
            let isSame = try bytes(fixture) == stage.whole
            #expect(isSame)
        }
    }

    @Test("Signatures that expire while it plays are taken from the playlist anew, and the file stays")
    func signatures() throws {
        try with([400_000, 400_000, 400_000, 400_000, 400_000]) { stage, fixture in
            let valid = Shared("one")
            stage.override.set { request in
                guard request.path.hasSuffix(".ts"), !request.target.hasSuffix("X-Amz-Signature=" + valid.value)
                else { return nil }
                return ServerStep.answer(403)
            }
            func sign() {
                stage.write(
                    0..<5, query: "?X-Amz-Date=20240501T123456Z&X-Amz-Expires=60&X-Amz-Signature=\(valid.value)")
            }
            sign()
            try fixture.restart()
            let file = try fixture.open("index.ts").get()
            defer { fixture.volume.close(file) }
            #expect(fixture.read(file, 0, 1000) == .success(Array(stage.whole.prefix(1000))))
            valid.set("two")
            sign()
            let found = fixture.read(file, 900_000, 100_000)
            let isSame = found == .success(Array(stage.whole[900_000..<1_000_000]))
            #expect(isSame, "\(found.map { $0.count })")
            #expect(!stage.server.requests.contains { $0.target.contains("joined") })
        }
    }

    @Test("What is no exact file stays a playlist, and becomes a file with its end")
    func live() throws {
        try with([1000, 2000], refresh: .zero) { stage, fixture in
            stage.write(0..<2, end: "")
            try fixture.restart()
            #expect(eventually { fixture.names() == .success(["index.m3u8"]) })
            #expect(try bytes(fixture, "index.m3u8") == Array(stage.text.value.utf8))
            stage.write(0..<2)
            #expect(eventually(within: .seconds(10)) { fixture.names() == .success(["index.ts"]) })
            let isFilm = try bytes(fixture) == stage.whole
            #expect(isFilm)
        }
    }

    @Test("The segments of a film are counted in seconds, each once")
    func film() throws {
        let count = 3000
        let server = try ScriptedServer { request in
            if request.path == "/f.m3u8" {
                let lines = (0..<count).map { "#EXTINF:2,\n\($0).ts\n" }.joined()
                return ServerStep.answer(
                    200, [("Content-Type", "audio/mpegurl")],
                    body: "#EXTM3U\n#EXT-X-TARGETDURATION:2\n\(lines)#EXT-X-ENDLIST\n")
            }
            return FileOrigin(length: 1_000_000).answer(request)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/f.m3u8"), timeout: .seconds(30))
        defer { fixture.remove() }
        #expect(try fixture.lookup("f.ts").get().attributes.length == 3_000_000_000)
        let asked = server.requests.filter { $0.path.hasSuffix(".ts") }
        #expect(Set(asked.map(\.path)).count == count)
        #expect(asked.count == count)
        #expect(server.connectionCount <= 32)
    }

    @Test("A master playlist is a folder with a file a variant; one that is gone takes the others not away")
    func variants() throws {
        let film = FileOrigin(length: 5000)
        let isGone = Shared(false)
        let server = try ScriptedServer { request in
            let type = [("Content-Type", "application/vnd.apple.mpegurl")]
            switch request.path {
            case "/m.m3u8":
                return ServerStep.answer(
                    200, type,
                    body: "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=900000,RESOLUTION=640x360\nv/a.m3u8\n"
                        + "#EXT-X-STREAM-INF:BANDWIDTH=100000\nv/b.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=1000\nno.m3u8\n")
            case "/v/a.m3u8", "/v/b.m3u8":
                if isGone.value { return ServerStep.answer(404) }
                return ServerStep.answer(
                    200, type,
                    body: "#EXTM3U\n#EXT-X-TARGETDURATION:2\n\(request.path.dropFirst(3).prefix(1)).ts\n"
                        + "x.ts\n#EXT-X-ENDLIST\n")
            case "/v/a.ts", "/v/b.ts", "/v/x.ts": return film.answer(request)
            default: return ServerStep.answer(404)
            }
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/m.m3u8"), timeout: .seconds(5), refresh: .zero)
        defer { fixture.remove() }
        let names = ["640x360 900k.ts", "100k.ts", "m.m3u8"]
        #expect(fixture.names().map { Set($0) } == .success(Set(names)))
        let isSame = try bytes(fixture, names[0]) == film.whole + film.whole
        #expect(isSame)
        isGone.set(true)
        let start = server.requests.count
        #expect(
            eventually(within: .seconds(10)) {
                _ = fixture.names()
                return server.requests.dropFirst(start).contains { $0.path == "/no.m3u8" }
            })
        #expect(fixture.names().map { Set($0) } == .success(Set(names)))
    }
}

extension FileOrigin {
    fileprivate var whole: [UInt8] { expectedBytes(ByteRange(0, version.length)) }
}
