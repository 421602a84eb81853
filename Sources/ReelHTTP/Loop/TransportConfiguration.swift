import ReelCore

/// How a mount's requests are made. Checked as a whole when the transport is made.
package struct TransportConfiguration: Sendable {
    /// The header User-Agent: the program and its version, unless the user says otherwise.
    package var userAgent: String
    /// Sent in order to the origin that a request names and, after a redirect, to no other.
    package var headers: [(name: String, value: String)] = []
    /// The only origins (`ResourceURL.origin`) that may get `headers` and the secrets of `.netrc`, and those of
    /// `Origin.trust`, nil for each that a request names. A playlist names hosts that the user did not, and a listing
    /// may come from another place.
    package var trustedOrigins: Set<String>?
    /// Origins that the user names beside the trusted ones: they may get what `.netrc` has for their hosts, and none of
    /// the other secrets.
    package var mirrorOrigins: Set<String> = []
    /// Signs the requests of S3's interface to trusted origins, nil if they are sent unsigned.
    package var signingKey: SigningKey?
    /// Reads `signingKey` again once a service refuses the key itself, and delivers it, or nil if there is none. Is nil
    /// if the key stays the same. The transport reads it once at a time. It must not block.
    package var keySource: (@Sendable (_ deliver: @escaping @Sendable (SigningKey?) -> Void) -> Void)?
    /// The region that signatures name, and where AWS is asked, until an answer names another one, nil if unknown.
    package var region: String?
    /// The time for name lookup, TCP and TLS together.
    package var connectTimeout: Duration = .seconds(10)
    /// Transfers that run at once to one origin; as many paused ones may hold a connection. Browsers allow 6, but a
    /// listing's sizes come sixteen at a time in half the time, and no server on record refuses this many.
    package var connectionsPerOrigin = 16
    /// False for a place that has no reason to redirect: such an answer is a failure of its status then.
    package var followsRedirects = true
    /// Shared by the transports of a mount.
    package var line = Line()
    /// How SFTP servers are trusted, and asked.
    package var ssh = SSHAccess()
    /// The path of a file of credentials, nil if there is none.
    package var netrcFile: String?
    /// Runs the command that prints a bearer token, and delivers the token, or nil if there is none. Is nil if there is
    /// no such command. The transport runs it once at a time. It must not block.
    package var tokenSource: (@Sendable (_ deliver: @escaping @Sendable (String?) -> Void) -> Void)?
    /// Lines of a Netscape cookie file, for the trusted origins.
    package var cookies: [String] = []
    /// Shown to the trusted origins that ask for one.
    package var clientCertificate: ClientCertificate?
    /// The reach of an address in text, nil if it is a name. Tests have no public addresses.
    var reach: @Sendable (String) -> AddressReach? = { AddressReach(host: $0) }
    /// The path of a PEM file, in place of the system's authorities, nil for those.
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

    /// The region that a service without regions expects in a signature, and that AWS assumes of a bucket.
    static let firstRegion = "us-east-1"

    /// The same for two that are made of the same options, in one process.
    package var fingerprint: String {
        var rest = self
        // Sets print in an order of their own; keys neither print nor reflect themselves.
        (rest.trustedOrigins, rest.mirrorOrigins) = (trustedOrigins.map { _ in [] }, [])
        return "\(rest) \(trustedOrigins?.sorted() ?? []) \(mirrorOrigins.sorted()) \(signingKey.hashValue)"
    }

    func trusts(_ place: ResourceURL) -> Bool { trustedOrigins?.contains(place.origin) ?? true }

    /// Whether the transport signs the request.
    func signs(_ request: OriginRequest) -> Bool {
        signingKey != nil && request.signed != nil && trusts(request.url)
    }

    /// Refuses what could add lines to a request, or contradict those it has.
    package func check() throws(TransportError) {
        try Self.check(headers)
        guard isHeaderValue(userAgent) else { throw .badHeaderValue("User-Agent") }
        guard signingKey?.isSendable ?? true, region.map(isSigningRegion) ?? true else { throw .badSigningKey }
        guard cookies.allSatisfy(isHeaderValue) else { throw .badCookies }
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
    /// Keys or a region that no header can hold.
    case badSigningKey
    /// Cookies with control characters.
    case badCookies
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

/// Whether a text may stand in the scope of a signature.
private func isSigningRegion(_ text: String) -> Bool {
    (1...64).contains(text.utf8.count) && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && !"/:,".utf8.contains($0) }
}

/// RFC 9110, section 5.6.2.
func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
    default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
}
