import ReelCore
import ReelHTTP
import TestKit

/// What the user gave for one source, and the judge of where it goes: each request is looked at, and each line of the
/// log.
///
/// Every secret begins with `mark` and the number of the household, so that one is seen wherever it stands.
struct Secrets: Sendable {
    static let mark = "secret-"

    private let number: UInt64
    private let findings: Findings
    /// Whether the shared cache gets the login and the signatures, as `--via-credentials` has it.
    let sharedGetsLogin: Bool

    init(_ number: UInt64, _ findings: Findings, sharedGetsLogin: Bool) {
        (self.number, self.findings, self.sharedGetsLogin) = (number, findings, sharedGetsLogin)
    }

    private func secret(_ name: String) -> String { "\(Self.mark)\(number)-\(name)" }

    /// The password in the source's URL.
    var password: String { secret("password") }
    /// The value of `--header`.
    private var header: String { secret("header") }
    /// Behind the URLs of a document.
    var signature: String { "?X-Amz-Signature=" + secret("signature") }
    /// The resolver's, for the place that it names.
    var linkHeader: (name: String, value: String) { ("X-Link", secret("link")) }

    private static let origin = "http://origin"
    /// Where redirects lead.
    static let elsewhere = "http://elsewhere"

    /// The headers that a request carries to a place, besides those that its own condition and range make. Redirects
    /// are followed as the transport does it.
    func headers(of request: OriginRequest, at place: ResourceURL) -> [(name: String, value: String)] {
        let disclosure = Disclosure(
            from: request.url, at: place, isTrusted: request.url.origin == Self.origin, isPublic: request.isPublic)
        var headers = disclosure.headers ? request.headers : []
        if disclosure.credentials, let pair = request.url.credentials {
            headers.append(("Authorization", "\(pair.user):\(pair.password)"))
        }
        return headers + (disclosure.secrets ? [("X-Header", header)] : [])
    }

    /// Looks at a request that is sent to an origin, by the transport of the household or that of the tier.
    func look(_ request: ServerRequest, at origin: String) {
        let texts = request.headers.map { "\($0.name): \($0.value)" }
        for text in texts where !mayHave(text, origin) { find(text, request, origin) }
        // A document that came from elsewhere names places there.
        let isSigned = [Self.origin, Self.elsewhere].contains(origin) && request.target.hasSuffix(signature)
        if request.target.contains(Self.mark), !isSigned { find(request.target, request, origin) }
        guard origin == Self.origin else { return }
        for wanted in [password, header] where !texts.contains(where: { $0.contains(wanted) }) {
            findings.find("\(request.method) \(request.target) to \(origin) lacks \(wanted)")
        }
    }

    private func mayHave(_ text: String, _ origin: String) -> Bool {
        guard text.contains(Self.mark) else { return true }
        let secrets =
            switch origin {
            case Self.origin: [password, header]
            case "http://shared" where sharedGetsLogin: [password, secret("signature")]
            case "http://links": [linkHeader.value]
            default: [String]()
            }
        return secrets.contains { text.hasSuffix($0) }
    }

    private func find(_ text: String, _ request: ServerRequest, _ origin: String) {
        findings.find("\(request.method) \(request.path) to \(origin) has \(text)")
    }
}
