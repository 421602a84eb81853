import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// A file that is appended to, on a good server whose tag says the length.
private final class Recording: Sendable {
    private struct State {
        var bytes: [UInt8]
        var revision = 0
        var changedAt: Int64
        /// Bytes that come before each answer, as often as `hasty` says.
        var haste: Int64 = 0
        var hasty = Int.max
    }

    private static let content = GeneratedBytes(seed: 11)
    private let state: Lock<State>

    /// - Parameter age: seconds since the last change.
    init(_ length: Int64, age: Int64 = 3600) {
        state = Lock(State(bytes: Self.content.bytes(ByteRange(0, length)), changedAt: wallClock() - age))
    }

    var bytes: [UInt8] { state.withLock { $0.bytes } }
    var length: Int64 { state.withLock { Int64($0.bytes.count) } }

    func append(_ count: Int64) { state.withLock { Self.append(count, to: &$0) } }

    private static func append(_ count: Int64, to state: inout State) {
        let length = Int64(state.bytes.count)
        state.bytes += content.bytes(ByteRange(length, length + count))
        state.revision += 1
    }

    func hasten(_ count: Int64) { state.withLock { $0.haste = count } }

    /// Only this many answers from here on find a longer file.
    func limitHaste(to answers: Int) { state.withLock { $0.hasty = answers } }

    /// Another file.
    func change(_ body: (inout [UInt8]) -> Void) {
        state.withLock { state in
            body(&state.bytes)
            state.revision += 1
        }
    }

    func answer(_ request: ServerRequest) -> [ServerStep] {
        let state = state.withLock { state in
            if state.haste > 0, state.hasty > 0, request["range"] != "bytes=0-0" {
                state.hasty -= 1
                Self.append(state.haste, to: &state)
            }
            return state
        }
        let (length, tag) = (Int64(state.bytes.count), "\"\(state.revision)-\(state.bytes.count)\"")
        let headers = [("ETag", tag), ("Last-Modified", httpDateText(state.changedAt)), ("Content-Type", "video/mp2t")]
        if request["if-none-match"] == tag { return [.head(304, headers)] }
        guard let range = request.range(of: length), request["if-range"].map({ $0 == tag }) ?? true else {
            return [.head(200, headers + [("Content-Length", "\(length)")]), .body(state.bytes)]
        }
        guard range.lower < length else {
            return ServerStep.answer(416, headers + [("Content-Range", "bytes */\(length)")])
        }
        let part = range.clamped(to: ByteRange(0, length))
        let place = ("Content-Range", "bytes \(part.lower)-\(part.upper - 1)/\(length)")
        return [
            .head(206, headers + [place, ("Content-Length", "\(part.count)")]),
            .body(Array(state.bytes[Int(part.lower)..<Int(part.upper)])),
        ]
    }
}

/// `--growing`: a file that became longer is the same file.
@Suite(.plainAndEncrypted) struct GrowingTests {
    private static let start: Int64 = 3 << 20 + 777

    private func withRecording(
        _ recording: Recording = Recording(start), growing: Bool = true, timeout: Duration = .seconds(10),
        cacheKey: CacheKey = .url, answer: (@Sendable (ServerRequest) -> [ServerStep])? = nil,
        _ body: (VolumeFixture, ScriptedServer) throws -> Void
    ) throws {
        let server = try ScriptedServer(answer ?? { recording.answer($0) })
        defer { server.stop() }
        let fixture = try VolumeFixture(
            server.url("/film.ts").text, timeout: timeout, prebuffer: 0, cacheKey: cacheKey, growing: growing)
        defer { fixture.remove() }
        try body(fixture, server)
    }

    /// Does what `VolumeFixture.expire` does where the key of the cache is no URL.
    private func expire(_ fixture: VolumeFixture) {
        guard let known = fixture.store.information(for: fixture.source) else { return }
        fixture.store.remember(known.information, for: fixture.source, checkedAt: known.checkedAt - 3600)
    }

