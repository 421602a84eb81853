import Glibc
import TestKit

/// Writes the configuration of a web server over one directory: one form for each program, to which a test adds lines.
struct ServerConfiguration {
    /// What is served at `/`.
    let root: String
    /// An empty directory for configuration and logs.
    let place: String
    let port: UInt16

    /// Which login Apache wants: of joe, whose password is hunter2.
    enum Login: String {
        case basic, digest
    }

    /// Logs a line a request, as nginx does.
    /// - Parameters:
    ///   - modules: beside those that every server needs.
    ///   - lines: of the whole server.
    ///   - folder: lines for the directory.
    ///   - login: nil: none is wanted.
    /// - Returns: what runs the server in the foreground, as for the other programs.
    func apache(modules: [String], _ lines: String = "", folder: String, login: Login? = nil) throws -> [String] {
        let modules = modules + (login.map { ["authz_user", "authn_core", "authn_file", "auth_\($0)"] } ?? [])
        let loads = (["mpm_event", "authz_core", "dir", "mime"] + modules).map {
            "LoadModule \($0)_module /usr/lib/apache2/modules/mod_\($0).so"
        }
        let file = try written(
            """
            \(loads.joined(separator: "\n"))
            ServerRoot \(place)
            PidFile \(place)/pid
            DefaultRuntimeDir \(place)
            Mutex posixsem
            Listen 127.0.0.1:\(port)
            ServerName localhost
            ErrorLog \(place)/error
            LogFormat "%>s %b %m %U" short
            CustomLog \(place)/access.log short
            TypesConfig /etc/mime.types
            DocumentRoot \(root)
            AllowEncodedSlashes On
            \(lines)
            <Directory "\(root)">
                \(folder)
                \(try login.map { try demand($0) } ?? "Require all granted")
            </Directory>
            """)
        return ["apache2", "-X", "-f", file]
    }

    private func demand(_ login: Login) throws -> String {
        let sum = login == .basic ? "openssl passwd -apr1 hunter2" : "printf joe:films:hunter2 | md5sum | cut -c1-32"
        let user = login == .basic ? "joe:" : "joe:films:"
        try writeFile(place + "/users", (user + ChildProcess.run(["sh", "-c", sum]).output).utf8)
        return """
            AuthType \(login)
            AuthName films
            Auth\(login)Provider file
            AuthUserFile \(place)/users
            Require valid-user
            """
    }

    func lighttpd(module: String, _ lines: String) throws -> [String] {
        let file = try written(
            """
            server.modules = ("\(module)")
            server.document-root = "\(root)"
            server.bind = "127.0.0.1"
            server.port = \(port)
            \(lines)
            """)
        return ["lighttpd", "-D", "-f", file]
    }

    /// Logs a line a request: `status bytes method target`.
    /// - Parameter module: the path of one that is not built in.
    func nginx(module: String? = nil, http: String = "", server: String) throws -> [String] {
        try nginx(module: module, "\(http)\nserver { listen 127.0.0.1:\(port); root \(root); \(server) }")
    }

    /// - Parameter http: all of that block, its servers among it.
    func nginx(module: String? = nil, _ http: String) throws -> [String] {
        let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        let temporary = folders.map { "\($0)_temp_path \(place)/\($0);" }.joined(separator: "\n")
        let file = try written(
            """
            \(module.map { "load_module \($0);" } ?? "")
            \(geteuid() == 0 ? "user root;" : "") daemon off; master_process off; pid \(place)/pid; error_log stderr;
            events {}
            http {
                \(temporary)
                log_format short '$status $body_bytes_sent $request_method $request_uri';
                access_log \(place)/access.log short;
                \(http)
            }
            """)
        return ["nginx", "-c", file, "-p", place]
    }

    func caddy() throws -> [String] {
        let file = try written(
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
    }

    /// - Parameter kind: `http`, `webdav`…
    func rclone(_ program: String = "rclone", serve kind: String, _ options: String...) -> [String] {
        [program, "serve", kind, root, "--addr", "127.0.0.1:\(port)", "--config", place + "/rclone.conf"] + options
    }

    private func written(_ text: String) throws -> String {
        try writeFile(place + "/configuration", text.utf8)
        return place + "/configuration"
    }
}

/// Where `Tests/install-python` puts servers that Debian does not have; nil where it did not.
///
/// In CI a lack must not look like a pass.
func pythonServer(_ name: String) throws -> String? {
    try server(".build-python/bin/\(name)", by: "Tests/install-python")
}

/// Like `pythonServer`, for those of `Tests/unpack-packages`.
func unpackedServer(_ name: String) throws -> String? {
    try server(".build-servers/usr/sbin/\(name)", by: "Tests/unpack-packages")
}

/// A program of the packages that `Tests/unpack-packages` unpacks.
func unpackedProgram(_ name: String) throws -> String? {
    try server(".build-servers/usr/bin/\(name)", by: "Tests/unpack-packages")
}

private func server(_ path: String, by script: String) throws -> String? {
    let path = "\(repository)/\(path)"
    if access(path, X_OK) == 0 { return path }
    if isCI { throw ChildError(words: [path], reason: "is not there: run \(script)") }
    return nil
}
