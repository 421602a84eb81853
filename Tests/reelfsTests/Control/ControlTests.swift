import Glibc
import ReelCore
import ReelFuse
import TestKit
import Testing

@testable import reelfs

/// The daemon's socket, spoken to by hand.
@Suite("The control socket", .serialized, .enabled(if: fuseIsUsable))
struct ControlTests {
    private func withControl(_ body: (String) throws -> Void) throws {
        try CommandTests.withPlace { place in
            let words = ["mount", place.source, place.mountpoint, "--cache-dir", place.cache]
            #expect(try CommandTests.run(words).status == 0)
            try body(place.control)
            #expect(try CommandTests.run(["umount", place.mountpoint]).status == 0)
        }
    }

    /// Sends bytes and reads this many lines, or to the end.
    private func lines(_ path: String, _ bytes: [UInt8], _ count: Int) -> [String] {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        var limit = timeval(tv_sec: 10, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        guard UnixAddress.reaching(path, { $0.connect(descriptor) == 0 }) ?? false else { return [] }
        var rest = bytes[...]
        while !rest.isEmpty {
            let sent = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard sent > 0 else { break }
            rest = rest.dropFirst(sent)
        }
        var answer: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while answer.count(where: { $0 == 0x0A }) < count {
            let got = read(descriptor, &chunk, chunk.count)
            guard got > 0 else { break }
            answer += chunk[..<got]
        }
        return String(decoding: answer, as: UTF8.self).split(separator: "\n").map { String($0) }
    }

    @Test("What is no request, or none that the daemon knows, is a sentence, and the next one is answered")
    func nonsense() throws {
        try withControl { path in
            let requests = [
                "hello", "{\"version\":1,\"command\":\"dance\"}", "{\"version\":1,\"command\":\"pin\"}",
                "{\"version\":1,\"command\":\"evict\",\"path\":\"../../etc\"}", String(repeating: "[", count: 20_000),
                "{\"version\":1,\"command\":\"status\"}",
            ]
            let answers = lines(path, Array((requests.joined(separator: "\n") + "\n").utf8), requests.count)
            #expect(answers.count == requests.count)
            for answer in answers.dropLast() { #expect(answer.contains("\"error\":"), "\(answer)") }
            #expect(answers.last?.contains("\"mountpoint\":") == true)
        }
    }

    @Test("Requests and answers that are damaged anyhow are refused or read, and never end the program")
    func damagedLines() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var generator = SeededGenerator(seed: seed)
        let pieces = [
            "{", "}", "[", "]", "\"", "\\", "\\u", "d800", ":", ",", "-", "0", "9999999999999999999", "1e999", "NaN",
            "null",
            "true", "\u{0}", "\u{FFFF}", "bytes", "path", "mount", "volume", "files",
        ].map { Array($0.utf8) }
        let status = MountStatus(source: "http://h/", mountpoint: "/m", pid: 1)
        let lines = [
            encodeLine(ControlRequest.prune(.to(1))), encodeLine(ControlAnswer.status(status)),
            encodeLine(ControlRequest.verify("a/b", repairs: true)),
        ]
        for _ in 0..<20_000 {
            var line = lines.randomElement(using: &generator)!
            for _ in 0..<Int.random(in: 1...6, using: &generator) {
                let place = Int.random(in: 0...line.count, using: &generator)
                switch Int.random(in: 0..<4, using: &generator) {
                case 0: line.insert(contentsOf: pieces.randomElement(using: &generator)!, at: place)
                case 1: line.removeSubrange(place..<Int.random(in: place...line.count, using: &generator))
                case 2 where place < line.count: line[place] = .random(in: 0...255, using: &generator)
                default: line.insert(contentsOf: line[..<place], at: place)
                }
            }
            if let request = try? ControlRequest(line: line) { _ = encodeLine(request) }
            if case .status(let mount)? = decodeLine(ControlAnswer.self, line) { _ = statusText(mount) }
        }
    }

    @Test("The numbers of a daemon that lies are shown somehow", arguments: [Int64.min, -1, 0, .max])
    func absurdNumbers(number: Int64) {
        #expect(!percent(number, 3).isEmpty && !percent(.max, number).isEmpty && !humanSize(number).isEmpty)
    }

    @Test("The socket is for its owner alone")
    func mode() throws {
        try withControl { path in
            var status = stat()
            try #require(lstat(path, &status) == 0)
            #expect(status.st_mode == S_IFSOCK | 0o600)
        }
    }

    @Test("Several requests on one connection are answered in order, each to its last line")
    func order() throws {
        try withControl { path in
            let requests = ["list", "status", "verify", "status"].map { "{\"version\":1,\"command\":\"\($0)\"}\n" }
            let answers = lines(path, Array(requests.joined().utf8), 4).filter { !$0.contains("\"more\":true") }
            #expect(answers.count == 4)
            let kinds = ["\"cache\":", "\"mount\":", "\"report\":", "\"mount\":"]
            for (answer, kind) in zip(answers, kinds) { #expect(answer.contains(kind), "\(answer)") }
        }
    }

    private func connected(_ path: String) throws -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        try #require(UnixAddress.reaching(path, { $0.connect(descriptor) == 0 }) ?? false)
        return descriptor
    }

    /// - Returns: the first one that can be read from; nil after ten seconds.
    private func firstReadable(_ descriptors: [Int32]) -> Int32? {
        var watched = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        return poll(&watched, nfds_t(watched.count), 10_000) > 0 ? watched.first { $0.revents != 0 }?.fd : nil
    }

    /// More clients that ask for nothing than the daemon keeps.
    private func withIdleClients(_ path: String, saying said: String = "", _ body: ([Int32]) throws -> Void) throws {
        var idle: [Int32] = []
        defer { for descriptor in idle { close(descriptor) } }
        for _ in 0..<100 {
            idle.append(try connected(path))
            _ = send(idle.last!, said, said.utf8.count, Int32(MSG_NOSIGNAL))
            // The listener's queue is short.
            if idle.count % 8 == 0 { #expect(try ControlClient(path: path).status() != nil) }
        }
        try body(idle)
    }

    @Test("Clients that say nothing, or half of a request, do not lock out others", arguments: ["", "{\"vers"])
    func idleClients(said: String) throws {
        try withControl { path in
            try withIdleClients(path, saying: said) { idle in
                // The one unused for longest was closed.
                var byte: UInt8 = 0
                #expect(recv(idle[0], &byte, 1, 0) <= 0)
                #expect(recv(idle[99], &byte, 1, Int32(MSG_DONTWAIT)) < 0 && errno == EAGAIN)
            }
        }
    }

    @Test("A client that waits for the end of a mount is not the one that makes room for others")
    func waitingClient() throws {
        try CommandTests.withPlace { place in
            let words = ["mount", place.source, place.mountpoint, "--cache-dir", place.cache]
            #expect(try CommandTests.run(words).status == 0)
            let device = try #require(Mount.on(place.mountpoint)).device
            let waiting = try connected(place.control)
            defer { close(waiting) }
            // In one piece: the daemon goes on with the second line once it has answered the first.
            let lines = [
                encodeLine(ControlRequest.status),
                encodeLine(ControlRequest.awaitUnmount(device)),
            ].flatMap { $0 }
            send(waiting, lines, lines.count, Int32(MSG_NOSIGNAL))
            var chunk = [UInt8](repeating: 0, count: 65_536)
            try #require(recv(waiting, &chunk, chunk.count, 0) > 0)
            var closed = pollfd(fd: waiting, events: Int16(POLLIN), revents: 0)
            try withIdleClients(place.control) { idle in
                closed.fd = idle[0]
                #expect(poll(&closed, 1, 20_000) == 1)
                closed.fd = waiting
                #expect(poll(&closed, 1, 0) == 0)
            }
            #expect(try CommandTests.run(["umount", place.mountpoint]).status == 0)
            #expect(poll(&closed, 1, 20_000) == 1)
        }
    }

    @Test("32 clients wait for the end of a mount; a further one is refused, and umount says so")
    func waitingClients() throws {
        try CommandTests.withPlace { place in
            let words = ["mount", place.source, place.mountpoint, "--cache-dir", place.cache]
            #expect(try CommandTests.run(words).status == 0)
            let device = try #require(Mount.on(place.mountpoint)).device
            let line = encodeLine(ControlRequest.awaitUnmount(device))
            var waiting: [Int32] = []
            defer { for descriptor in waiting { close(descriptor) } }
            for _ in 0..<40 {
                waiting.append(try connected(place.control))
                _ = send(waiting.last!, line, line.count, Int32(MSG_NOSIGNAL))
            }
            func readable() -> Int {
                var watched = waiting.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
                return Int(poll(&watched, nfds_t(watched.count), 0))
            }
            #expect(eventually { readable() == 8 }, "\(readable())")
            let refused = waiting.first { descriptor in
                var watched = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                return poll(&watched, 1, 0) == 1
            }
            var answer = [UInt8](repeating: 0, count: 200)
            let count = recv(try #require(refused), &answer, answer.count, 0)
            let sentence = String(decoding: answer.prefix(max(0, count)), as: UTF8.self)
            #expect(sentence.contains("too many other commands wait"), "\(sentence)")
            let end = try CommandTests.run(["umount", place.mountpoint])
            // Its own request may come when the others have gone already.
            #expect(end.status == 0 || end.output.contains("too many other commands wait"), "\(end.output)")
            // Those that were let in learn of the end.
            #expect(eventually(within: .seconds(20)) { readable() >= 39 })
        }
    }

    @Test("Where four refreshes hang at a slow origin, a mount can be ended, made offline, and its rate limited")
    func busy() throws {
        let (gate, isSlow) = (Gate(), Shared(false))
        let page = "<html><title>Index of /</title><h1>Index of /</h1><pre><a href=\"a.txt\">a.txt</a></pre></html>"
        let server = try ScriptedServer { request in
            let answer = ServerStep.answer(200, [("Content-Type", "text/html")], body: page)
            // Behind the head: an origin that sends none is taken for silent, and its refreshes end.
            return isSlow.value ? [answer[0], .wait(gate)] + answer.dropFirst() : answer
        }
        defer { server.stop() }
        try withTemporaryDirectory { root in
            let (mountpoint, cache, source) = (root + "/mnt", root + "/cache", server.url("/films/").text)
            mkdir(mountpoint, 0o755)
            defer {
                gate.open()
                umount2(mountpoint, Int32(MNT_DETACH))
                removeTree(cache)
                rmdir(mountpoint)
            }
            let words = ["mount", source, mountpoint, "--cache-dir", cache, "--timeout", "60"]
            #expect(try CommandTests.run(words).status == 0)
            isSlow.change { $0 = true }
            let control = CommandTests.Place(source: source, mountpoint: mountpoint, cache: cache).control
            let refresh = encodeLine(ControlRequest.refresh("", isRecursive: false))
            // A fifth one, whichever it is, finds no room.
            let busy = try (0..<5).map { _ in try connected(control) }
            defer { for descriptor in busy { close(descriptor) } }
            for descriptor in busy { send(descriptor, refresh, refresh.count, Int32(MSG_NOSIGNAL)) }
            let sentence = "the daemon is busy with other commands or HTTP clients; try again when they have ended"
            let refused = try #require(firstReadable(busy))
            var answer = [UInt8](repeating: 0, count: 4096)
            let count = recv(refused, &answer, answer.count, 0)
            #expect(String(decoding: answer.prefix(max(0, count)), as: UTF8.self).contains(sentence))
            #expect(
                lines(control, encodeLine(ControlRequest.verify(repairs: false)), 1).first?.contains(sentence) == true)
            // The last one ends the refreshes.
            for command in [
                "\"detach\",\"device\":\"0:0\"", "\"limit-rate\",\"schedule\":\"1M\"",
                "\"offline\",\"isOffline\":true",
            ] {
                let answer = lines(control, Array("{\"version\":1,\"command\":\(command)}\n".utf8), 1)
                #expect(answer.count == 1 && answer.first?.contains("error") == false, "\(answer)")
            }
            gate.open()
            #expect(try CommandTests.run(["umount", mountpoint]).status == 0)
        }
    }

    @Test("Clients that take no answers do not keep others waiting")
    func deafClients() throws {
        try withControl { path in
            let request = Array(String(repeating: "{\"version\":1,\"command\":\"status\"}\n", count: 20_000).utf8)
            let deaf = try (0..<6).map { _ in try connected(path) }
            defer { for descriptor in deaf { close(descriptor) } }
            for descriptor in deaf {
                // Until neither side takes anything.
                var rest = request[...]
                var writable = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                while !rest.isEmpty, poll(&writable, 1, 300) == 1 {
                    let count = rest.withUnsafeBytes {
                        send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
                    }
                    rest = rest.dropFirst(max(0, count))
                }
                #expect(!rest.isEmpty)
            }
            #expect(try ControlClient(path: path).status() != nil)
        }
    }

    @Test("A path as long as paths may be is taken; a line without end is not")
    func longLines() throws {
        try withControl { path in
            let name = String(repeating: "\\u0001", count: 4000)
            let long = "{\"version\":1,\"command\":\"pin\",\"path\":\"\(name)\"}\n"
            #expect(lines(path, Array(long.utf8), 1).first?.contains("is not listed") == true)
            #expect(lines(path, [UInt8](repeating: 0x20, count: 1 << 20), 1).isEmpty)
            #expect(lines(path, Array("{\"version\":1,\"command\":\"status\"}\n".utf8), 1).count == 1)
        }
    }
}
