import ReelCore
import ReelSources

/// What a URL turned out to be.
enum SourceFacts {
    case file
    /// - kind: `directory listing (HTML)`.
    /// - chosen: its entry that is looked at; nil: it has none that is a file.
    case tree(kind: String, entries: Int, chosen: String?)
    /// A document that lists nothing.
    case page(String)
}

/// What the answers for one file were.
struct OriginFacts {
    /// What was asked for. No part of it but scheme, host and port is told.
    var url: ResourceURL
    /// The first request, its head judged as a mount does.
    var first: Probe
    /// The same again, at the file's end; nil: not asked.
    var second: Probe?
    /// Whether the second request went out on the first one's connection.
    var keepsConnections = true
    var speeds: [Speed] = []
    /// Seconds that the film lasts, as the user says.
    var duration: Int64?
    /// Credentials that the user gave are sent to it.
    var sendsCredentials = false
    /// The daemon of a mount may have credentials and headers that are not known here.
    var isOfMount = false

    struct Probe {
        var outcome: Result<ContentInformation, OriginFailure>
        var redirects = 0
        /// Who answered at last.
        var place: ResourceURL?
        /// From the request to the answer's head.
        var latency = Duration.zero
    }

    struct Speed {
        var connections: Int
        /// A second.
        var bytes: Double = 0
        var received: Int64 = 0
        var elapsed = Duration.zero
        /// Of a request that did not end well.
        var failure: OriginFailure?
    }
}

extension Diagnosis {
    mutating func add(_ facts: SourceFacts) {
        switch facts {
        case .file: break
        case .tree(let kind, let entries, let chosen?):
            ok("a \(kind), \(entries) \(entries == 1 ? "entry" : "entries"); examined: \(shown(chosen))")
        case .tree(let kind, _, nil): note("a \(kind) without a file to examine")
        case .page(let reason):
            bad(
                "this is no directory listing, no playlist and no media (\(reason))",
                "Give the URL of one of these. If it is a page to log in: --credentials or --header.")
        }
    }

    mutating func add(_ facts: OriginFacts) {
        let information: ContentInformation
        switch facts.first.outcome {
        case .success(let found): information = found
        case .failure(let failure): return addFailure(failure, facts)
        }
        addPath(facts, information)
        addRanges(facts, information)
        addVersion(facts, information)
        addSpeed(facts, information)
    }

    // MARK: The way there

    private mutating func addPath(_ facts: OriginFacts, _ information: ContentInformation) {
        let isSecure = facts.first.place?.scheme ?? facts.url.scheme == "https"
        let tls = isSecure ? "TLS" : "no TLS"
        if let second = facts.second, facts.keepsConnections {
            let way = max(.zero, facts.first.latency - second.latency)
            let what = facts.first.redirects > 0 ? "to connect and be redirected" : "to connect"
            ok("the origin answers: \(shortTime(way)) \(what), \(shortTime(second.latency)) to the first byte, \(tls)")
        } else if facts.second != nil, information.acceptsRanges {
            note(
                "the origin answers: \(shortTime(facts.first.latency)) to the first byte, \(tls); it closes each "
                    + "connection, so every request opens a new connection",
                "Let the server keep connections alive.")
        } else {
            ok("the origin answers: \(shortTime(facts.first.latency)) to the first byte, \(tls)")
        }
        if facts.first.redirects > 0, let place = facts.first.place {
            let times = facts.first.redirects == 1 ? "" : " (\(facts.first.redirects) redirects)"
            if place.isSameOrigin(as: facts.url) {
                ok("it redirects to the same host\(times)")
            } else if facts.url.scheme == "https", place.scheme == "http" {
                note("it redirects to \(shown(place.origin))\(times), which has no TLS")
            } else {
                ok("it redirects to \(shown(place.origin))\(times), which gets no credentials")
            }
        }
    }

    /// - Parameter source: what the credentials are for; a list's files may be elsewhere, and get none.
    mutating func addSecrets(sentTo source: ResourceURL) {
        if source.scheme == "http", !isLoopback(source.host) {
            note("credentials cross the network unencrypted", "Use https.")
        }
    }

    // MARK: What it gives

    private mutating func addRanges(_ facts: OriginFacts, _ information: ContentInformation) {
        let size = information.length.map { humanSize($0) } ?? "length unknown"
        let type = information.mediaType.map { ", \(shown($0))" } ?? ""
        switch facts.second?.outcome {
        case .failure(let failure):
            bad(
                "a range at the beginning is answered, one at the end is not: \(failure.reason)",
                "Players read the end first. Ask the server's administrator, or use another server.")
        case _ where information.acceptsRanges:
            ok("ranges are honoured: 206 with exactly what was asked; \(size)\(type)")
        default:
            note(
                "no ranges: 200 with the whole file whatever is asked; \(size)\(type)",
                "It plays from its beginning; what lies further on comes only after all before it. What is cached "
                    + "seeks as usual.")
        }
        if information.length == nil {
            note("the length is not told: programs see it only once the whole file has come")
        } else if information.length == 0 {
            note("the file is empty")
        }
    }

