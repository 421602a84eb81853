import Glibc
import ReelCore
import ReelFilesystem
import ReelListener
import ReelThreads
import TestKit
import Testing

/// What the server gives to its clients, and takes back from those that go.
///
/// Each in a process of its own: the server's tasks need a thread that no other test holds up, and its descriptors are
/// counted.
@Suite struct ClientTests {
    fileprivate static let request = "GET /files/film.mkv HTTP/1.1\r\nHost: localhost\r\n\r\n"

    private static func withListener(
        _ filesystem: OneFile, patience: Duration = .seconds(600), documents: [String: ServedDocument] = [:],
        credentials: (user: String, password: String)? = nil, eachSecond: (@Sendable () -> Void)? = nil,
        _ body: (UInt16) throws -> Void
    ) throws {
        let listener = try Listener(
            ListenSocket(.loopback("127.0.0.1", port: 0)), filesystem, documents: documents, calls: [:],
            credentials: credentials, token: nil, patience: patience, eachSecond: eachSecond, onStop: {})
        defer {
            listener.stop()
            #expect(filesystem.counts == .none)
        }
        try body(UInt16(listener.address.dropLast().split(separator: ":").last ?? "") ?? 0)
    }

    /// The body of an answer that ends with its connection.
    private static func body(_ port: UInt16, _ lines: String = "") throws -> [UInt8] {
        let connection = try RawConnection(port)
        connection.send("GET /files/film.mkv HTTP/1.1\r\nHost: localhost\r\n\(lines)Connection: close\r\n\r\n")
        let bytes = connection.receive()
        let end = try #require(bytes.firstRange(of: Array("\r\n\r\n".utf8)))
        return Array(bytes[end.upperBound...])
    }

    /// Clients that ask, and read nothing by themselves.
    private static func deaf(_ count: Int, _ port: UInt16, _ asked: String = request) throws -> [RawConnection] {
        try (0..<count).map { _ in
            let client = try RawConnection(port, buffer: 4096)
            client.send(asked)
            return client
        }
    }

