/// Why an origin gave no bytes, or no more of them.
package enum OriginFailure: Error, Hashable, Sendable {
    /// No connection: name not found, refused, no route, a proxy that is away.
    case unreachable(String)
    /// The connection ended, or the body did, before all announced bytes had come.
    case interrupted(String)
    /// Connected, but no byte came within the request's stall limit; or no connection within it.
    case timedOut
    /// A status that is no success (after redirects, and after the original URL was asked again).
    case status(Int, retryAfter: Duration?)
    /// An answer that does not answer the request: wrong Content-Range, a content encoding that was not requested, HTML
    /// for a film.
    case wrongAnswer(String)
    /// The certificate or the TLS handshake was refused; a sentence that says what of it.
    case untrusted(String)
    /// The server's key (SSH) is unknown, or another one than the known one; a sentence that says what to do.
    case hostKey(String)
    /// The resource now has another length or validator than the one asked for.
    case changed
    /// Not asked: the origin is known to be away (`Circuit`).
    case away(Outage)
    /// Not asked: the user's resolver names no place.
    case unresolved
    /// Not asked: what gives its token, or its keys, has failed.
    case noLogin
    /// Ended by `RequestHandle.cancel`, or by the receiver.
    case cancelled
}

/// Why a waiting read gets no bytes.
package enum ReadFailure: Hashable, Sendable {
    case timedOut, unreachable, offline, accessDenied, changed, failed
}

extension OriginFailure {
    /// What a failure means to those who act on it.
    package struct Meaning: Hashable, Sendable {
        /// Another place that may have what this one did not give.
        package enum Elsewhere: Hashable, Sendable {
            case nowhere
            /// A mirror. A cache of the origin only knows what was there before.
            case mirrors
            case anywhere
        }

        /// What it says of the way to the origin (`Circuit`).
        package enum Sign: Hashable, Sendable {
            case nothing, refusal
            /// Something is there, which is not known to be the origin.
            case life
            /// The origin has answered.
            case answer
        }

        /// What became of the condition of a PUT.
        package enum Condition: Hashable, Sendable {
            /// The object is there, or another one is being written.
            case refused
            /// Some services know no condition of a PUT (Amazon S3 API Reference, "PutObject").
            case unknown
        }

        /// What a read gets that waited for the bytes.
        package var read = ReadFailure.failed
        /// How the same place is asked again; nil if that is of no use.
        package var retry: RetryPolicy? = nil
        package var elsewhere = Elsewhere.nowhere
        package var sign = Sign.nothing
        package var condition: Condition? = nil
        /// It says something of the origin, and not of one resource alone.
        package var isUnwell = false
        /// The origin wants fewer requests.
        package var isOverloaded = false
        /// The origin no longer has the resource as it described it before: it has another version or none, refuses
        /// access, or gives an answer that does not fit.
        package var isContradiction = false
        /// A link that has expired ends so: the resolver, the list or the original URL may name another place.
        package var mayBeExpired = false
        /// There is no such thing.
        package var isMissing = false
    }

    /// The one table of failures. The page Errors shows it.
    package var meaning: Meaning {
        switch self {
        // A user without a network wants to know soon, and complete files play without it.
        case .unreachable:
            Meaning(read: .unreachable, retry: .twice, elsewhere: .anywhere, sign: .refusal, isUnwell: true)
        case .interrupted: Meaning(retry: .soon, elsewhere: .anywhere, isUnwell: true)
        case .timedOut: Meaning(read: .timedOut, retry: .soon, elsewhere: .anywhere, isUnwell: true)
        case .away(.silent): Meaning(read: .timedOut, elsewhere: .anywhere, isUnwell: true)
        case .away(.unreachable): Meaning(read: .offline, elsewhere: .anywhere, isUnwell: true)
        // The user wants nothing to be asked for, of any place.
        case .away(.offline): Meaning(read: .offline)
        case .untrusted: Meaning(elsewhere: .anywhere, sign: .life, isUnwell: true)
        // An SSH server has no mirrors.
        case .hostKey: Meaning(sign: .life, isUnwell: true)
        case .wrongAnswer: Meaning(elsewhere: .anywhere, sign: .answer, isContradiction: true)
        case .changed: Meaning(read: .changed, sign: .answer, isContradiction: true)
        // What gives these may need the network, and says nothing of the origin.
        case .unresolved, .noLogin: Meaning(read: .accessDenied, elsewhere: .anywhere)
        case .cancelled: Meaning()
        case .status(let status, _): Self.meaning(ofStatus: status)
        }
    }

    private static func meaning(ofStatus status: Int) -> Meaning {
        var meaning =
            switch status {
            case 400: Meaning(condition: .unknown)
            case 401, 403: Meaning(read: .accessDenied, isContradiction: true, mayBeExpired: true)
            case 404, 410:
                Meaning(
                    read: .changed, elsewhere: .mirrors, isContradiction: true, mayBeExpired: true, isMissing: true)
            case 409, 412: Meaning(condition: .refused)
            case 416: Meaning(isContradiction: true)
            // What is locked (WebDAV) or early is free or due in a moment, here or elsewhere. The origin is well.
            case 423, 425: Meaning(retry: .later, elsewhere: .anywhere)
            case 429, 503: Meaning(retry: .later, elsewhere: .anywhere, isUnwell: true, isOverloaded: true)
            // A method that is not known will not be, except elsewhere. All others may be served well.
            case 501: Meaning(elsewhere: .anywhere, condition: .unknown)
            // A client takes a status above 599 for one of the server's errors (RFC 9110, section 15).
            case 408, 500...: Meaning(retry: .later, elsewhere: .anywhere, isUnwell: true)
            default: Meaning()
            }
        meaning.sign = .answer
        return meaning
    }

    /// How long the origin wants to be left alone.
    package var retryAfter: Duration? { if case .status(_, let pause) = self { pause } else { nil } }

    /// For a sentence.
    package var reason: String {
        switch self {
        case .unreachable(let text): "the origin cannot be reached (\(text))"
        case .interrupted(let text): "the answer broke off (\(text))"
        case .timedOut: "the origin did not answer in time"
        case .status(let status, _): "the origin answers \(status)"
        case .wrongAnswer(let text): "the origin's answer is of no use (\(text))"
        case .untrusted(let text): text
        case .hostKey(let text): text
        case .changed: "it has changed meanwhile"
        case .away(.offline): "--only-cached or `reelfs offline on` lets nothing be asked for"
        case .away: "the origin is away"
        case .unresolved: "the resolver tells no place"
        case .noLogin: "there is no login for it: what gives it has failed"
        case .cancelled: "the request was cancelled"
        }
    }
}
