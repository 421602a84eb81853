import ReelCore
import ReelHTTP

/// The login that goes to the source's origin, of those that options give, for texts.
enum LoginKind: String, Sendable {
    case none = "nothing"
    case header = "the Authorization header"
    case signature = "the signature"
    case tokenCommand = "the token of --token-command"
    case token = "the token of the credentials file"
    case password = "user and password"
    case certificate = "the client certificate"
    case otherHeader = "the headers of --header or the credentials file"
    case cookies = "the cookies of --cookies"

    /// In the order in which the transport prefers them.
    init(
        _ url: ResourceURL, _ options: MountOptions, _ file: CredentialFile?, _ configuration: TransportConfiguration
    ) {
        if configuration.signingKey != nil {
            self = .signature
        } else if file?.token != nil {
            self = .token
        } else if configuration.headers.contains(where: { asciiLowercased($0.name) == "authorization" }) {
            self = .header
        } else if options.tokenCommand != nil {
            self = .tokenCommand
        } else if url.credentials != nil {
            self = .password
        } else if options.certificateFile != nil {
            self = .certificate
        } else if !configuration.headers.isEmpty {
            self = .otherHeader
        } else {
            self = options.cookieFile != nil ? .cookies : .none
        }
    }

    /// A sentence.
    var remedy: String {
        switch self {
        case .none, .header, .otherHeader: "check its value."
        case .signature: "check both keys, the region and the clock."
        case .tokenCommand, .token: "it may have expired, or allow less than reading."
        case .password: "check both; special characters of a URL are written as %XX, those of a file are not."
        case .certificate: "ask the server's administrator whether its authority is known there."
        case .cookies: "log in with the browser again, and export its cookies again."
        }
    }
}
