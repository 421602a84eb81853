import ReelCore
import ReelSources

/// A shared HTTP cache in front of the source: a base of the same tree that is asked before the source itself.
package struct SharedCache: Sendable {
    /// Where the source's tree begins there.
    package var base: ResourceURL
    /// How long it is asked after the source once it failed.
    package var avoidance: Duration
    /// Whether it gets the source's login, the headers of its requests, and the signatures of its URLs.
    package var getsCredentials: Bool

    /// A query that signs a URL, as the source has it: the cache sends it to the source, and knows what it keeps by the
    /// URL without it.
    private static let signatureHeader = "Reelfs-Signature"
    /// The validator of the version whose bytes are wanted, as `If-Range` has it: a cache that keeps what comes by URL
    /// and version never mixes two. `If-Range` itself makes nginx read a file's first slice with each other one.
    private static let versionHeader = "Reelfs-Version"

    package init(_ base: ResourceURL, avoidance: Duration = .seconds(30), getsCredentials: Bool = false) {
        (self.base, self.avoidance, self.getsCredentials) = (base, avoidance, getsCredentials)
    }

    /// Where it has a resource of the source, nil if the resource is not of the source's tree. It keeps the resource by
    /// that URL, so that it has no signature.
    package func place(of url: ResourceURL, in source: ResourceURL) -> ResourceURL? {
        url.movedUnsigned(from: source, to: base)
    }

    /// The same with the login that the source's URL has, where it may have it.
    package func knowing(_ source: ResourceURL) -> SharedCache {
        var cache = self
        if getsCredentials { cache.base = base.with(credentials: source.credentials) }
        return cache
    }

    /// The headers of the request that goes there in place of this one. A signature stands in none of its URLs: it has
    /// a header.
    package func headers(for request: OriginRequest) -> [(name: String, value: String)] {
        var headers: [(name: String, value: String)] = []
        if case .ifRange(let validator)? = request.condition { headers.append((Self.versionHeader, validator)) }
        guard getsCredentials else { return headers }
        headers += request.headers
        if let query = request.url.query, request.url.unsigned != request.url {
            headers.append((Self.signatureHeader, query))
        }
        return headers
    }

    /// The condition of that request. Each answer for a range is compared with the version, whatever was asked.
    func condition(of request: OriginRequest) -> OriginRequest.Condition? {
        if case .ifRange? = request.condition { nil } else { request.condition }
    }

    /// What the answers of a shared cache say of themselves.
    package struct Tally: Codable, Hashable, Sendable {
        /// Answers that it had, and those that it asked the source for; an answer that does not say counts as neither.
        package var hits: Int64 = 0
        package var misses: Int64 = 0
        /// `Age` of the last answer that has one, in seconds.
        package var age: Int64?

        package init() {}

        mutating func add(_ head: ResponseHead) {
            if let age = head.age { self.age = age }
            switch head.isHit {
            case true?: hits &+= 1
            case false?: misses &+= 1
            case nil: break
            }
        }
    }
}
