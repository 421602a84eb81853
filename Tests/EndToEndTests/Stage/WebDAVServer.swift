import Glibc
import TestKit
import Testing

/// A real WebDAV server on loopback over one directory.
enum WebDAVServer: String, CaseIterable, Sendable {
    case apache2, lighttpd, nginx, rclone, wsgidav

    /// What it needs beside the program.
    private var module: String? {
        switch self {
        case .apache2: "/usr/lib/apache2/modules/mod_dav_fs.so"
        case .lighttpd: "/usr/lib/lighttpd/mod_webdav.so"
        case .nginx: "/usr/lib/nginx/modules/ngx_http_dav_ext_module.so"
        case .rclone, .wsgidav: nil
        }
    }

    /// Cancels the test where the machine lacks the server.
    func require() throws {
        if self == .wsgidav {
            guard try pythonServer(rawValue) == nil else { return }
        } else if isProgram(rawValue), module.map({ access($0, R_OK) == 0 }) ?? true {
            return
        }
        try Test.cancel("\(rawValue) is not installed")
    }

    /// Whether a plain GET of a folder lists it as well: it is then mounted as a listing, unless `dav://` says better.
    var hasListing: Bool { self == .rclone || self == .wsgidav }

    /// WsgiDAV over a folder that one user may see.
    static func startWsgiDAV(
        root: String, place: String, isDigest: Bool, user: String, password: String
    ) throws -> RealServer {
        try RealServer(root: root, place: place) { server in
            try writeFile(
                place + "/configuration.yaml",
                """
                host: 127.0.0.1
                port: \(server.port)
                provider_mapping:
                  "/": "\(root)"
                http_authenticator:
                  accept_basic: \(!isDigest)
                  accept_digest: \(isDigest)
                  default_to_digest: \(isDigest)
                simple_dc:
                  user_mapping:
                    "*":
                      "\(user)":
                        password: "\(password)"
                """.utf8)
            return [try pythonServer("wsgidav") ?? "wsgidav", "--config", place + "/configuration.yaml"]
        }
    }

    /// - Parameter login: of Apache alone.
    func start(root: String, place: String, login: ServerConfiguration.Login? = nil) throws -> RealServer {
        try RealServer(root: root, place: place) { server in
            switch self {
            case .apache2:
                return try server.apache(
                    modules: ["dav", "dav_fs"], "DavLockDB \(place)/locks", folder: "Dav On", login: login)
            case .lighttpd:
                let lines = "webdav.activate = \"enable\"\nwebdav.is-readonly = \"enable\""
                return try server.lighttpd(module: "mod_webdav", lines)
            case .nginx: return try server.nginx(module: module, server: "dav_ext_methods PROPFIND OPTIONS;")
            case .rclone: return server.rclone(serve: "webdav")
            case .wsgidav:
                let words = ["--host", "127.0.0.1", "--port", "\(server.port)", "--root", root, "--auth", "anonymous"]
                return [try pythonServer(rawValue) ?? rawValue, "--no-config"] + words
            }
        }
    }
}
