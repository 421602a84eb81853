import FoundationEssentials
import Glibc
import ReelCore
import ReelVolume
import TestKit
import Testing

/// The page of the HTTP server, and the messages that keep it up to date.
@Suite struct EventTests {
    /// The news as the page reads them.
    private struct News: Decodable {
        var source: String
        var volume: VolumeStatus
        var past: [[Int64]]?
    }

    private static let request = "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"

    private func withFilm(_ body: (Serving, FileOrigin) throws -> Void) throws {
        let film = FileOrigin(length: 8 << 20)
        let server = try filmServer(film)
        defer { server.stop() }
        try withScene { scene in
            try withServing(server.address, cache: scene.cache) { try body($0, film) }
        }
    }

    /// The messages in a body.
    private func messages(_ bytes: [UInt8]) throws -> [News] {
        // Between them, the lengths of chunks.
        let parts = bytes.split(separator: Array("data: ".utf8), omittingEmptySubsequences: false).dropFirst()
        return try parts.filter { $0.contains(0x0A) }.map {
            try JSONDecoder().decode(News.self, from: Data($0.prefix { $0 != 0x0A }))
        }
    }

    @Test("A client that listens gets a message a second, with what status shows")
    func listens() throws {
        try withFilm { serving, _ in
            let connection = try RawConnection(serving.port)
            let start = ContinuousClock.now
            connection.send(Self.request)
            #expect(try RawAnswer(serving.port, "GET", "/files/film.mkv").status == 200)
            var bytes: [UInt8] = []
            // On a busy machine the film may take more than these seconds.
            let isWhole = { (news: News?) in news?.volume.origins?.first?.bytes ?? 0 >= 8 << 20 }
            while try messages(bytes).count < 3 || !isWhole(messages(bytes).last),
                ContinuousClock.now - start < .seconds(20)
            {
                let more = connection.receive(atLeast: 1)
                if more.isEmpty { break }
                bytes += more
            }
            let head = String(decoding: bytes, as: UTF8.self)
            #expect(head.contains("\r\nContent-Type: text/event-stream\r\n") && head.contains("no-store"))
            let news = try messages(bytes)
            #expect(news.count >= 3 && ContinuousClock.now - start >= .seconds(1.9))
            #expect(isWhole(news.last) && news.last?.volume.files.map(\.path) == ["film.mkv"])
        }
    }

    @Test("The first message to each client covers the seconds before, and no other one does")
    func tellsThePast() throws {
        try withFilm { serving, _ in
            #expect(try RawAnswer(serving.port, "GET", "/files/film.mkv").status == 200)
            // The second in which its bytes came is over within another one.
            var isTold = false
            for _ in 0..<10 where !isTold {
                let news = try firstMessages(2, of: serving)
                #expect(news[0].past != nil && news[1].past == nil)
                isTold = news[0].past?.contains { $0.count == 6 && $0[1] > 1 << 20 } ?? false
            }
            #expect(isTold)
        }
    }

    private func firstMessages(_ count: Int, of serving: Serving) throws -> [News] {
        let connection = try RawConnection(serving.port)
        connection.send(Self.request)
        var bytes: [UInt8] = []
        while try messages(bytes).count < count {
            let more = connection.receive(atLeast: 1)
            try #require(!more.isEmpty)
            bytes += more
        }
        return try messages(bytes)
    }

    @Test("Clients that listen are few, one that takes nothing holds back none, and all end with the server")
    func bounds() throws {
        try withFilm { serving, _ in
            let clients = try (0..<16).map { _ in try RawConnection(serving.port, buffer: 4096) }
            for client in clients { client.send(Self.request) }
            #expect(clients.dropFirst().allSatisfy { !$0.receive(atLeast: 1).isEmpty })
            #expect(try RawAnswer(serving.port, "GET", "/api/v1/events").status == 503)
            // The first one still takes nothing.
            #expect(try RawAnswer(serving.port, "GET", "/files/film.mkv").body.count == 8 << 20)
            let head = try RawAnswer(serving.port, "HEAD", "/")
            #expect(head.status == 200 && head.headers["x-content-type-options"] == "nosniff")
            serving.process.signal(SIGTERM)
            // To the end of each.
            for client in clients { _ = client.receive() }
        }
    }
}
