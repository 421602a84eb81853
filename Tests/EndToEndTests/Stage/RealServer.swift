import Glibc
import TestKit
import Testing

/// A real HTTP server on loopback over one directory, with its configuration in a place of its own.
final class RealServer: Sendable {
    enum Kind: String, CaseIterable, Sendable {
        case nginx, apache2, lighttpd, caddy, python3, rclone

        /// What Debian installs it as; a machine without it skips its tests.
        var isInstalled: Bool { isProgram(rawValue) }
    }

    let port: UInt16
    private let process: ChildProcess
    /// The log of nginx and Apache alone.
    private let accessLog: String

    var url: String { "http://127.0.0.1:\(port)/" }

    /// - Parameters:
    ///   - root: what is served at `/`.
    ///   - place: an empty directory for configuration and logs.
    convenience init(_ kind: Kind, root: String, place: String) throws {
        try self.init(root: root, place: place) { server in
            switch kind {
            case .nginx:
                let types = "video/mp4 mp4; video/x-matroska mkv; audio/mpeg mp3; audio/flac flac;"
                return try server.nginx(http: "types { text/html html; \(types) }", server: "autoindex on;")
            case .apache2:
                let folder = "Options Indexes\nIndexOptions FancyIndexing"
                return try server.apache(modules: ["autoindex"], folder: folder)
            case .lighttpd:
                return try server.lighttpd(module: "mod_dirlisting", "dir-listing.activate = \"enable\"")
            case .caddy: return try server.caddy()
            case .python3:
                return [
                    "python3", "-m", "http.server", "--bind", "127.0.0.1", "--directory", root, "\(server.port)",
                ]
            case .rclone: return server.rclone(serve: "http")
            }
        }
    }

    /// - Parameter words: writes the configuration, and returns the command that runs the server in the foreground.
    init(root: String, place: String, _ words: (ServerConfiguration) throws -> [String]) throws {
        mkdir(place, 0o755)
        accessLog = place + "/access.log"
        var (failure, command) = ("", [String]())
        // Somebody else may take the port between the look and the use.
        for _ in 0..<3 {
            let port = try freePort()
            let environment = ["HOME": place, "XDG_DATA_HOME": place, "XDG_CONFIG_HOME": place, "TZ": "UTC"]
            command = try words(ServerConfiguration(root: root, place: place, port: port))
            let process = try ChildProcess(command, environment: environment, directory: place)
            var end: ChildProcess.End?
            let answers = eventually(within: .seconds(15)) {
                end = process.poll()
                return end != nil || accepts(port)
            }
            if answers, end == nil {
                (self.port, self.process) = (port, process)
                return
            }
            if end == nil {
                process.signal(SIGKILL)
                _ = try? process.wait()
            }
            failure = process.said.errors
        }
        throw ChildError(words: command, reason: "does not start: \(failure)")
    }

    /// Takes connections as the kernel does, and answers nothing any more.
    func freeze() { signalAll(SIGSTOP) }

    func stop() {
        signalAll(SIGCONT)
        process.signal(SIGTERM)
        do { _ = try process.wait(within: .seconds(5)) } catch { Issue.record("\(error)") }
    }

    /// Ends the sessions of a server that has a process for each.
    func endSessions() {
        for pid in children { kill(pid, SIGKILL) }
        #expect(eventually(within: .seconds(15)) { children.isEmpty }, "sessions stay")
    }

    /// Also the processes that it has started, such as nginx's workers.
    private func signalAll(_ number: Int32) {
        for pid in [process.pid] + children { kill(pid, number) }
    }

    private var children: [pid_t] {
        (contents("/proc/\(process.pid)/task/\(process.pid)/children") ?? "").split(separator: " ")
            .compactMap { pid_t($0) }
    }

    var requests: [Substring] { (contents(accessLog) ?? "").split(separator: "\n") }
}

func isProgram(_ name: String) -> Bool {
    ["/usr/sbin/", "/usr/bin/", "/usr/local/bin/"].contains { access($0 + name, X_OK) == 0 }
}

func freePort() throws -> UInt16 {
    let server = try ScriptedServer { _ in [] }
    defer { server.stop() }
    return server.port
}

private func accepts(_ port: UInt16) -> Bool {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    return withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
        }
    }
}