    private func drop(_ blocks: Range<Int>, of file: RemoteFile, _ fixture: VolumeFixture) {
        let gate = Gate()
        fixture.volume.services.transport.perform {
            _ = file.drop(blocks)
            gate.open()
        }
        gate.wait()
    }

    private func compare(_ file: RemoteFile, _ fixture: VolumeFixture) -> GrowthProof.Verdict {
        let verdict = fixture.wait { done in file.compare { done(.success($0)) } }
        return (try? verdict.get()) ?? .unknown
    }

    private func remote(_ file: any FileHandle) -> RemoteFile { (file as! OpenFile).remote }

    @Test(
        "An open handle reads on, what is cached stays, and the kernel is told of the size",
        arguments: [0, 777] as [Int64])
    func grown(_ rest: Int64) throws {
        let recording = Recording(3 << 20 + rest)
        try withRecording(recording) { fixture, _ in
            let kernel = Kernel()
            fixture.volume.connect(kernel)
            let old = try fixture.open("film.ts").get()
            #expect(!old.wantsDirectIO && fixture.readAll(old) == .success(recording.bytes))
            let length = recording.length
            recording.append(2 << 20 + 5)
            fixture.expire()
            let before = fixture.receivedBytes
            let new = try fixture.open("film.ts").get()
            #expect(remote(new) === remote(old) && remote(new).length == recording.length)
            #expect(fixture.readAll(old) == .success(recording.bytes))
            #expect(fixture.readAll(new) == .success(recording.bytes))
            // What is new, and the first and the last block.
            #expect(fixture.receivedBytes - before <= recording.length - length + 1 << 20)
            let entry = try fixture.lookup("film.ts").get()
            #expect(entry.attributes.length == recording.length)
            #expect(kernel.pages.withLock { $0.first?.lower } == length / 4096 * 4096)
            #expect(kernel.forgotten.withLock { $0 } == [])
            fixture.volume.close(old)
            fixture.volume.close(new)
        }
    }

    @Test("Without the option it is a new version, as before")
    func off() throws {
        let recording = Recording(Self.start)
        try withRecording(recording, growing: false) { fixture, _ in
            let old = try fixture.open("film.ts").get()
            #expect(fixture.readAll(old) == .success(recording.bytes))
            recording.append(1000)
            fixture.expire()
            let new = try fixture.open("film.ts").get()
            #expect(remote(new) !== remote(old) && fixture.readAll(new) == .success(recording.bytes))
            #expect(fixture.read(old, Self.start, 100) == .success([]))
        }
    }

    @Test(
        "What changed otherwise is a new version, and no byte of it is in the old one",
        arguments: ["beginning", "last block", "shorter", "same length", "another key"])
    func otherwise(_ what: String) throws {
        let recording = Recording(Self.start)
        try withRecording(recording, cacheKey: what == "another key" ? .name : .url) { fixture, _ in
            let old = try fixture.open("film.ts").get()
            let bytes = recording.bytes
            #expect(fixture.readAll(old) == .success(bytes))
            recording.append(what == "same length" ? 0 : 300_000)
            recording.change { bytes in
                switch what {
                case "beginning": bytes[5] ^= 1
                case "last block": bytes[Int(Self.start) - 1] ^= 1
                case "shorter": bytes.removeLast(bytes.count - 2 << 20)
                case "same length": bytes[1 << 20] ^= 1
                default: break
                }
            }
            expire(fixture)
            let new = try fixture.open("film.ts").get()
            #expect(remote(new) !== remote(old))
            #expect(fixture.readAll(new) == .success(recording.bytes))
            #expect(fixture.readAll(old) == .success(bytes))
        }
    }

