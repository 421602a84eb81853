import Glibc
import ReelCore
import Synchronization
import TestKit
import Testing

extension EndToEnd.NetworkTests {
    struct Cut: CustomTestStringConvertible, Sendable {
        var testDescription: String
        /// What fails at the first missing part; later ones fail so at once.
        var codes: Set<Int32>
        /// For the first missing part.
        var limit: Duration
        var cut: @Sendable (Stage) throws -> Void
        var heal: @Sendable (Stage) throws -> Void

        static let all = [
            Cut(
                testDescription: "packets dropped", codes: [ETIMEDOUT], limit: .seconds(4),
                cut: { try $0.network.inServer("iptables -I INPUT -i server -j DROP") },
                heal: { try $0.network.inServer("iptables -F INPUT") }),
            Cut(
                testDescription: "packets rejected", codes: [ENETUNREACH], limit: .seconds(2),
                cut: {
                    try $0.network.inServer("iptables -I INPUT -i server -p tcp -j REJECT --reject-with tcp-reset")
                },
                heal: { try $0.network.inServer("iptables -F INPUT") }),
            Cut(
                testDescription: "the server stopped", codes: [ENETUNREACH], limit: .seconds(2),
                cut: { $0.stopServer() }, heal: { try $0.startServer() }),
            Cut(
                testDescription: "a server that accepts and never answers", codes: [ETIMEDOUT], limit: .seconds(4),
                cut: { $0.isMute.withLock { $0 = true } },
                heal: {
                    // As a restart: connections that wait are ended.
                    $0.stopServer()
                    $0.isMute.withLock { $0 = false }
                    try $0.startServer()
                }),
            Cut(
                // Connections that stood are silent: half the deadline is a doubt, and the probe then knows.
                testDescription: "the interface away", codes: [ENETUNREACH], limit: .seconds(3),
                cut: { try $0.network.inClient("ip link set client down") },
                heal: { try $0.network.inClient("ip link set client up") }),
            Cut(
                testDescription: "the far end's cable pulled", codes: [ETIMEDOUT, ENETUNREACH], limit: .seconds(4),
                cut: { try $0.network.inServer("ip link set server down") },
                heal: { try $0.network.inServer("ip link set server up") }),
        ]
    }

    /// Two films on a server at the far end.
    final class Stage: Sendable {
        let network: Network
        let whole = FileOrigin(length: 3 << 20 + 7, seed: 1)
        let half = FileOrigin(length: 96 << 20, seed: 2)
        let isMute = Mutex(false)
        private let server: Mutex<ScriptedServer?>
        private let port: UInt16

        init(_ network: Network) throws {
            self.network = network
            server = Mutex(nil)
            let first = try network.makeServer { _ in [] }
            port = first.port
            first.stop()
            try startServer()
        }

        var address: String { "http://\(Network.serverAddress):\(port)/" }

        func startServer() throws {
            let files = ["half.mkv": half, "whole.mkv": whole]
            let good = folderScript(files)
            let new = try network.makeServer(port: port) { [weak self] request in
                self?.isMute.withLock { $0 } == true ? [.stall] : good(request)
            }
            server.withLock { $0 = new }
        }

        func stopServer() { server.withLock { $0.take() }?.stop() }
    }
}
