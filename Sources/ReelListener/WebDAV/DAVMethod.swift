import ReelCore

/// The methods of HTTP that are answered without a look into the tree: WebDAV's at `/dav/` (RFC 4918, class 1, nothing
/// of which can be written), and those that nothing here knows.
enum DAVMethod {
    private static let readable = "OPTIONS, GET, HEAD, PROPFIND"
    /// RFC 4918, section 9; RFC 9110, section 9.3; RFC 5789.
    private static let writing: Set = [
        "PUT", "POST", "PATCH", "DELETE", "MKCOL", "COPY", "MOVE", "PROPPATCH", "LOCK", "UNLOCK",
    ]

    /// Headers of a document of WebDAV.
    static let headers = [
        ("Content-Type", "application/xml; charset=utf-8"), ("X-Content-Type-Options", "nosniff"),
        ("Content-Security-Policy", "default-src 'none'"),
    ]

    /// nil for a method that looks at the place: GET and HEAD, and PROPFIND at `/dav/`.
    static func answer(_ request: ServedRequest, _ path: ServedPath) -> ServedAnswer? {
        if request.method == "GET" || request.method == "HEAD" { return nil }
        let isDAV = if case .tree(_, _, .dav) = path { true } else { false }
        // Also of the server as a whole (RFC 9110, section 9.3.7): Windows asks the root, whatever folder it was given.
        if request.method == "OPTIONS", isDAV || path == .top || request.target == "*" {
            return ServedAnswer(200, [("DAV", "1"), ("Allow", readable)])
        }
        guard isDAV else {
            return ServedAnswer(405, saying: "Only GET and HEAD work here.", [("Allow", "GET, HEAD")])
        }
        switch request.method {
        case "PROPFIND": return nil
        case let method where writing.contains(method):
            return ServedAnswer(403, saying: "Nothing can be written here.", [("Allow", readable)])
        default: return ServedAnswer(405, saying: "This method is not known here.", [("Allow", readable)])
        }
    }
}