    @Test("Blocks that have left are not compared; where none is left it is a new version", arguments: [false, true])
    func evicted(_ isAll: Bool) throws {
        let recording = Recording(Self.start)
        try withRecording(recording) { fixture, _ in
            let old = try fixture.open("film.ts").get()
            #expect(fixture.readAll(old) == .success(recording.bytes))
            let count = Int(Self.start / BlockSize.block) + 1
            _ = remote(old).drop(0..<(isAll ? count : 3))
            _ = remote(old).drop(count - 2..<count)
            recording.append(1 << 20)
            fixture.expire()
            let new = try fixture.open("film.ts").get()
            #expect((remote(new) === remote(old)) == !isAll)
            #expect(fixture.readAll(new) == .success(recording.bytes))
            #expect(
                fixture.read(old, 0, 4096) == (isAll ? .failure(.stale) : .success(Array(recording.bytes[..<4096]))))
        }
    }

    @Test("Where the kernel may have pages of an earlier handle, and the cache has none, no other file is read on")
    func keptPages() throws {
        let recording = Recording(Self.start)
        try withRecording(recording) { fixture, _ in
            let (first, files) = (try fixture.open("film.ts").get(), fixture.volume.files)
            #expect(fixture.readAll(first) == .success(recording.bytes))
            fixture.volume.close(first)
            #expect(
                eventually {
                    _ = files.tick(now() + .seconds(11))
                    return files.all.isEmpty
                })
            let file = try fixture.open("film.ts").get()
            #expect(remote(file) !== remote(first) && !file.wantsDirectIO)
            drop(0..<Int(Self.start / BlockSize.block) + 1, of: remote(file), fixture)
            recording.change { $0 = $0.map { ~$0 } }
            recording.append(1000)
            #expect(fixture.read(file, 1 << 20, 4096) == .failure(.stale))
            fixture.volume.close(file)
        }
    }

    @Test(
        "An answer from before it became longer, or a failure, does not end what it has become", arguments: [304, 404])
    func lateAnswer(_ status: Int) throws {
        let recording = Recording(Self.start)
        let (asked, gate) = (Gate(), Gate())
        let answer = { @Sendable (request: ServerRequest) -> [ServerStep] in
            let steps = recording.answer(request)
            guard request["if-none-match"] != nil else { return steps }
            asked.open()
            return [.wait(gate)] + (status == 304 ? steps : ServerStep.answer(status))
        }
        try withRecording(recording, answer: answer) { fixture, _ in
            let old = try fixture.open("film.ts").get()
            #expect(fixture.readAll(old) == .success(recording.bytes))
            fixture.expire()
            let node = try fixture.lookup("film.ts").get().node
            let opened = fixture.wait { done in
                fixture.volume.open(node, by: nil, .whole, done)
                asked.wait()
                recording.append(100_000)
                #expect(compare(remote(old), fixture).isGrown)
                gate.open()
            }
            let new = try opened.get()
            #expect(remote(new) === remote(old))
            for handle in [old, new] {
                #expect(fixture.readAll(handle) == .success(recording.bytes))
                fixture.volume.close(handle)
            }
        }
    }

    @Test("What is cached stays over a remount, during which the file grew, and where it grew from nothing")
    func remount() throws {
        for length in [Self.start, 0] {
            let recording = Recording(length)
            try withRecording(recording) { fixture, _ in
                do {
                    let file = try fixture.open("film.ts").get()
                    #expect(fixture.readAll(file) == .success(recording.bytes))
                    fixture.volume.close(file)
                }
                fixture.stop()
                recording.append(100_000)
                try fixture.start()
                fixture.expire()
                let before = fixture.receivedBytes
                let file = try fixture.open("film.ts").get()
                #expect(fixture.readAll(file) == .success(recording.bytes))
                #expect(fixture.receivedBytes - before <= 100_000 + 2 * BlockSize.block + 2)
                fixture.volume.close(file)
            }
        }
    }

    @Test("A reader at the end of a file that grows waits for more")
    func waits() throws {
        let recording = Recording(Self.start, age: 0)
        try withRecording(recording) { fixture, _ in
            let file = try fixture.open("film.ts").get()
            #expect(file.wantsDirectIO)
            let end = fixture.park(file, Self.start, 4096)
            #expect(end.answerCount == 0)
            // Behind the end nothing was written just now.
            #expect(fixture.read(file, Self.start + 1, 10) == .success([]))
            recording.append(1000)
            #expect(end.wait(atMost: .seconds(8)) == .success(Array(recording.bytes.suffix(1000))))
            let bytes = recording.bytes
            let (first, second) = (fixture.park(file, Self.start + 1000, 10), fixture.park(file, Self.start + 1000, 20))
            fixture.volume.abandon(first, of: file)
            recording.append(300_000)
            #expect(
                second.wait(atMost: .seconds(8)) == .success(Array(recording.bytes[bytes.count..<bytes.count + 20])))
            #expect(first.answerCount == 0)
            fixture.volume.close(file)
        }
    }

    @Test("It sees the end at its deadline, at once where the file is old, and where the file becomes another one")
    func seesTheEnd() throws {
        let recording = Recording(Self.start, age: 0)
        try withRecording(recording, timeout: .seconds(3)) { fixture, _ in
            let file = try fixture.open("film.ts").get()
            let start = now()
            #expect(fixture.read(file, Self.start, 4096) == .success([]))
            #expect(now() - start >= .seconds(3) && now() - start < .seconds(6))
            let end = fixture.park(file, Self.start, 4096)
            recording.change { $0[0] ^= 1 }
            #expect(end.wait(atMost: .seconds(6)) == .success([]))
            fixture.volume.close(file)
        }
        try withRecording(Recording(Self.start)) { fixture, _ in
            let file = try fixture.open("film.ts").get()
            let end = fixture.park(file, Self.start, 4096)
            #expect(end.answerCount == 1 && end.wait() == .success([]))
        }
    }

    @Test("A read that has found the end of a file that became longer just then is at no end")
    func grownMeanwhile() throws {
        try withRecording(Recording(Self.start, age: 0)) { fixture, _ in
            let file = try fixture.open("film.ts").get()
            let (remote, node) = (remote(file), try fixture.lookup("film.ts").get().node)
            let growth = try #require(remote.growth)
            func isAtEnd(_ offset: Int64) -> Bool {
                let answer = remote.readAtEnd(offset, 10, of: node, at: now(), growth) { TestRead() }
                if case .read(0) = answer { return true }
                return false
            }
            #expect(isAtEnd(Self.start + 1) && !isAtEnd(Self.start - 1))
            fixture.volume.close(file)
        }
    }

    @Test("The end of the mount ends its wait")
    func unmounted() throws {
        try withRecording(Recording(Self.start, age: 0), timeout: .seconds(60)) { fixture, _ in
            let file = try fixture.open("film.ts").get()
            let end = fixture.park(file, Self.start, 4096)
            #expect(end.answerCount == 0)
            fixture.stop()
            #expect(end.answerCount == 1)
        }
    }

    @Test("A file that grows with each request is read from its beginning, with the right bytes")
    func fast() throws {
        let recording = Recording(12 << 20, age: 0)
        try withRecording(recording) { fixture, server in
            recording.hasten(5001)
            let file = try fixture.open("film.ts").get()
            var offset: Int64 = 0
            while offset < 12 << 20 {
                let part = try fixture.read(file, offset, 100_000).get()
                let isRight = part.elementsEqual(recording.bytes[Int(offset)..<Int(offset) + part.count])
                try #require(isRight && !part.isEmpty, "\(offset)")
                offset += Int64(part.count)
            }
            // Each answer was of another version.
            #expect(recording.length > 12 << 20)
            #expect(fixture.receivedBytes < 30 << 20)
            fixture.volume.close(file)
        }
    }

    @Test("An answer of another file under way is not believed", arguments: [false, true])
    func swapped(_ isLonger: Bool) throws {
        let recording = Recording(12 << 20)
        try withRecording(recording, timeout: .seconds(5)) { fixture, _ in
            let file = try fixture.open("film.ts").get()
            let bytes = recording.bytes
            #expect(fixture.read(file, 0, 4096) == .success(Array(bytes[..<4096])))
            recording.change { $0 = $0.map { ~$0 } }
            if isLonger { recording.append(1000) }
            #expect(fixture.read(file, 8 << 20, 4096) == .failure(.stale))
            #expect(fixture.read(file, 0, 4096) == .success(Array(bytes[..<4096])))
            fixture.volume.close(file)
            let new = try fixture.open("film.ts").get()
            #expect(fixture.readAll(new) == .success(recording.bytes))
        }
    }

    @Test("A listing whose length is too small by now does not make an open fail, and is shown with the new one")
    func listed() throws {
        let recording = Recording(Self.start)
        let page = { @Sendable (length: Int64) in
            "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><hr><pre><a href=\"../\">../</a>\n"
                + "<a href=\"film.ts\">film.ts</a>  01-Jan-2024 10:00  \(length)\n</pre><hr></body></html>"
        }
        let listed = Shared(Self.start)
        let server = try ScriptedServer { request in
            request.path == "/"
                ? ServerStep.answer(200, [("Content-Type", "text/html")], body: page(listed.value))
                : recording.answer(request)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/").text, prebuffer: 0, growing: true)
        defer { fixture.remove() }
        let entry = try fixture.lookup("film.ts").get()
        #expect(entry.attributes.length == Self.start)
        recording.append(5000)
        do {
            let file = try fixture.wait { fixture.volume.open(entry.node, by: nil, .whole, $0) }.get()
            #expect(fixture.readAll(file) == .success(recording.bytes))
            #expect(try fixture.lookup("film.ts").get().node == entry.node)
            let shown = try fixture.wait { fixture.volume.attributes(of: entry.node, $0) }.get()
            #expect(shown.length == recording.length)
            fixture.volume.close(file)
        }
        // As the next process opens what the kernel has.
        try fixture.restart()
        let again = try fixture.lookup("film.ts").get()
        let inherited = try fixture.wait { fixture.volume.reopen(again.node, $0) }.get()
        #expect(inherited.length == recording.length && fixture.readAll(inherited) == .success(recording.bytes))
        // A later listing knows more than the handle.
        recording.append(5000)
        listed.set(recording.length)
        fixture.expire()
        let last = try fixture.open("film.ts").get()
        for handle in [inherited, last] { #expect(fixture.readAll(handle) == .success(recording.bytes)) }
    }

    @Test("Whatever happens, each read has the bytes of the recording, or of what came in its place")
    func random() throws {
        var random = SeededGenerator()
        let recording = Recording(700_000)
        try withRecording(recording, timeout: .seconds(5)) { fixture, _ in
            var file = try fixture.open("film.ts").get()
            for step in 0..<LongTests.many(150, elseOnly: 60) {
                let hint: Comment = "step \(step), seed \(random.seed)"
                switch Int.random(in: 0..<8, using: &random) {
                case 0...2: recording.append(.random(in: 1...400_000, using: &random))
                case 3:
                    fixture.volume.close(file)
                    fixture.expire()
                    file = try fixture.open("film.ts").get()
                case 4:
                    let first = Int.random(in: 0..<40, using: &random)
                    let count = Int((remote(file).length - 1) / BlockSize.block) + 1
                    let gone = min(first, count - 1)..<min(first + 3, count - 1)
                    // On the thread that writes. Where nothing is left to compare, what grows is a new version.
                    if remote(file).object.outermostBlocks.contains(where: { !gone.contains($0) }) {
                        drop(gone, of: remote(file), fixture)
                    }
                case 5: recording.hasten(Bool.random(using: &random) ? 999 : 0)
                default: break
                }
                // Requests at a time make one another start again, each by its growth: how many a read takes where
                // every answer grows is a matter of the machine's load.
                recording.limitHaste(to: 8)
                let offset = Int64.random(in: 0..<remote(file).length, using: &random)
                let answer = fixture.read(file, offset, 150_000)
                let part = try #require(try? answer.get(), "\(answer), \(hint)")
                let isRight = part.elementsEqual(recording.bytes[Int(offset)..<Int(offset) + part.count])
                try #require(isRight && !part.isEmpty, hint)
            }
            fixture.volume.close(file)
        }
    }
}

extension GrowthProof.Verdict {
    fileprivate var isGrown: Bool { if case .grown = self { true } else { false } }
}