    private mutating func addVersion(_ facts: OriginFacts, _ information: ContentInformation) {
        let validator = information.validator
        let again = try? facts.second?.outcome.get()
        if let again, !again.isSameVersion(as: information) {
            return bad(
                "the validator is another one in each answer, as if the file changed all the time",
                "Reads would fail with ESTALE, and nothing stay cached. Behind a load balancer: give all servers the "
                    + "same ETag, or none and the same dates.")
        }
        let times = again == nil ? "" : ", the same twice"
        switch (validator.entityTag, validator.lastModified) {
        case (let tag?, _): ok("validator: a \(tag.isWeak ? "weak" : "strong") ETag\(times)")
        case (nil, _?): ok("validator: Last-Modified\(times)")
        case (nil, nil): note("no validator: a change that keeps the length would not be noticed")
        }
    }

    // MARK: How fast

    /// Of what was measured a film may need this much: rates of films and of lines vary.
    private static let usable = 0.8

    private mutating func addSpeed(_ facts: OriginFacts, _ information: ContentInformation) {
        let good = facts.speeds.filter { $0.failure == nil }
        if let refused = facts.speeds.first(where: { $0.failure != nil }), let failure = refused.failure {
            let what = count(refused.connections, "connection")
            if refused.connections == 1 {
                bad("no speed: \(failure.reason)", "Try again; if it stays so, ask the server's administrator.")
            } else {
                note("\(what) at a time are too many: \(failure.reason)")
            }
        }
        guard let best = good.map(\.bytes).max(), best > 0 else { return }
        let rates = good.enumerated().map { index, speed in
            bitRate(speed.bytes)
                + (index == 0 ? " with \(count(speed.connections, "connection"))" : " with \(speed.connections)")
        }
        let received = facts.speeds.reduce(Int64(0)) { $0 + $1.received }
        let elapsed = facts.speeds.reduce(Duration.zero) { $0 + $1.elapsed }
        ok("speed: \(rates.joined(separator: ", ")) (\(humanSize(received)) in \(shortTime(elapsed)))")
        addPlaying(best * Self.usable, information.length, facts.duration)
    }

    private mutating func addPlaying(_ rate: Double, _ length: Int64?, _ duration: Int64?) {
        let most = bitRate(rate)
        if let length, let duration {
            let needed = Double(length) / Double(duration)
            let film = "\(humanSize(length)) in \(longTime(duration)) need \(bitRate(needed))"
            if needed <= rate { return ok("it will play: \(film), \(most) are there") }
            return bad(
                "it will not play without a stop: \(film), \(most) are there",
                "Fetch it before, as by `cat FILE > /dev/null` on the mount: then it plays from the cache.")
        }
        let film = "plays up to \(most): a 2h film of \(humanSize(Int64(rate * 7200)))"
        // At the least; nobody wonders whether a small file plays. The length is what the origin says, up to any number.
        let seconds = Int64(min(Double(length ?? 0) / rate, 1e12).rounded(.up))
        ok(seconds < 60 ? film : "\(film); this one if it lasts \(longTime(seconds)) or longer")
    }

    // MARK: No answer

    private mutating func addFailure(_ failure: OriginFailure, _ facts: OriginFacts) {
        let place = facts.first.place ?? facts.url
        let remedy: String
        switch failure {
        case .status(401, _) where facts.isOfMount, .status(403, _) where facts.isOfMount:
            return note(
                "\(place.origin): \(failure.reason); the mount's own credentials are known to its daemon alone",
                "To look closer, give them here, too: --credentials or --header.")
        case .status(401, _), .status(403, _):
            remedy =
                facts.sendsCredentials
                ? "The credentials given are not the right ones."
                : "Put user and password into a file for --credentials, or into ~/.netrc."
        case .status(404, _), .status(410, _): remedy = "Look at the path of the URL; a directory's ends with a slash."
        case .status(429, _), .status(503, _): remedy = "The server has too much to do, or too much of you: try later."
        case .status(500..., _): remedy = "That is for the server's administrator; a mount tries again for a while."
        case .status: remedy = "Look at the URL; a browser may show what the server wants."
        case .unreachable: remedy = "Look at host and port of the URL, at the network, and at proxies (https_proxy)."
        case .untrusted:
            remedy = "Look at the clock; a certificate authority of one's own is added by update-ca-certificates."
        case .timedOut: remedy = "The server or a firewall on the way is silent: try another network."
        case .wrongAnswer: remedy = "The server, or a proxy on the way, gives a login page or breaks ranges."
        case .interrupted, .changed, .away, .cancelled: remedy = "Try again."
        }
        // Some reasons name the origin themselves.
        let reason = failure.reason.contains(place.origin) ? failure.reason : "\(place.origin): \(failure.reason)"
        bad(reason + (facts.first.redirects > 0 ? ", behind a redirect" : ""), remedy)
    }
}

private func isLoopback(_ host: String) -> Bool {
    host == "localhost" || host == "[::1]" || host.hasPrefix("127.")
}
