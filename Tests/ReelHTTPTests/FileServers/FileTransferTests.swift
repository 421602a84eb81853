import Glibc
import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// FTP, made to look like HTTP: heads, ranges out of one body, failures.
@Suite struct FileTransferTests {
    private static let length: Int64 = 8 << 20 + 5
    private static let film = GeneratedBytes(seed: 3)
    private static let python = "/usr/bin/python3"

    private func withServer(
        _ body: (CurlOrigin, (String) -> ResourceURL, ChildProcess) throws -> Void
    ) throws {
        let needed = "/usr/lib/python3/dist-packages/pyftpdlib/__init__.py"
        guard access(needed, R_OK) == 0 else { try Test.cancel("\(needed) is not installed") }
        try withTemporaryDirectory { directory in
            defer { removeTree(directory) }
            let root = directory + "/root"
            mkdir(root, 0o755)
            mkdir(root + "/sub", 0o755)
            try write(Self.film.bytes(ByteRange(0, Self.length)), to: root + "/film.mkv")
            try write([], to: root + "/empty")
            let unused = try ScriptedServer { _ in [] }
            let port = unused.port
            unused.stop()
            let process = try start(directory, port)
            defer {
                process.signal(SIGTERM)
                _ = try? process.wait(within: .seconds(5))
            }
            let origin = try origin()
            defer { origin.shutdown() }
            let url = { (path: String) in ResourceURL(trusted: "ftp://localhost:\(port)/\(path)")! }
            // It listens once it answers.
            try #require(eventually(within: .seconds(15)) { !isUnreachable(origin.fetch(url("sub/")).failure) })
            try body(origin, url, process)
        }
    }

    private func origin(trusting authorities: String? = nil) throws -> CurlOrigin {
        var configuration = TransportConfiguration(version: "test")
        configuration.certificateAuthorities = authorities
        configuration.usesProxies = false
        return try CurlOrigin(configuration)
    }

    private func isUnreachable(_ failure: OriginFailure?) -> Bool {
        if case .unreachable = failure { true } else { false }
    }

    private func write(_ bytes: [UInt8], to path: String) throws {
        let stream = try #require(fopen(path, "we"))
        defer { fclose(stream) }
        #expect(fwrite(bytes, 1, bytes.count, stream) == bytes.count)
    }

    private func start(_ directory: String, _ port: UInt16) throws -> ChildProcess {
        try ChildProcess([
            Self.python, "-u", "-m", "pyftpdlib", "-i", "127.0.0.1", "-p", "\(port)", "-d", directory + "/root",
        ])
    }

    /// A comparison inside of `#expect` would print the difference of megabytes.
    private func isFilm(_ bytes: [UInt8], _ lower: Int64, _ upper: Int64) -> Bool {
        bytes == Self.film.bytes(ByteRange(lower, upper))
    }

    /// Lines of the server's log about files that were sent.
    private func transfers(_ process: ChildProcess) -> [Substring] {
        (process.said.output + process.said.errors).split(separator: "\n").filter { $0.contains(" RETR ") }
    }

    @Test func aRangeHasTheHeadThatAWebServerWouldSend() throws {
        try withServer { origin, url, _ in
            let record = origin.fetch(url("film.mkv"), ByteRange(1_000_000, 2_000_000))
            let range = ContentRange(range: ByteRange(1_000_000, 2_000_000), total: Self.length)
            #expect(record.failure == nil && record.heads.first?.status == 206)
            #expect(record.heads.first?.contentRange == range && record.heads.first?.lastModified != nil)
            #expect(isFilm(record.bytes, 1_000_000, 2_000_000))
            let whole = origin.fetch(url("film.mkv"))
            #expect(whole.heads.first?.status == 200 && whole.heads.first?.contentLength == Self.length)
            #expect(isFilm(whole.bytes, 0, Self.length))
            let end = origin.fetch(url("film.mkv"), ByteRange(Self.length - 3, Self.length + 9))
            #expect(end.failure == nil && isFilm(end.bytes, Self.length - 3, Self.length))
            #expect(origin.fetch(url("empty")).heads.first?.contentLength == 0)
        }
    }

