import ReelCore

/// A request of an HTTP client, as it came.
package struct ServedRequest: Sendable {
    package var method: String
    /// The request's target: a path and perhaps a query, or a whole URL (RFC 9112, section 3.2).
    package var target: String
    /// HTTP/1.1 or later.
    package var isModern: Bool
    /// nil if it is too long.
    package var body: [UInt8]? = []
    /// At the other end of the connection.
    package var client = ClientPlace.thisMachine
    private let fields: [(name: String, value: String)]

    package init(method: String, target: String, headers: [(name: String, value: String)], isModern: Bool = true) {
        self.method = method
        self.target = target
        self.isModern = isModern
        fields = headers.map { (asciiLowercased($0.name), $0.value) }
    }

    /// The values of a header, joined by commas as RFC 9110, section 5.3, allows; nil where there is none.
    /// - Parameter name: in lower case.
    package subscript(name: String) -> String? {
        let values = fields.filter { $0.name == name }.map(\.value)
        return values.isEmpty ? nil : values.joined(separator: ", ")
    }

    /// The host that the client believes to speak to, with its port: of the target, or of `Host`.
    var authority: String? { targetParts.authority ?? self["host"] }

    /// The bytes of the path, still encoded; begins with `/` in all that is served.
    package var path: ArraySlice<UInt8> { targetParts.path }

    /// The bytes behind the `?`; nil where there is none.
    package var query: ArraySlice<UInt8>? { targetParts.query }

    /// The query behind a reference, with its `?`; empty where there is none. NIO's decoder takes only bytes that may
    /// stand in a header.
    var queryText: String { query.map { "?" + String(decoding: $0, as: UTF8.self) } ?? "" }

    private var targetParts: (authority: String?, path: ArraySlice<UInt8>, query: ArraySlice<UInt8>?) {
        var rest = Array(target.utf8)[...]
        var authority: String?
        let scheme = "http://"
        if asciiLowercased(rest.prefix(scheme.utf8.count)) == scheme {
            let host = rest.dropFirst(scheme.utf8.count).prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
            authority = String(decoding: host, as: UTF8.self)
            rest = rest[host.endIndex...]
        }
        let path = rest.prefix { $0 != UInt8(ascii: "?") }
        return (authority, path, path.endIndex < rest.endIndex ? rest[path.endIndex...].dropFirst() : nil)
    }
}

/// Where the tree is served: the first segment of a path.
package enum ServedRoot: String, Sendable {
    /// Pages of folders, and files.
    case files
    /// The same as a WebDAV collection.
    case dav
}

/// The place that a request's path names.
package enum ServedPath: Hashable, Sendable {
    /// `/`.
    case top
    /// A place of the tree below `/files/` or `/dav/`: the names that lead there, and whether a `/` stood behind the
    /// last one.
    case tree([String], isFolder: Bool, root: ServedRoot = .files)
    /// Nothing is there, and nothing is looked up.
    case nowhere

    /// Names are decoded once. `.`, `..`, an empty name, and a name that holds `/`, NUL or bytes that are not UTF-8
    /// lead nowhere: no entry has such a name.
    package init(_ path: ArraySlice<UInt8>) {
        let slash = UInt8(ascii: "/")
        var segments = path.split(separator: slash, omittingEmptySubsequences: false)
        guard path.first == slash else {
            self = .nowhere
            return
        }
        segments.removeFirst()
        if segments.allSatisfy(\.isEmpty), segments.count == 1 {
            self = .top
            return
        }
        guard let root = ServedRoot(rawValue: String(decoding: percentDecoded(segments.removeFirst()), as: UTF8.self))
        else {
            self = .nowhere
            return
        }
        // rclone writes one before a name with a colon, and does not take it out again.
        if root == .dav, let dot = segments.first, dot.elementsEqual(".".utf8), segments.count > 1 {
            segments.removeFirst()
        }
        let isFolder = segments.last?.isEmpty ?? false
        if isFolder { segments.removeLast() }
        var names: [String] = []
        for segment in segments {
            let bytes = percentDecoded(segment)
            guard !bytes.isEmpty, !bytes.contains(slash), !bytes.contains(0),
                let name = String(validating: bytes, as: UTF8.self),
                name != ".", name != ".."
            else {
                self = .nowhere
                return
            }
            names.append(name)
        }
        self = .tree(names, isFolder: isFolder, root: root)
    }

    /// The path that names it, encoded, nil if none does.
    package var text: String? {
        switch self {
        case .top: return "/"
        case .tree(let names, let isFolder, let root):
            return (["/" + root.rawValue] + names.map { reference($0) }).joined(separator: "/") + (isFolder ? "/" : "")
        case .nowhere: return nil
        }
    }
}

/// A name as one segment of a reference. A colon is escaped as well: in front of one, a reference would have a scheme.
func reference(_ name: String) -> String {
    percentEncodedSegment(name.utf8).split(separator: ":", omittingEmptySubsequences: false).joined(separator: "%3A")
}
