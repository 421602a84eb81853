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
        /// Whether the first missing part fails by its deadline, which is short then; else that is so far away that
        /// no busy machine comes near it.
        var waitsForDeadline = false
        var cut: @Sendable (Stage) throws -> Void
        var heal: @Sendable (Stage) throws -> Void

        /// `--timeout`
        var timeout: Int { waitsForDeadline ? 20 : 120 }

        static let all = [
            Cut(
                testDescription: "packets dropped", codes: [ETIMEDOUT], waitsForDeadline: true,
                cut: { try $0.network.inServer("iptables -I INPUT -i server -j DROP") },
                heal: { try $0.network.inServer("iptables -F INPUT") }),
            Cut(
                testDescription: "packets rejected", codes: [ENETUNREACH],
                cut: {
                    try $0.network.inServer("iptables -I INPUT -i server -p tcp -j REJECT --reject-with tcp-reset")
                },
                heal: { try $0.network.inServer("iptables -F INPUT") }),
            Cut(
                testDescription: "the server stopped", codes: [ENETUNREACH],
                cut: { $0.stopServer() }, heal: { try $0.startServer() }),
            Cut(
                testDescription: "a server that accepts and never answers", codes: [ETIMEDOUT], waitsForDeadline: true,
                cut: { $0.isMute.withLock { $0 = true } },
                heal: {
                    // As a restart: connections that wait are ended.
                    $0.stopServer()
                    $0.isMute.withLock { $0 = false }
                    try $0.startServer()
                }),
            Cut(
                // Connections that stood are silent: two seconds are a doubt, and the probe then knows.
                testDescription: "the interface away", codes: [ENETUNREACH],
                cut: { try $0.network.inClient("ip link set client down") },
                heal: { try $0.network.inClient("ip link set client up") }),
            Cut(
                testDescription: "the far end's cable pulled", codes: [ETIMEDOUT, ENETUNREACH],
                waitsForDeadline: true,
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

/// Runs `body` with a server at the far end of a network, and with what mounts it, given further options.
/// - Parameter timeout: `--timeout`.
func withNetworkStage(
    timeout: Int, limit: Duration = .seconds(120),
    _ body: (Scene, EndToEnd.NetworkTests.Stage, _ mount: ([String]) throws -> Mounted) throws -> Void
) throws {
    try withNetwork(limit: limit) { network, scene in
        let stage = try EndToEnd.NetworkTests.Stage(network)
        defer { stage.stopServer() }
        // What these tests time is the network: the cache is on a disk that is never busy.
        let disk = try SmallDisk(.tmpfs, megabytes: 256, at: scene.cache)
        defer { scene.endMounts(); disk.end() }
        try body(scene, stage) { options in
            try scene.mount(stage.address, ["-o", "timeout=\(timeout)"] + options, through: network.through)
        }
    }
}

/// The errno of a read of a part that the cache lacks; 0 where it does not fail.
func missing(_ mount: Mounted, at megabyte: Int64) -> Int32 {
    do {
        let file = try OpenDescriptor(mount.file("half.mkv"))
        _ = try file.bytes(at: megabyte << 20, count: 4096)
        return 0
    } catch { return error.number }
}
