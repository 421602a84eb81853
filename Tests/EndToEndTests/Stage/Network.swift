import CLinux
import Glibc
import ReelThreads
import Synchronization
import TestKit
import Testing

/// A network of the test's own: a client's namespace and a server's, with a cable between them. Nothing outside of the
/// two is touched; they end with the test.
///
/// Both are held by a process that sleeps. A mount that is made in the client's is seen everywhere, as the namespaces
/// are of the network only.
final class Network: Sendable {
    static let serverAddress = "10.77.0.2"

    private let client: ChildProcess
    private let server: ChildProcess

    /// Root alone may make one.
    static let isPossible = geteuid() == 0

    init() throws {
        client = try ChildProcess(["unshare", "--net", "sleep", "300"])
        server = try ChildProcess(["unshare", "--net", "sleep", "300"])
        do {
            let own = networkOf(getpid())
            let areApart = eventually {
                [client, server].allSatisfy { networkOf($0.pid).map { $0 != own } ?? false }
            }
            try #require(areApart, "no network namespaces: \(client.said.errors)")
            try inServer("ip link add server type veth peer name client netns \(client.pid)")
            try inServer(
                "ip addr add \(Self.serverAddress)/24 dev server && ip link set server up && ip link set lo up")
            try inClient("ip addr add 10.77.0.1/24 dev client && ip link set client up && ip link set lo up")
        } catch {
            end()
            throw error
        }
    }

    func end() {
        for process in [client, server] {
            process.signal(SIGKILL)
            _ = try? process.wait()
        }
    }

    /// Before the words of a program that is to run there.
    var through: [String] { ["nsenter", "--net=/proc/\(client.pid)/ns/net"] }

    func inClient(_ line: String) throws { try run(client, line) }
    func inServer(_ line: String) throws { try run(server, line) }

    private func run(_ process: ChildProcess, _ line: String) throws {
        let end = try ChildProcess.run(["nsenter", "--net=/proc/\(process.pid)/ns/net", "sh", "-c", line])
        guard end.status == 0 else { throw ChildError(words: [line], reason: end.errors) }
    }

    /// A server on the far end of the cable.
    func makeServer(port: UInt16 = 0, _ script: @escaping ScriptedServer.Script) throws -> ScriptedServer {
        let made = Mutex<Result<ScriptedServer, any Error>?>(nil)
        let path = "/proc/\(server.pid)/ns/net"
        // A socket belongs to the network of the thread that makes it.
        let thread = Thread("network") {
            let descriptor = open(path, O_RDONLY | O_CLOEXEC)
            defer { close(descriptor) }
            guard setns(descriptor, 0) == 0 else {
                let failure = SystemFailure("setns")
                return made.withLock { $0 = .failure(failure) }
            }
            let result = Result { try ScriptedServer(port: port, isPublic: true, script) }
            made.withLock { $0 = result.mapError { $0 as any Error } }
        }
        try #require(thread != nil)
        thread?.join()
        return try made.withLock { $0! }.get()
    }
}

private func networkOf(_ pid: pid_t) -> String? {
    var bytes = [CChar](repeating: 0, count: 64)
    let count = readlink("/proc/\(pid)/ns/net", &bytes, bytes.count)
    return count > 0 ? String(decoding: bytes[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self) : nil
}

/// Runs `body` with a network and a scene of its own.
func withNetwork(limit: Duration = .seconds(90), _ body: (Network, Scene) throws -> Void) throws {
    let network = try Network()
    defer { network.end() }
    try withScene(limit: limit) { scene in try body(network, scene) }
}
