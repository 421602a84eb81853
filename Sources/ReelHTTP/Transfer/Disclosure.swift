import ReelCore

/// What one hop of a request may carry, decided again for each. Secrets belong to the origin (scheme, host and port)
/// that the request names, and no redirect takes them to another.
package struct Disclosure: Hashable, Sendable {
    /// Headers and body of the request itself (`OriginRequest.headers`).
    package let headers: Bool
    /// User and password of the request's URL.
    package let credentials: Bool
    /// What the user gave for the source: headers, token, `.netrc`, cookies of a file, client certificate, signature.
    package let secrets: Bool
    /// Cookies that the place itself has set; none of them is ever another place's.
    package let ownCookies: Bool

    /// - Parameters:
    ///   - original: the URL before any redirect.
    ///   - place: the URL that is asked now.
    ///   - isTrusted: the user meant the secrets for the origin of `original`.
    ///   - isPublic: `OriginRequest.isPublic`.
    package init(from original: ResourceURL, at place: ResourceURL, isTrusted: Bool, isPublic: Bool) {
        let isAtHome = place.isSameOrigin(as: original)
        headers = isAtHome || isPublic
        credentials = isAtHome
        secrets = isAtHome && isTrusted
        ownCookies = isAtHome || !(original.scheme == "https" && place.scheme == "http")
    }
}
