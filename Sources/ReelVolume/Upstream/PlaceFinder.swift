import ReelCore

/// A question to the user's resolver: where the bytes of a file come from now.
package struct PlaceQuestion: Hashable, Sendable {
    package enum Reason: String, Sendable {
        /// It was not asked yet.
        case open
        /// Its last answer has ended by its own word.
        case expired
        /// The place of its last answer refuses.
        case failed
    }

    package let url: ResourceURL
    package let reason: Reason
    /// With which the place refused: 401, 403, 404 or 410.
    package let status: Int?
}

/// An answer of the resolver.
package struct PlaceAnswer: Sendable {
    /// The user's own command gave it, so it may be any http(s) place, loopback and private addresses included.
    package let url: ResourceURL
    /// Sent to the origin of `url` alone.
    package let headers: [(name: String, value: String)]
    /// How long it holds, nil if until the place refuses.
    package let lifetime: Duration?
    /// What the file is known by in the cache, nil if known as any other.
    package let key: String?

    package init(
        url: ResourceURL, headers: [(name: String, value: String)] = [], lifetime: Duration? = nil, key: String? = nil
    ) {
        self.url = url
        self.headers = headers
        self.lifetime = lifetime
        self.key = key
    }
}

/// Why there is no answer: for the log, without secrets.
package struct PlaceFailure: Error, Sendable {
    package let reason: String

    package init(_ reason: String) { self.reason = reason }
}

/// Answers questions for places, such as the user's resolver. Called on a thread that may wait, for several URLs at
/// once.
package protocol PlaceFinder: AnyObject, Sendable {
    /// - Parameter limit: after which no answer is of use.
    func find(_ question: PlaceQuestion, within limit: Duration) -> Result<PlaceAnswer, PlaceFailure>
    /// Ends the questions under way. No further one is answered.
    func stop()
}