    @Test func rangesInARowComeOutOfOneBodyOfOneConnection() throws {
        try withServer { origin, url, process in
            let piece: Int64 = 900_001
            for lower in stride(from: 0, to: Self.length, by: Int(piece)) {
                let upper = min(lower + piece, Self.length)
                #expect(isFilm(origin.fetch(url("film.mkv"), ByteRange(lower, upper)).bytes, lower, upper))
            }
            #expect(eventually { !transfers(process).isEmpty })
            #expect(transfers(process).count == 1 && transfers(process)[0].contains("bytes=\(Self.length)"))
            // The control connection is as good as new.
            #expect(isFilm(origin.fetch(url("film.mkv"), ByteRange(7, 9)).bytes, 7, 9))
            let logins = process.said.errors.split(separator: "\n").filter { $0.contains("session opened") }
            #expect(logins.count == 1, "\(logins)")
        }
    }

    /// curl hands over some 16 KiB at a time.
    @Test(arguments: [1, 999, 16 << 10])
    func rangesShorterThanAPieceOfTheBodyAreOneTransfer(_ count: Int) throws {
        let server = try ScriptedFileServer()
        defer { server.stop() }
        let origin = try origin()
        defer { origin.shutdown() }
        for lower in stride(from: 5, to: 5 + 60 * count, by: count) {
            let record = origin.fetch(server.url("film.mkv"), ByteRange(Int64(lower), Int64(lower + count)))
            let isRight = record.bytes == Array(ScriptedFileServer.film[lower..<lower + count])
            #expect(record.failure == nil && isRight, "\(lower)")
        }
        #expect(server.commands.count { $0 == "RETR" } == 1)
    }

    @Test("The end of a file comes out of the body before it, also where curl has taken that whole", arguments: [0, 7])
    func theEndOfABodyThatIsOver(_ left: Int) throws {
        let server = try ScriptedFileServer()
        defer { server.stop() }
        let origin = try origin()
        defer { origin.shutdown() }
        let film = server.url("film.mkv")
        let length = Int64(ScriptedFileServer.length)
        var bounds = [0, length - 9, length - 4, length]
        if left > 0 { bounds.insert(length - Int64(left), at: 2) }
        for (lower, upper) in zip(bounds, bounds.dropFirst()) {
            let record = origin.fetch(film, ByteRange(lower, upper))
            let isRight = record.bytes == Array(ScriptedFileServer.film[Int(lower)..<Int(upper)])
            #expect(record.failure == nil && isRight)
        }
        #expect(server.commands.count { $0 == "RETR" } == 1)
        // The connection is as good as new.
        #expect(origin.fetch(film, ByteRange(7, 9)).bytes == [7, 8])
        #expect(server.commands.count { $0 == "USER" } == 1 && server.commands.count { $0 == "RETR" } == 2)
    }

    /// Nothing but the request itself wakes the transport: the rest of the body is there already.
    @Test func theEndOfABodyThatCameBeforeItsRequestBeganEndsTheRequest() throws {
        let server = try ScriptedFileServer()
        defer { server.stop() }
        let length = Int64(ScriptedFileServer.length)
        for _ in 0..<10 {
            let origin = try origin()
            defer { origin.shutdown() }
            let ranges = [ByteRange(length - 20, length - 9), ByteRange(length - 9, length)]
            let recorders = ranges.map { range in
                let recorder = Recorder()
                let request = OriginRequest(url: server.url("film.mkv"), range: range, stallLimit: .seconds(600))
                origin.start(request, recorder)
                return recorder
            }
            for (range, recorder) in zip(ranges, recorders) {
                let expected = Array(ScriptedFileServer.film[Int(range.lower)..<Int(range.upper)])
                #expect(recorder.finished().bytes == expected)
            }
        }
    }

    @Test func aRangeThatBeginsWhereARunningOneEndsWaitsForItsBody() throws {
        try withServer { origin, url, process in
            let bounds: [Int64] = [0, 3 << 20, 5 << 20, Self.length]
            let recorders = zip(bounds, bounds.dropFirst()).map { lower, upper in
                let recorder = Recorder()
                _ = origin.start(OriginRequest(url: url("film.mkv"), range: ByteRange(lower, upper)), recorder)
                return (recorder, lower, upper)
            }
            for (recorder, lower, upper) in recorders {
                let record = recorder.finished()
                #expect(record.failure == nil && isFilm(record.bytes, lower, upper))
            }
            #expect(eventually { !transfers(process).isEmpty })
            #expect(transfers(process).count == 1)
        }
    }

