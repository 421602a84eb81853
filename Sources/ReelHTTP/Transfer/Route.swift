import ReelCore

/// The place that a request asks, and how it came there.
///
///     remembered ──used up──▶ original ──redirected──▶ next ──redirected──▶ …
///                                 ▲──used up, twice at most──┘
struct Route {
    /// The URL that the request asks before any redirect: its own or, of a bucket of AWS, that of the region.
    private(set) var original: ResourceURL
    /// The region in which an S3 service is asked, nil if unknown.
    private(set) var region: String?
    /// The URL that the request asks at this moment.
    private(set) var place: ResourceURL
    /// Whether `place` comes from the memory of redirects, not from a redirect seen just now.
    private(set) var isRemembered: Bool
    /// Whether the request's own origin has answered with a redirect: a refusal at another place is not its own.
    private(set) var isRedirected = false
    /// How the request proves who asks.
    var login = LoginAttempt()
    /// The places that redirected to `place`, the first one first.
    private var visited: [String] = []
    /// How often the original URL was asked again.
    private var repeats = 0

    /// RFC 9110, section 15.4, leaves the number open; browsers stop at 20, curl at 50.
    private static let redirectLimit = 10
    /// A place that is refused this often is refused.
    static let repeatLimit = 2
    /// Bytes, as browsers and servers allow; a longer URL serves to keep the transport's thread busy.
    static let locationLimit = 8 << 10

    /// - Parameter remembered: where the URL was last redirected to.
    init(_ request: OriginRequest, region: String?, remembered: ResourceURL?) {
        self.region = region
        original = request.place(in: region)
        place = remembered ?? original
        isRemembered = remembered != nil
    }

    /// Whether no redirect has been followed yet.
    var isFirst: Bool { visited.isEmpty }

    /// Whether the original URL may be asked again.
    var mayRepeat: Bool { repeats < Self.repeatLimit }

    /// Whether the original URL may name another place, after a 401, 403, 404 or 410 at this one. A place that was new
    /// a moment ago may be used up already, where other requests ask for the same resource.
    func mayBeUsedUp(_ status: Int) -> Bool {
        isRemembered || !visited.isEmpty && status < 404 && mayRepeat
    }

    /// The verdict on a redirect of the request.
    /// - Parameters:
    ///   - location: the header's value.
    ///   - isTooNarrow: whether a host is no place for a redirect of this request (`AddressReach`).
    func redirect(
        _ request: OriginRequest, to location: String, from host: String, isTooNarrow: (ResourceURL) -> Bool
    ) -> Transfer.Verdict {
        guard location.utf8.count <= Self.locationLimit else {
            return .failed(.wrongAnswer("\(host): a redirect to a URL that is too long"))
        }
        guard let target = place.resolve(location) else {
            return .failed(.wrongAnswer("\(host): a redirect to no http(s) URL"))
        }
        guard !isTooNarrow(target) else { return .failed(.wrongAnswer(AddressReach.refusal(of: host))) }
        guard request.isReading || request.isPublic || target.isSameOrigin(as: request.url) else {
            return .failed(.wrongAnswer("\(host): a redirect of \(request.method) to another origin"))
        }
        guard visited.count < Self.redirectLimit, target.text != place.text, !visited.contains(target.text) else {
            return .failed(.wrongAnswer("too many redirects"))
        }
        return .redirected(target.with(credentials: nil))
    }

    /// Goes to the place that a redirect names.
    mutating func follow(_ target: ResourceURL) {
        visited.append(place.text)
        place = target
        isRedirected = true
    }

    /// Goes back to the original URL. - Parameter region: the region in which it is asked now.
    mutating func askAgain(_ request: OriginRequest, region: String?) {
        repeats += 1
        visited = []
        self.region = region
        original = request.place(in: region)
        place = original
        isRemembered = false
    }
}

extension OriginRequest {
    /// The URL to ask where the service has regions.
    fileprivate func place(in region: String?) -> ResourceURL { signed?.place(of: url, in: region) ?? url }
}
