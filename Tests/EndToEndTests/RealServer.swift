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
    /// nginx only: a line a request, `status bytes method target`.
    private let accessLog: String

    var url: String { "http://127.0.0.1:\(port)/" }

    /// - Parameters:
    ///   - root: what is served at `/`.
    ///   - place: an empty directory for configuration and logs.
    convenience init(_ kind: Kind, root: String, place: String) throws {
        try self.init(kind.rawValue, place: place) { port in
            try command(kind, root: root, place: place, port: port)
        }
    }

    /// - Parameter words: writes the configuration for a port, and tells what runs the server in the foreground.
    init(_ name: String, place: String, _ words: (UInt16) throws -> [String]) throws {
        mkdir(place, 0o755)
        accessLog = place + "/access.log"
        var failure = ""
        // Somebody else may take the port between the look and the use.
        for _ in 0..<3 {
            let port = try freePort()
            let environment = ["HOME": place, "XDG_DATA_HOME": place, "XDG_CONFIG_HOME": place, "TZ": "UTC"]
            let process = try ChildProcess(try words(port), environment: environment, directory: place)
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
        throw ChildError(words: [name], reason: "does not start: \(failure)")
    }

    func stop() {
        process.signal(SIGTERM)
        do { _ = try process.wait(within: .seconds(5)) } catch { Issue.record("\(error)") }
    }

    var requests: [Substring] { (contents(accessLog) ?? "").split(separator: "\n") }
}

func isProgram(_ name: String) -> Bool {
    ["/usr/sbin/", "/usr/bin/", "/usr/local/bin/"].contains { access($0 + name, X_OK) == 0 }
}

private func freePort() throws -> UInt16 {
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

/// Writes the server's configuration. - Returns: what runs it in the foreground.
private func command(_ kind: RealServer.Kind, root: String, place: String, port: UInt16) throws -> [String] {
    func configuration(_ text: String) throws -> String {
        try writeFile(place + "/configuration", text.utf8)
        return place + "/configuration"
    }
    switch kind {
    case .nginx:
        let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        let temporary = folders.map { "\($0)_temp_path \(place)/\($0);" }.joined(separator: "\n")
        let user = geteuid() == 0 ? "user root;" : ""
        let file = try configuration(
            """
            \(user) daemon off; master_process off; pid \(place)/pid; error_log stderr;
            events {}
            http {
                \(temporary)
                types { text/html html; video/mp4 mp4; video/x-matroska mkv; audio/mpeg mp3; audio/flac flac; }
                log_format short '$status $body_bytes_sent $request_method $request_uri';
                access_log \(place)/access.log short;
                server { listen 127.0.0.1:\(port); root \(root); autoindex on; }
            }
            """)
        return ["nginx", "-c", file, "-p", place]
    case .apache2:
        let modules = ["mpm_event", "authz_core", "autoindex", "dir", "mime"].map {
            "LoadModule \($0)_module /usr/lib/apache2/modules/mod_\($0).so"
        }
        let file = try configuration(
            """
            \(modules.joined(separator: "\n"))
            ServerRoot \(place)
            PidFile \(place)/pid
            DefaultRuntimeDir \(place)
            Mutex posixsem
            Listen 127.0.0.1:\(port)
            ServerName localhost
            ErrorLog \(place)/error
            TypesConfig /etc/mime.types
            DocumentRoot \(root)
            AllowEncodedSlashes On
            <Directory "\(root)">
                Options Indexes
                IndexOptions FancyIndexing
                Require all granted
            </Directory>
            """)
        return ["apache2", "-X", "-f", file]
    case .lighttpd:
        let file = try configuration(
            """
            server.modules = ("mod_dirlisting")
            server.document-root = "\(root)"
            server.bind = "127.0.0.1"
            server.port = \(port)
            dir-listing.activate = "enable"
            """)
        return ["lighttpd", "-D", "-f", file]
    case .caddy:
        let file = try configuration(
            """
            {
                admin off
                auto_https off
            }
            http://:\(port) {
                bind 127.0.0.1
                root * \(root)
                file_server browse
            }
            """)
        return ["caddy", "run", "--adapter", "caddyfile", "--config", file]
    case .python3: return ["python3", "-m", "http.server", "--bind", "127.0.0.1", "--directory", root, "\(port)"]
    case .rclone:
        return ["rclone", "serve", "http", root, "--addr", "127.0.0.1:\(port)", "--config", place + "/rclone.conf"]
    }
}