    @Test func placesFarApartTakeFewConnections() throws {
        try withServer { origin, url, process in
            var random = SeededGenerator()
            for _ in 0..<12 {
                let lower = Int64.random(in: 0..<Self.length - 4096, using: &random)
                let record = origin.fetch(url("film.mkv"), ByteRange(lower, lower + 4096))
                #expect(isFilm(record.bytes, lower, lower + 4096), "seed \(random.seed)")
            }
            let log = process.said.errors
            let (opened, closed) = (count("session opened", log), count("session closed", log))
            #expect(opened - closed <= KeptBody.mostOfHost, "\(opened) opened, \(closed) closed")
        }
    }

    private func count(_ words: String, _ log: String) -> Int {
        log.split(separator: "\n").filter { $0.contains(words) }.count
    }

    @Test func aBodyThatPausesOrStopsGoesOnWithoutALostByte() throws {
        try withServer { origin, url, _ in
            let stopped = Recorder(answer: { $0.bytes.count > 1 << 20 ? .stop : .more })
            let first = origin.fetch(url("film.mkv"), ByteRange(0, Self.length), into: stopped)
            #expect(first.failure == .cancelled && isFilm(first.bytes, 0, Int64(first.bytes.count)))
            let place = Int64(first.bytes.count)
            #expect(isFilm(origin.fetch(url("film.mkv"), ByteRange(place, Self.length)).bytes, place, Self.length))
            let handle = RequestHandle()
            let paused = Recorder(answer: { $0.pieces.count % 3 == 1 ? .pause : .more })
            origin.start(handle, OriginRequest(url: url("film.mkv"), range: ByteRange(0, 4 << 20)), paused)
            #expect(
                eventually {
                    handle.resume()
                    return paused.isEnded
                })
            #expect(isFilm(paused.record.bytes, 0, 4 << 20))
            #expect(isFilm(origin.fetch(url("film.mkv"), ByteRange(4 << 20, Self.length)).bytes, 4 << 20, Self.length))
        }
    }

    @Test func whatIsMissingOrPastTheEndSaysSoAndTheNextRequestWorks() throws {
        try withServer { origin, url, _ in
            for _ in 0..<2 {
                #expect(origin.fetch(url("none"), ByteRange(0, 1)).failure == .status(404, retryAfter: nil))
                #expect(origin.fetch(url("none/")).failure == .status(404, retryAfter: nil))
                #expect(origin.fetch(url("empty"), ByteRange(0, 1)).failure == .status(416, retryAfter: nil))
                for lower in [Self.length, Self.length + 100] {
                    let past = origin.fetch(url("film.mkv"), ByteRange(lower, lower + 5))
                    #expect(past.failure == .status(416, retryAfter: nil))
                }
                #expect(isFilm(origin.fetch(url("film.mkv"), ByteRange(5, 10)).bytes, 5, 10))
            }
            let other = url("film.mkv").with(credentials: ResourceURL.Credentials(user: "me", password: "wrong"))
            #expect(origin.fetch(other).failure == .status(401, retryAfter: nil))
        }
    }

    @Test(arguments: ["522 no session", "426 broken off", "226 done"])
    func aBodyThatCameWholeCountsWhateverIsSaidBehindIt(_ ending: String) throws {
        let server = try ScriptedFileServer(ending: ending)
        defer { server.stop() }
        let origin = try origin()
        defer { origin.shutdown() }
        let length = Int64(ScriptedFileServer.length)
        for range in [nil, ByteRange(0, length), ByteRange(100_000, length), ByteRange(length - 1, length + 9)] {
            let record = origin.fetch(server.url("film.mkv"), range)
            let isSame = record.bytes.elementsEqual(ScriptedFileServer.film.dropFirst(Int(range?.lower ?? 0)))
            #expect(record.failure == nil && isSame, "\(String(describing: range)): \(record.bytes.count) bytes")
        }
        let empty = origin.fetch(server.url("empty"))
        #expect(empty.failure == nil && empty.heads.first?.contentLength == 0 && empty.bytes.isEmpty)
    }

    /// libcurl waits a minute for it, and for no other request meanwhile.
    @Test func aBodyThatCameWholeEndsAlsoWhereNothingIsSaidBehindIt() throws {
        let server = try ScriptedFileServer(ending: "")
        defer { server.stop() }
        let origin = try origin()
        defer { origin.shutdown() }
        let start = ContinuousClock.now
        for _ in 0..<2 {
            let record = origin.fetch(server.url("film.mkv"))
            #expect(record.failure == nil && record.bytes.elementsEqual(ScriptedFileServer.film))
        }
        #expect(ContinuousClock.now - start < .seconds(40))
    }

    @Test(
        "A length that only the reply to RETR gives counts from the offset, and none above 16 TiB is believed",
        arguments: [Int64(ScriptedFileServer.length) - 131_072, BlockSize.longestFile - 131_071, .max])
    func theLengthOfABody(_ announced: Int64) throws {
        let server = try ScriptedFileServer(opening: "150 Opening BINARY mode data connection (\(announced) bytes).")
        defer { server.stop() }
        let origin = try origin()
        defer { origin.shutdown() }
        let range = ByteRange(131_072, 262_144)
        let record = origin.fetch(server.url("film.mkv"), range)
        if announced > ScriptedFileServer.length {
            #expect(record.heads.isEmpty)
            guard case .wrongAnswer(let reason)? = record.failure else { throw Unexpected(record.failure) }
            #expect(reason.contains("more than 16 TiB"))
        } else {
            let total = Int64(ScriptedFileServer.length)
            #expect(record.heads.first?.contentRange == ContentRange(range: range, total: total))
        }
        #expect(origin.fetch(server.url("none")).failure == .status(404, retryAfter: nil))
    }

    @Test func aNameWithALineEndBecomesNoCommand() throws {
        let server = try ScriptedFileServer()
        defer { server.stop() }
        let origin = try origin()
        defer { origin.shutdown() }
        for name in ["a%0D%0ADELE%20film.mkv", "a%0ADELE%20film.mkv/", "a%0DDELE%20film.mkv"] {
            #expect(origin.fetch(server.url(name)).failure != nil)
        }
        #expect(origin.fetch(server.url("film.mkv"), ByteRange(0, 9)).failure == nil)
        #expect(!server.commands.contains("DELE") && server.commands.contains("RETR"))
    }

    @Test func dataResumeTheSessionOfTheirControlConnection() throws {
        try withTemporaryDirectory { place in
            defer { removeTree(place) }
            try makeCertificate(place + "/cert.pem", key: place + "/key.pem", names: "IP:127.0.0.1")
            let server = try ScriptedFileServer(secure: place)
            defer { server.stop() }
            let origin = try origin(trusting: place + "/cert.pem")
            let length = Int64(ScriptedFileServer.length)
            // Two bodies stand meanwhile, on connections with sessions of their own.
            for _ in 0..<3 {
                for lower in [0, length / 2, length - 5] {
                    let record = origin.fetch(server.url("film.mkv"), ByteRange(lower, min(lower + 5000, length)))
                    let isSame = record.bytes.elementsEqual(ScriptedFileServer.film[Int(lower)...].prefix(5000))
                    #expect(record.failure == nil && isSame, "\(lower): \(String(describing: record.failure))")
                }
            }
            // It never answers QUIT, for which libcurl waits two minutes.
            let start = ContinuousClock.now
            origin.shutdown()
            #expect(ContinuousClock.now - start < .seconds(40))
        }
    }

    /// libcurl does not wait for what the control connection says while a data connection has no session yet: only
    /// its timers, of which the longest of a connection is 200 ms, let it look there.
    @Test func aSlowReplyBesideASecureDataConnectionIsSeenWhenItComes() throws {
        try withTemporaryDirectory { place in
            defer { removeTree(place) }
            try makeCertificate(place + "/cert.pem", key: place + "/key.pem", names: "IP:127.0.0.1")
            let server = try ScriptedFileServer(secure: place, pause: .milliseconds(300))
            defer { server.stop() }
            let origin = try origin(trusting: place + "/cert.pem")
            defer { origin.shutdown() }
            let start = ContinuousClock.now
            #expect(origin.fetch(server.url("film.mkv"), ByteRange(5, 5000)).failure == nil)
            // Nothing else would wake the transport before its next look at deadlines.
            #expect(ContinuousClock.now - start < .seconds(6))
        }
    }

    @Test func aHeadThatIsEnoughCostsNoBody() throws {
        try withServer { origin, url, process in
            var request = OriginRequest(url: url("film.mkv"), range: ByteRange(0, 1))
            request.isHeadEnough = true
            let recorder = Recorder()
            _ = origin.start(request, recorder)
            let record = recorder.finished()
            #expect(
                record.failure == nil && record.bytes.isEmpty && record.heads.first?.contentRange?.total == Self.length)
            #expect(transfers(process).isEmpty)
        }
    }
}