    @Test("What the filesystem lends goes out of the file itself, and the rest is read")
    func lending() async {
        await #expect(processExitsWith: .success) {
            let filesystem = try OneFile(length: 5 << 20 + 77, lends: true)
            try ClientTests.withListener(filesystem) { (port) throws in
                #expect(try ClientTests.body(port) == filesystem.film.bytes(ByteRange(0, filesystem.length)))
                let ends = filesystem.lent.map { $0.upper }
                #expect(filesystem.lent.first?.lower == BlockSize.block)
                #expect(ends == [BlockSize.extent / 2, filesystem.length])
                #expect(eventually { filesystem.counts == .none })
                #expect(
                    try ClientTests.body(port, "Range: bytes=1048000-3000000\r\n")
                        == filesystem.film.bytes(ByteRange(1_048_000, 3_000_001)))
            }
            let other = try OneFile(length: 5 << 20 + 77, lends: false)
            try ClientTests.withListener(other) { (port) throws in
                #expect(try ClientTests.body(port) == other.film.bytes(ByteRange(0, other.length)))
                #expect(other.lent.isEmpty)
            }
        }
    }

    @Test("A client that does not read holds one piece of the file and no more")
    func slow() async {
        await #expect(processExitsWith: .success) {
            for lends in [true, false] {
                let filesystem = try OneFile(length: 32 << 20, lends: lends)
                try ClientTests.withListener(filesystem) { port in
                    let clients = try ClientTests.deaf(8, port)
                    for client in clients { #expect(!client.receive(atLeast: 1).isEmpty) }
                    #expect(eventually { filesystem.counts.loans == (lends ? 8 : 0) })
                    #expect(filesystem.counts == OneFile.Counts(references: 8, handles: 8, loans: lends ? 8 : 0))
                    // Another one is served meanwhile.
                    #expect(try ClientTests.body(port) == filesystem.film.bytes(ByteRange(0, filesystem.length)))
                    withExtendedLifetime(clients) {}
                }
            }
        }
    }

    @Test("Clients that vanish in the middle of an answer give back all that was held for them")
    func vanishing() async {
        await #expect(processExitsWith: .success) {
            for lends in [true, false] {
                let filesystem = try OneFile(length: 32 << 20, lends: lends, hole: 16 << 20)
                try ClientTests.withListener(filesystem) { port in
                    #expect(try ClientTests.body(port, "Range: bytes=0-9\r\n").count == 10)
                    #expect(eventually { filesystem.counts == .none })
                    let descriptors = ClientTests.openDescriptors()
                    for round in 0..<5 {
                        // Some take nothing, some wait for bytes that never come.
                        let clients = try (0..<20).map { number in
                            let client = try RawConnection(port, buffer: number < 10 ? 4096 : nil)
                            client.send(ClientTests.request)
                            return client
                        }
                        for client in clients[..<10] { #expect(!client.receive(atLeast: 1).isEmpty) }
                        for client in clients[10...] { #expect(client.receive(atLeast: 16 << 20).count > 16 << 20) }
                        #expect(eventually { filesystem.counts.waiting == 10 }, "round \(round): \(filesystem.counts)")
                        #expect(filesystem.counts.handles == 20 && filesystem.counts.references == 20)
                        withExtendedLifetime(clients) {}
                    }
                    #expect(eventually { filesystem.counts == .none }, "\(filesystem.counts)")
                    #expect(
                        eventually { ClientTests.openDescriptors() == descriptors },
                        "\(ClientTests.openDescriptors()) of \(descriptors)")
                }
            }
        }
    }

    private static func openDescriptors() -> Int {
        guard let folder = opendir("/proc/self/fd") else { return -1 }
        defer { closedir(folder) }
        var count = 0
        while readdir(folder) != nil { count += 1 }
        return count
    }

    @Test("A client that sends no whole request in time is closed, and one that is being answered is not")
    func patience() async {
        await #expect(processExitsWith: .success) {
            let filesystem = try OneFile(length: 32 << 20, lends: true)
            // A thousand times what a client takes that sends its request at once.
            let patience = Duration.seconds(2)
            try ClientTests.withListener(filesystem, patience: patience) { port in
                let reading = try ClientTests.deaf(1, port)[0]
                let begun = reading.receive(atLeast: 1)
                #expect(!begun.isEmpty)
                let start = ContinuousClock.now
                let silent = try RawConnection(port)
                let half = try RawConnection(port)
                half.send("GET /files/film.mkv HTTP/1.1\r\nHost: ")
                let kept = try RawConnection(port)
                kept.send("HEAD /files/film.mkv HTTP/1.1\r\nHost: localhost\r\n\r\n")
                #expect(String(decoding: kept.receive(), as: UTF8.self).hasPrefix("HTTP/1.1 200 "))
                #expect(half.isClosed() && silent.isClosed())
                #expect(ContinuousClock.now - start >= patience)
                // Its request was whole in time.
                #expect(begun.count + reading.receive(atLeast: (32 << 20) - begun.count).count >= 32 << 20)
            }
        }
    }

    @Test("A client that has gone before it was accepted, so that nobody knows its address, guesses no password")
    func unknown() async {
        await #expect(processExitsWith: .success) {
            let gate = Monitor((isShut: false, isReached: false))
            let eachSecond = { @Sendable in
                gate.withLock { $0.isReached = $0.isShut }
                gate.wait { $0.isShut ? nil : () }
            }
            let filesystem = try OneFile(length: 100, lends: true)
            try ClientTests.withListener(filesystem, credentials: ("a", "b"), eachSecond: eachSecond) { port in
                let ask = { (login: String) in
                    let client = try RawConnection(port)
                    client.send("HEAD /files/film.mkv HTTP/1.1\r\nHost: localhost\r\nAuthorization: \(login)\r\n\r\n")
                    return client
                }
                gate.withLock { $0.isShut = true }
                gate.wait { $0.isReached ? () : nil }
                for _ in 0..<20 {
                    let client = try ask("Basic eDp5")
                    var reset = linger(l_onoff: 1, l_linger: 0)
                    setsockopt(client.descriptor, SOL_SOCKET, SO_LINGER, &reset, socklen_t(MemoryLayout<linger>.size))
                }
                gate.withLock { $0.isShut = false }
                for _ in 0..<20 {
                    let answer = String(decoding: try ask("Basic YTpi").receive(atLeast: 12), as: UTF8.self)
                    #expect(answer.hasPrefix("HTTP/1.1 200 "))
                }
            }
        }
    }

    @Test("A body that nobody wants is refused before its end")
    func longBody() async {
        await #expect(processExitsWith: .success) {
            let filesystem = try OneFile(length: 1, lends: false)
            try ClientTests.withListener(filesystem) { port in
                for (lines, sent) in [("Content-Length: 99999999999", ""), ("Transfer-Encoding: chunked", "20000\r\n")]
                {
                    let client = try RawConnection(port)
                    client.send("PUT /dav/film.mkv HTTP/1.1\r\nHost: localhost\r\n\(lines)\r\n\r\n\(sent)")
                    if !sent.isEmpty { client.send(String(repeating: "x", count: 1 << 17)) }
                    #expect(String(decoding: client.receive(), as: UTF8.self).hasPrefix("HTTP/1.1 403 "))
                    #expect(client.isClosed())
                }
            }
        }
    }

    @Test("A client that takes no message in time makes room for another one")
    func events() async {
        await #expect(processExitsWith: .success) {
            let filesystem = try OneFile(length: 1, lends: false)
            let message = [UInt8](repeating: 0x61, count: 4 << 20)
            let events = ServedDocument(patience: .milliseconds(300)) { message }
            try ClientTests.withListener(filesystem, documents: ["/events": events]) { port in
                let asked = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
                let clients = try ClientTests.deaf(16, port, asked)
                for client in clients { #expect(!client.receive(atLeast: 1).isEmpty) }
                let isTaken = {
                    guard let client = try? RawConnection(port) else { return false }
                    client.send(asked)
                    return String(decoding: client.receive(atLeast: 12).prefix(12), as: UTF8.self) == "HTTP/1.1 200"
                }
                #expect(eventually(within: .seconds(10)) { isTaken() })
                withExtendedLifetime(clients) {}
            }
        }
    }

    @Test("A request for another protocol is answered and ends its connection, and what follows is not kept")
    func upgrades() async {
        await #expect(processExitsWith: .success) {
            let filesystem = try OneFile(length: 100, lends: false)
            try ClientTests.withListener(filesystem) { port in
                let upgrade = "Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                for (asked, status) in [
                    ("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
                    ("HEAD /files/film.mkv HTTP/1.1\r\n" + upgrade, 200), ("GET /none HTTP/1.1\r\n" + upgrade, 404),
                ] {
                    let client = try RawConnection(port)
                    client.send(asked)
                    let head = String(decoding: client.receive(), as: UTF8.self)
                    #expect(
                        head.hasPrefix("HTTP/1.1 \(status) ") && head.contains("\r\nConnection: close\r\n"), "\(head)")
                    #expect(client.isClosed())
                }
                let before = ClientTests.residentBytes()
                let client = try RawConnection(port)
                client.send("HEAD /files/film.mkv HTTP/1.1\r\n" + upgrade)
                let piece = [UInt8](repeating: 0x61, count: 1 << 20)
                let sent = (0..<64).prefix { _ in
                    Glibc.send(client.descriptor, piece, piece.count, Int32(MSG_NOSIGNAL)) == piece.count
                }
                #expect(sent.count < 64)
                #expect(ClientTests.residentBytes() - before < 32 << 20)
            }
        }
    }

    @Test("Clients that read no text hold a piece of it each, are bounded in number, and hold up nobody")
    func texts() async {
        await #expect(processExitsWith: .success) {
            let folder = ListedFolder.films(40_000)
            let filesystem = try OneFile(length: 100, lends: false, folder: folder)
            let text = [UInt8](repeating: 0x61, count: 64 << 20)
            let documents = ["/text": ServedDocument(type: "text/plain") { text }]
            try ClientTests.withListener(filesystem, documents: documents) { port in
                #expect(try ClientTests.body(port).count == 100)
                let before = ClientTests.residentBytes()
                let clients = try ClientTests.deaf(48, port, "GET /files/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
                let heads = clients.map { String(decoding: $0.receive(atLeast: 12).prefix(12), as: UTF8.self) }
                #expect(heads.count { $0 == "HTTP/1.1 200" } == 32, "\(heads)")
                #expect(heads.count { $0 == "HTTP/1.1 503" } == 16, "\(heads)")
                // Each has looked for folders in all of it, and made as much as a socket takes.
                #expect(folder.counts.items < 32 * (40_000 + 20_000), "\(folder.counts.items)")
                #expect(try ClientTests.body(port).count == 100)
                #expect(ClientTests.residentBytes() - before < 32 << 20)
                let other = try ClientTests.deaf(4, port, "GET /text HTTP/1.1\r\nHost: localhost\r\n\r\n")
                for client in other { #expect(!client.receive(atLeast: 1).isEmpty) }
                // The text is one for all of them, and only a piece of it waits for each.
                #expect(ClientTests.residentBytes() - before < 48 << 20)
                withExtendedLifetime((clients, other)) {}
            }
            // The listener has ended although no client has read.
            #expect(folder.counts.references == 0)
        }
    }

    @Test("A client that takes no piece of a text in time makes room for another one")
    func textPatience() async {
        await #expect(processExitsWith: .success) {
            let filesystem = try OneFile(length: 1, lends: false, folder: ListedFolder.films(3000))
            try ClientTests.withListener(filesystem, patience: .milliseconds(300)) { port in
                for (path, limit) in [("/files/", 32), ("/files/?m3u", 8)] {
                    let asked = "GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n"
                    let clients = try ClientTests.deaf(limit, port, asked)
                    for client in clients { #expect(!client.receive(atLeast: 1).isEmpty) }
                    let isTaken = {
                        guard let next = try? RawConnection(port) else { return false }
                        next.send(asked)
                        return String(decoding: next.receive(atLeast: 12).prefix(12), as: UTF8.self) == "HTTP/1.1 200"
                    }
                    #expect(eventually { isTaken() })
                    // The end of a connection is the end of its answer.
                    #expect(clients.contains { $0.receive().count < 1 << 20 })
                }
            }
        }
    }

    private static func residentBytes() -> Int {
        guard let file = fopen("/proc/self/statm", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        fgets(&line, 256, file)
        let words = String(decoding: line.map { UInt8(bitPattern: $0) }, as: UTF8.self).split(separator: " ")
        return (Int(words[1]) ?? 0) * 4096
    }

    @Test("HEAD of what has no length is a head and nothing else, and the connection goes on")
    func heads() async {
        await #expect(processExitsWith: .success) {
            let folder = ListedFolder.films(3)
            let filesystem = try OneFile(length: 100, lends: false, folder: folder, tellsLength: false)
            let events = ServedDocument { Array("{}".utf8) }
            try ClientTests.withListener(filesystem, documents: ["/events": events]) { port in
                let answers = { (method: String, path: String, version: String) in
                    let client = try RawConnection(port)
                    let asked = "\(method) \(path) HTTP/\(version)\r\nHost: localhost\r\n"
                    client.send((version == "1.1" ? asked + "\r\n" : "") + asked + "Connection: close\r\n\r\n")
                    return String(decoding: client.receive(), as: UTF8.self)
                }
                for path in ["/files/", "/files/?m3u", "/files/?xspf", "/dav/", "/files/film.mkv", "/events"] {
                    let heads = try answers("HEAD", path, "1.1").split(
                        separator: "\r\n\r\n", omittingEmptySubsequences: false)
                    #expect(heads.count == 3 && heads.last == "", "\(path): \(heads)")
                    #expect(heads.prefix(2).allSatisfy { $0.hasPrefix("HTTP/1.1 200 ") }, "\(path): \(heads)")
                }
                // A body is framed by what the version knows.
                let bodies = try answers("GET", "/files/", "1.1").split(separator: "HTTP/1.1 200 ")
                #expect(bodies.count == 2)
                for body in bodies {
                    #expect(body.contains("\r\nTransfer-Encoding: chunked\r\n") && body.hasSuffix("\r\n0\r\n\r\n"))
                }
                let old = try answers("GET", "/files/", "1.0")
                #expect(!old.lowercased().contains("transfer-encoding") && old.hasSuffix("</html>\n"), "\(old)")
            }
        }
    }

    @Test("Connections that ask for nothing make room for each other, and end no answer that is under way")
    func idle() async {
        await #expect(processExitsWith: .success) {
            let filesystem = try OneFile(length: 32 << 20, lends: true)
            try ClientTests.withListener(filesystem) { port in
                let reading = try ClientTests.deaf(1, port)[0]
                let begun = reading.receive(atLeast: 1)
                let idle = try (0..<300).map { _ in try RawConnection(port) }
                // They were closed by the server, the oldest first.
                for connection in idle[..<45] { #expect(connection.receive().isEmpty) }
                #expect(begun.count + reading.receive(atLeast: (32 << 20) - begun.count).count >= 32 << 20)
                withExtendedLifetime(idle) {}
            }
        }
    }

    @Test("Of clients that were answered, one that waits makes room before one that is being answered")
    func members() async {
        await #expect(processExitsWith: .success) {
            let filesystem = try OneFile(length: 32 << 20, lends: true)
            try ClientTests.withListener(filesystem) { port in
                let reading = try ClientTests.deaf(1, port)[0]
                let begun = reading.receive(atLeast: 1)
                let kept = try (0..<300).map { _ in
                    let client = try RawConnection(port)
                    client.send("HEAD /files/film.mkv HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    #expect(!client.receive(atLeast: 12).isEmpty)
                    return client
                }
                // What is left of the head, and the end.
                for client in kept[..<40] { #expect(client.receive().count < 4096) }
                #expect(begun.count + reading.receive(atLeast: (32 << 20) - begun.count).count >= 32 << 20)
                withExtendedLifetime(kept) {}
            }
        }
    }

    @Test("The redirect to a folder keeps the query as it was sent")
    func folderRedirect() async {
        await #expect(processExitsWith: .success) {
            let filesystem = try OneFile(length: 100, lends: false, folder: ListedFolder.films(3))
            try ClientTests.withListener(filesystem) { port in
                let places = [
                    ("/files", "/files/"), ("/files?m3u", "/files/?m3u"), ("/dav?", "/dav/?"),
                    ("/files?a=%0D%0Ab&c?d", "/files/?a=%0D%0Ab&c?d"),
                ]
                for (asked, place) in places {
                    let client = try RawConnection(port)
                    client.send("GET \(asked) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    let head = String(decoding: client.receive(), as: UTF8.self)
                    #expect(head.hasPrefix("HTTP/1.1 301 ") && head.contains("\r\nLocation: \(place)\r\n"), "\(head)")
                }
            }
        }
    }

    @Test("Clients without the password end no connection of one that has it")
    func strangers() async {
        await #expect(processExitsWith: .success) {
            let filesystem = try OneFile(length: 100, lends: false)
            try ClientTests.withListener(filesystem, credentials: ("a", "b")) { port in
                let head = "HEAD /files/film.mkv HTTP/1.1\r\nHost: localhost\r\n"
                let login = "Authorization: Basic YTpi\r\n"
                let member = try RawConnection(port)
                let answer = {
                    member.send(head + login + "\r\n")
                    return String(decoding: member.receive(atLeast: 64).prefix(12), as: UTF8.self)
                }
                #expect(answer() == "HTTP/1.1 200")
                let others = try (0..<300).map { number in
                    let client = try RawConnection(port)
                    if number % 2 == 0 {
                        client.send(head + "\r\n")
                        #expect(!client.receive(atLeast: 12).isEmpty)
                    }
                    return client
                }
                #expect(others[1].receive().isEmpty)
                #expect(answer() == "HTTP/1.1 200")
                withExtendedLifetime(others) {}
            }
        }
    }

    @Test("Clients without the password that take no answers keep nobody out")
    func deafStrangers() async {
        await #expect(processExitsWith: .success) {
            let filesystem = try OneFile(length: 100, lends: false)
            try ClientTests.withListener(filesystem, credentials: ("a", "b")) { port in
                let head = "HEAD / HTTP/1.1\r\nHost:localhost\r\n\r\n"
                let others = try (0..<256).map { _ in try RawConnection(port, buffer: 4096) }
                // Until the kernel takes no more of the answers, and never more at once than may wait.
                for _ in 0..<60 { for client in others { client.send(String(repeating: head, count: 25)) } }
                let member = try RawConnection(port)
                member.send(
                    "HEAD /files/film.mkv HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic YTpi\r\n\r\n")
                #expect(String(decoding: member.receive(atLeast: 64).prefix(12), as: UTF8.self) == "HTTP/1.1 200")
                withExtendedLifetime(others) {}
            }
        }
    }

    @Test("A client that sends request upon request without waiting is let go of, and a few at once are answered")
    func pipelined() async {
        await #expect(processExitsWith: .success) {
            let filesystem = try OneFile(length: 1 << 20, lends: false, hole: 1 << 19)
            try ClientTests.withListener(filesystem) { port in
                let few = try RawConnection(port)
                let head = "HEAD /files/film.mkv HTTP/1.1\r\nHost: localhost\r\n\r\n"
                let last = head.replacing("\r\n\r\n", with: "\r\nConnection: close\r\n\r\n")
                few.send(String(repeating: head, count: 20) + last)
                let answers = String(decoding: few.receive(), as: UTF8.self)
                #expect(answers.split(separator: "HTTP/1.1 200").count == 21)
                // The first of them is never answered whole.
                let many = try RawConnection(port)
                many.send(String(repeating: ClientTests.request, count: 200))
                let bytes = many.receive()
                #expect(bytes.count < 1 << 20 && many.end() != EAGAIN)
            }
        }
    }

    @Test("To a client of HTTP/1.0 a body that is cut short does not end as a whole one does")
    func oldClients() async {
        await #expect(processExitsWith: .success) {
            let request = "GET /files/film.mkv HTTP/1.0\r\nHost: localhost\r\n\r\n"
            let whole = try OneFile(length: 100, lends: false, folder: .films(3))
            try ClientTests.withListener(whole) { port in
                let client = try RawConnection(port)
                client.send("GET /files/ HTTP/1.0\r\nHost: localhost\r\n\r\n")
                #expect(String(decoding: client.receive(), as: UTF8.self).hasSuffix("</html>\n") && client.end() == 0)
            }
            let cut = try OneFile(length: 1 << 20, lends: false, hole: 1 << 19, tellsLength: false)
            var client: RawConnection?
            try ClientTests.withListener(cut) { port in
                client = try RawConnection(port)
                client?.send(request)
                #expect(client?.receive(atLeast: 1 << 19).isEmpty == false)
            }
            var end: Int32?
            while let last = client, end == nil || end == EMSGSIZE { end = last.end() }
            #expect(end == ECONNRESET)
        }
    }

    @Test("Who waits with a body is told to go on, or at once that it is too long")
    func expectations() async {
        await #expect(processExitsWith: .success) {
            let filesystem = try OneFile(length: 100, lends: false)
            try ClientTests.withListener(filesystem) { port in
                let body = "<propfind xmlns=\"DAV:\"><propname/></propfind>"
                let head = { (length: Int, version: String) in
                    "PROPFIND /dav/film.mkv HTTP/\(version)\r\nHost: localhost\r\nDepth: 0\r\n"
                        + "Content-Length: \(length)\r\nExpect: 100-Continue\r\n\r\n"
                }
                let go = "HTTP/1.1 100 Continue\r\n\r\n"
                let text = { (bytes: [UInt8]) in String(decoding: bytes, as: UTF8.self) }
                let client = try RawConnection(port)
                client.send(head(body.utf8.count, "1.1"))
                #expect(text(client.receive(atLeast: go.utf8.count)) == go)
                // The next one is told so behind the answer to this one.
                client.send(body + head(body.utf8.count, "1.1"))
                var first: [UInt8] = []
                while !text(first).hasSuffix(go) {
                    let more = client.receive(atLeast: 1)
                    try #require(!more.isEmpty, "\(text(first))")
                    first += more
                }
                #expect(text(first).hasPrefix("HTTP/1.1 207 ") && text(first).hasSuffix("\r\n0\r\n\r\n" + go))
                client.send(body)
                #expect(text(client.receive(atLeast: 12)).hasPrefix("HTTP/1.1 207"))
                let long = try RawConnection(port)
                long.send(head((64 << 10) + 1, "1.1"))
                let refusal = text(long.receive())
                #expect(
                    refusal.hasPrefix("HTTP/1.1 413 ") && refusal.contains("\r\nConnection: close\r\n"), "\(refusal)")
                #expect(long.isClosed())
                for (length, version) in [(0, "1.1"), (body.utf8.count, "1.0")] {
                    let other = try RawConnection(port)
                    other.send(head(length, version) + (length > 0 ? body : ""))
                    #expect(text(other.receive(atLeast: 12)).hasPrefix("HTTP/\(version) 207"))
                }
            }
        }
    }

    @Test("A server that has stopped, with all the connections that it takes, keeps no other one waiting at its path")
    func fullSocket() throws {
        let path = "/tmp/reelfs-listener-\(getpid())-full"
        let hasEnded = Shared(false)
        var clients: [Int32] = []
        defer { for client in clients { close(client) } }
        let thread: Thread
        do {
            let server = try ListenSocket(.unix(path))
            while clients.count < 1000, let client = connected(path) { clients.append(client) }
            thread = startThread {
                _ = try? ListenSocket(.unix(path))
                hasEnded.set(true)
            }
            #expect(eventually { hasEnded.value })
            #expect(access(path, F_OK) == 0)
            withExtendedLifetime(server) {}
        }
        thread.join()
    }

    /// A connection that nobody has accepted yet; nil where no further one finds room.
    private func connected(_ path: String) -> Int32? {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let client = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        let result = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(client, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        if result == 0 { return client }
        close(client)
        return nil
    }

    @Test("At its end a listener removes its own socket, and no other file at that path")
    func socketFile() throws {
        for isReplaced in [false, true] {
            let path = "/tmp/reelfs-listener-\(getpid())-\(isReplaced)"
            defer { unlink(path) }
            do {
                let socket = try ListenSocket(.unix(path))
                #expect(access(path, F_OK) == 0)
                if isReplaced {
                    rename(path, path + "-moved")
                    fclose(fopen(path, "w"))
                }
                withExtendedLifetime(socket) {}
            }
            #expect((access(path, F_OK) == 0) == isReplaced)
            unlink(path + "-moved")
        }
    }
}
