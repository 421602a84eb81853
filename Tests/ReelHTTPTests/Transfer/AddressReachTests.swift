import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// Redirects into a network that the origin itself is not in.
@Suite struct AddressReachTests {
    @Test(
        arguments: [
            ("8.8.8.8", AddressReach.everywhere), ("172.15.0.1", .everywhere), ("172.32.0.1", .everywhere),
            ("100.63.0.1", .everywhere), ("2001:db8::1", .everywhere), ("::ffff:8.8.8.8", .everywhere),
            ("10.1.2.3", .site), ("172.16.0.1", .site), ("172.31.255.255", .site), ("192.168.0.1", .site),
            ("100.64.0.1", .site), ("fd00::1", .site), ("fc00::1", .site), ("fec0::1", .site),
            ("::ffff:10.0.0.1", .site), ("64:ff9b::10.0.0.1", .site), ("2002:c0a8:1::1", .site), ("::10.0.0.1", .site),
            ("169.254.169.254", .link), ("fe80::1%eth0", .link), ("[fe80::1]", .link), ("::ffff:169.254.1.1", .link),
            ("127.0.0.1", .machine), ("127.255.0.1", .machine), ("0.0.0.0", .machine), ("0.1.2.3", .machine),
            ("::1", .machine), ("[::1]", .machine), ("::", .machine), ("[::ffff:127.0.0.1]", .machine),
            ("localhost", .machine), ("a.localhost", .machine), ("host", nil), ("1.2.3", nil), ("", nil),
        ] as [(String, AddressReach?)])
    func anAddressHasAReach(host: String, reach: AddressReach?) {
        #expect(AddressReach(host: host) == reach)
    }

    /// 127.0.0.2 stands for an address that everybody reaches.
    private static let reach: @Sendable (String) -> AddressReach? = {
        switch $0 {
        case "127.0.0.2": .everywhere
        case "127.0.0.3": .site
        case "localhost": nil
        default: AddressReach(host: $0)
        }
    }

    /// The target is an address, or a name that only the connection resolves.
    @Test(
        arguments: [
            ("127.0.0.2", "127.0.0.1", false), ("127.0.0.2", "localhost", false), ("127.0.0.2", "127.0.0.3", false),
            ("127.0.0.2", "[::ffff:127.0.0.1]", false), ("127.0.0.3", "127.0.0.1", false),
            ("127.0.0.3", "127.0.0.2", true), ("127.0.0.1", "localhost", true), ("127.0.0.1", "127.0.0.3", true),
            ("127.0.0.2", "127.0.0.2", true),
        ])
    func aRedirectLeadsIntoNoNarrowerNetwork(source: String, target: String, isFollowed: Bool) throws {
        let other = try ScriptedServer(isPublic: true) { _ in ServerStep.answer(body: "inside") }
        let server = try ScriptedServer(isPublic: true) { _ in
            ServerStep.answer(302, [("Location", "http://\(target):\(other.port)/there")])
        }
        defer { other.stop() }
        try withTransport(to: server) {
            $0.reach = Self.reach
        } _: { origin in
            let record = origin.fetch(server.url("/", host: source))
            if isFollowed {
                #expect(record.failure == nil && record.bytes == Array("inside".utf8))
            } else {
                guard case .wrongAnswer(let text) = record.failure else { throw Unexpected(record.failure) }
                #expect(text.contains("private network") && other.connectionCount == 0)
            }
        }
    }

    @Test func anIdleConnectionIsNoWayIn() throws {
        let other = try ScriptedServer { _ in ServerStep.answer(body: "inside") }
        let server = try ScriptedServer(isPublic: true) { _ in
            ServerStep.answer(302, [("Location", "http://localhost:\(other.port)/there")])
        }
        defer { other.stop() }
        try withTransport(to: server) {
            $0.reach = Self.reach
        } _: { origin in
            // A list may name it, and the connection stays open.
            #expect(origin.fetch(other.url("/named", host: "localhost")).failure == nil)
            let record = origin.fetch(server.url("/", host: "127.0.0.2"))
            guard case .wrongAnswer = record.failure else { throw Unexpected(record.failure) }
            #expect(other.requests.map(\.path) == ["/named"] && other.connectionCount == 1)
        }
    }
}
