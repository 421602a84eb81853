import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// SFTP with OpenSSH's server: host keys, and bodies without a byte.
@Suite struct SFTPTests {
    private static let film = GeneratedBytes(seed: 5).bytes(ByteRange(0, 300_000))

    /// A server of a folder with `film.mkv` and `empty`.
    private func withServer(_ lines: String = "", _ body: (SSHServer) throws -> Void) throws {
        let server = try SSHServer(lines)
        defer { server.stop() }
        try replaceFile(server.directory + "/film.mkv", with: Self.film)
        try replaceFile(server.directory + "/empty", with: [])
        try body(server)
    }

    /// curl takes a body without a byte on a connection that was in use before for one that has died.
    @Test func anEmptyFileIsReadOnAConnectionThatWasInUseBefore() throws {
        try withServer { server in
            let origin = try server.origin()
            defer { origin.shutdown() }
            for _ in 0..<2 {
                let range = ByteRange(100_000, 200_000)
                #expect(origin.fetch(server.url("film.mkv"), range).bytes.elementsEqual(Self.film[100_000..<200_000]))
                let whole = origin.fetch(server.url("empty"))
                #expect(whole.failure == nil && whole.heads.map(\.status) == [200] && whole.bytes.isEmpty)
                #expect(origin.fetch(server.url("empty"), range).failure == .status(416, retryAfter: nil))
            }
        }
    }

    @Test func whoAsksForTheHeadLearnsOfAnotherVersionAndSoDoesTheNextRange() throws {
        try withServer { server in
            let origin = try server.origin()
            defer { origin.shutdown() }
            let range = ByteRange(100_000, 200_000)
            #expect(origin.fetch(server.url("film.mkv"), range).failure == nil)
            let longer = GeneratedBytes(seed: 9).bytes(ByteRange(0, 400_000))
            try replaceFile(server.directory + "/film.mkv", with: longer)
            var request = OriginRequest(url: server.url("film.mkv"), range: ByteRange(0, 1))
            request.isHeadEnough = true
            let head = Recorder()
            origin.start(request, head)
            #expect(head.finished().heads.map { $0["content-range"] } == ["bytes 0-0/400000"])
            #expect(origin.fetch(server.url("film.mkv"), range).bytes.elementsEqual(longer[100_000..<200_000]))
        }
    }

    /// curl reads half a MiB at a time from such a server, all of it a body.
    @Test func aBodyThatComesAtOnceIsNoAnswerWithoutEnd() throws {
        try withServer { server in
            let origin = try server.origin()
            defer { origin.shutdown() }
            let film = GeneratedBytes(seed: 6).bytes(ByteRange(0, 1 << 20))
            try replaceFile(server.directory + "/film.mkv", with: film)
            for _ in 0..<40 {
                let record = origin.fetch(server.url("film.mkv"))
                let isFilm = record.bytes == film
                #expect(record.failure == nil)
                #expect(isFilm, "\(record.bytes.count) bytes")
            }
        }
    }

    /// One that has taken a login before is busy, and no server of another key.
    @Test func aServerThatDropsTheConnectionsBeyondItsMostIsBusy() throws {
        try withServer("MaxStartups 1") { server in
            let origin = try server.origin()
            defer { origin.shutdown() }
            // The only session is in use.
            try replaceFile(server.directory + "/long.mkv", with: [UInt8](repeating: 1, count: 4 << 20))
            let first = Recorder(answer: { _ in .pause })
            let long = OriginRequest(url: server.url("long.mkv"), range: nil, stallLimit: .seconds(30))
            let request = origin.start(long, first)
            defer { request.cancel() }
            try #require(eventually { first.byteCount > 0 })
            // Somebody else is about to log in.
            let other = try RawConnection(server.port)
            try #require(other.receive(atLeast: 4).starts(with: "SSH-".utf8))
            // OpenSSH 9.6 of Ubuntu counts otherwise.
            if try RawConnection(server.port).receive(atLeast: 4).starts(with: "SSH-".utf8) {
                try Test.cancel("this server takes more connections than MaxStartups says")
            }
            #expect(origin.fetch(server.url("film.mkv")).failure == .status(503, retryAfter: nil))
        }
    }

    @Test func aKeyThatIsMarkedAsRevokedIsRefusedAndAnotherOneThatIsDoesNoHarm() throws {
        try withServer { server in
            let key = server.key("host")
            for lines in ["@revoked * \(key)\r\n", " @revoked\tother,[127.0.0.2]:22 \(key) of a laptop\r\n"] {
                let origin = try server.origin("# of yesterday\n" + lines)
                defer { origin.shutdown() }
                let failure = origin.fetch(server.url("film.mkv")).failure
                guard case .hostKey(let reason)? = failure else { throw Unexpected(failure) }
                #expect(reason.contains("revoked"))
            }
            let origin = try server.origin("@revoked * \(server.key("user"))\n# @revoked * \(key)\n")
            defer { origin.shutdown() }
            let record = origin.fetch(server.url("film.mkv"))
            let isFilm = record.bytes == Self.film
            #expect(isFilm, "\(record.bytes.count) bytes, \(record.failure.map { "\($0)" } ?? "no failure")")
        }
    }
}

extension SSHServer {
    /// - Parameter lines: of the file of known hosts, in front of that of the server.
    fileprivate func origin(_ lines: String = "") throws -> CurlOrigin {
        var configuration = TransportConfiguration(version: "test")
        configuration.usesProxies = false
        configuration.ssh.knownHosts = try knownHosts(lines)
        configuration.ssh.privateKey = userKey
        configuration.ssh.user = user
        return try CurlOrigin(configuration)
    }
}
