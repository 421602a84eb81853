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
    case netrc = "user and password of ~/.netrc"
    case certificate = "the client certificate"
    case otherHeader = "the headers of --header or the credentials file"
    case cookies = "the cookies of --cookies"

    /// The login that the transport sends with a request, or else what it shows of who asks.
    /// - Parameters:
    ///   - file: of `credentials=FILE`.
    ///   - configuration: with the token command (`running`).
    init(
        _ request: OriginRequest, _ options: MountOptions, _ file: CredentialFile?,
        _ configuration: TransportConfiguration
    ) {
        switch configuration.login(of: request) {
        case .header?:
            let sent = configuration.headers.first { asciiLowercased($0.name) == "authorization" }?.value
            self = sent == file?.token.map { "Bearer " + $0 } ? .token : .header
        case .signature?: self = .signature
        case .token?: self = .tokenCommand
        case .password?: self = .password
        case .netrc?: self = .netrc
        // A file server takes none of these.
        case nil where request.url.fileProtocol != nil: self = .none
        case nil where options.certificateFile != nil: self = .certificate
        case nil where !configuration.headers.isEmpty: self = .otherHeader
        case nil: self = options.cookieFile != nil ? .cookies : .none
        }
    }

    /// A sentence.
    var remedy: String {
        switch self {
        case .none, .header, .otherHeader: "check its value."
        case .signature: "check both keys, the region and the clock."
        case .tokenCommand, .token: "it may have expired, or allow less than reading."
        case .password: "check both; special characters of a URL are written as %XX, those of a file are not."
        case .netrc: "check both."
        case .certificate: "ask the server's administrator whether its authority is known there."
        case .cookies: "log in with the browser again, and export its cookies again."
        }
    }
}
