import ReelCore

/// How a mount's requests are made. Checked as a whole when the transport is made.
package struct TransportConfiguration: Sendable {
    /// The header User-Agent: the program and its version, unless the user says otherwise.
    package var userAgent: String
    /// Sent in order to the origin that a request names and, after a redirect, to no other.
    package var headers: [(name: String, value: String)] = []
    /// The only origins (`ResourceURL.origin`) that may get `headers` and the secrets of `.netrc`; nil: each that a
    /// request names. A playlist names hosts that the user did not, and a listing may come from another place.
    package var trustedOrigins: Set<String>?
    /// The time for name lookup, TCP and TLS together.
    package var connectTimeout: Duration = .seconds(10)
    /// Transfers that run at once to one origin; as many paused ones may hold a connection. Browsers allow 6, but a
    /// listing's sizes come sixteen at a time in half the time, and no server on record refuses so many.
    package var connectionsPerOrigin = 16
    /// The path of a file of credentials; nil: `~/.netrc`.
    package var netrcFile: String?
    /// The path of a PEM file; nil: the system's authorities.
    package var certificateAuthorities: String?
    /// Whether requests use the proxies that the environment names.
    package var usesProxies = true

    /// - Parameter version: of the program, for `userAgent`.
    package init(version: String) {
        userAgent = "reelfs/" + version
    }

    /// Headers that the transport sets: a second line would make the answer another one than it expects.
    private static let reserved: Set<String> = [
        "range", "if-range", "if-none-match", "if-modified-since", "accept-encoding", "connection", "content-length",
        "transfer-encoding", "te", "upgrade", "expect",
    ]

    func trusts(_ place: ResourceURL) -> Bool { trustedOrigins?.contains(place.origin) ?? true }

    /// Refuses headers that could add lines to a request, or contradict those it has.
    func check() throws(TransportError) {
        try Self.check(headers)
        guard isHeaderValue(userAgent) else { throw .badHeaderValue("User-Agent") }
        guard connectionsPerOrigin > 0, connectTimeout > .zero else { throw .badLimit }
    }

    static func check(_ headers: [(name: String, value: String)]) throws(TransportError) {
        for header in headers {
            guard !header.name.isEmpty, header.name.utf8.allSatisfy(isTokenByte) else { throw .badHeaderName }
            guard isHeaderValue(header.value) else { throw .badHeaderValue(header.name) }
            guard !reserved.contains(asciiLowercased(header.name)) else { throw .reservedHeader(header.name) }
        }
    }
}

/// Why a transport could not be made. No case holds a header's value, which may be a secret.
package enum TransportError: Error, Hashable, Sendable {
    /// A header's name that is no token (RFC 9110, section 5.6.2).
    case badHeaderName
    /// The value of the header of that name has a line end or another control character.
    case badHeaderValue(String)
    /// The header of that name is the transport's own.
    case reservedHeader(String)
    /// A limit that is not positive.
    case badLimit
    /// libcurl or the system gave no handle or thread.
    case noResources
}

/// Whether a text may stand behind a header's colon: no control characters but tab, so no second line (RFC 9110,
/// section 5.5).
func isHeaderValue(_ value: String) -> Bool {
    value.utf8.allSatisfy { ($0 >= 0x20 && $0 != 0x7F) || $0 == 0x09 }
}

/// RFC 9110, section 5.6.2.
private func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
    default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
}
