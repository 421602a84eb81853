import ReelCore
import ReelSources

/// The kind of document at a URL.
enum SourceFacts {
    case file
    /// - kind: `directory listing (HTML)`.
    /// - chosen: the name of the entry to examine, nil if no entry is a file.
    /// - remark: what the source says of itself, in a sentence.
    case tree(kind: String, entries: Int, chosen: String?, remark: String? = nil)
    /// A document that lists nothing.
    case page(String)
}

/// The answers for one file.
struct OriginFacts {
    /// The URL of the file. Only scheme, host and port of it are shown.
    var url: ResourceURL
    /// The first request, its head judged as a mount does.
    var first: Probe
    /// A second request, for the file's end, nil if not sent.
    var second: Probe?
    /// Whether the second request used the first one's connection.
    var keepsConnections = true
    var speeds: [Speed] = []
    /// Seconds that the film lasts, as the user says.
    var duration: Int64?
    /// Bytes of the film, if it is joined of pieces, of which `url` is one.
    var joinedLength: Int64?
    /// The login that the user gave, and that is sent.
    var login = LoginKind.none
    /// Why the command of `--token-command` printed no token.
    var loginFailure: String?
    /// Whether this is the source of a mount: its daemon may have credentials and headers that are not known here.
    var isOfMount = false

    /// A request for content information.
    struct Probe {
        var outcome: Result<ContentInformation, OriginFailure>
        var redirects = 0
        /// The URL that answered, after redirects.
        var place: ResourceURL?
        /// From the request to the answer's head.
        var latency = Duration.zero
    }

    /// A measurement.
    struct Speed {
        var connections: Int
        /// Bytes a second.
        var bytes: Double = 0
        var received: Int64 = 0
        var elapsed = Duration.zero
        /// The failure of one of the requests.
        var failure: OriginFailure?
    }
}

extension Diagnosis {
    /// Reports whether a mirror may serve the file that was examined.
    mutating func add(mirror: ResourceURL, _ probe: OriginFacts.Probe, of facts: OriginFacts) {
        let name = "the mirror \(mirror.origin)"
        switch (probe.outcome, facts.first.outcome) {
        case (.failure(let failure), _): bad("\(name): \(failure.reason)", "Check the URL of --mirror.")
        case (.success, .failure): note("\(name) answers, and the source does not")
        case (.success(let found), .success(let known)) where found.isProven(by: known):
            ok("\(name) has the same version of the file")
        case (.success(let found), .success(let known)):
            let reason = found.length == known.length ? "another ETag and date, or none" : "another length"
            bad("\(name) has \(reason), so that it is not asked for the file", "Copy the file with its date.")
        }
    }

    /// Names the kind of the source.
    mutating func add(_ facts: SourceFacts) {
        switch facts {
        case .file: break
        case .tree(let kind, let entries, let chosen?, let remark):
            ok("a \(kind), \(entries) \(entries == 1 ? "entry" : "entries"); examined: \(shown(chosen))")
            if let remark { note(remark) }
        case .tree(let kind, _, nil, _): note("a \(kind) without a file to examine")
        case .page(let reason):
            bad(
                "this is not a directory listing, a playlist or media (\(reason))",
                "Use the URL of one of these. If the server wants a login, use --credentials or --header.")
        }
    }

    /// Judges how the origin serves a file.
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
        let scheme = facts.first.place?.scheme ?? facts.url.scheme
        let isSecure = ["https", "ftps", "ftpes"].contains(scheme)
        let tls = scheme == "sftp" ? "SSH" : isSecure ? "TLS" : "no TLS"
        if let second = facts.second, facts.keepsConnections {
            let way = max(.zero, facts.first.latency - second.latency)
            let what = facts.first.redirects > 0 ? "to connect and be redirected" : "to connect"
            ok("the origin answers: \(shortTime(way)) \(what), \(shortTime(second.latency)) to the first byte, \(tls)")
        } else if facts.second != nil, information.acceptsRanges, facts.url.fileProtocol == nil {
            note(
                "the origin answers: \(shortTime(facts.first.latency)) to the first byte, \(tls); it closes each "
                    + "connection, so every request opens a new connection",
                "Enable keep-alive on the server.")
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

    /// - Parameter source: the source with the credentials; a list's files may be elsewhere, and get none.
    mutating func addSecrets(sentTo source: ResourceURL) {
        if source.scheme == "ftp", !isLoopback(source.host) {
            note("credentials cross the network unencrypted", "Use sftp, ftpes or ftps.")
        }
        if source.scheme == "http", !isLoopback(source.host) {
            note("credentials cross the network unencrypted", "Use https.")
        }
    }

    // MARK: Ranges and versions

    private mutating func addRanges(_ facts: OriginFacts, _ information: ContentInformation) {
        let size = information.length.map { humanSize($0) } ?? "length unknown"
        let type = information.mediaType.map { ", \(shown($0))" } ?? ""
        switch facts.second?.outcome {
        case .failure(let failure):
            bad(
                "a range at the start works, one at the end does not: \(failure.reason)",
                "Players read the end first. Ask the server's administrator, or use another server.")
        case _ where facts.url.fileProtocol != nil: ok("parts of a file can be read; \(size)")
        case _ where information.acceptsRanges:
            ok("ranges work: 206 with exactly the requested bytes; \(size)\(type)")
        default:
            note(
                "no ranges: each request gets 200 with the whole file; \(size)\(type)",
                "It plays from its start; a later part arrives only after all before it. Cached parts seek as usual.")
        }
        if information.length == nil {
            note("the length is not given: programs see it only once the whole file has arrived")
        } else if information.length == 0 {
            note("the file is empty")
        }
    }

    private mutating func addVersion(_ facts: OriginFacts, _ information: ContentInformation) {
        let validator = information.validator
        let again = try? facts.second?.outcome.get()
        if let again, !again.isSameVersion(as: information) {
            return bad(
                "the validator differs in each answer, as if the file changed all the time",
                "Reads would fail with ESTALE, and nothing would stay cached. Behind a load balancer, give all servers "
                    + "the same ETag, or no ETag and the same dates.")
        }
        let times = again == nil ? "" : ", the same twice"
        switch (validator.entityTag, validator.lastModified) {
        case (let tag?, _): ok("validator: a \(tag.isWeak ? "weak" : "strong") ETag\(times)")
        case (nil, _?): ok("validator: Last-Modified\(times)")
        case (nil, nil): note("no validator: a change that keeps the length would not be noticed")
        }
    }

    // MARK: How fast

    /// A film may need this part of the measured rate: rates of films and of lines vary.
    private static let usable = 0.8

    private mutating func addSpeed(_ facts: OriginFacts, _ information: ContentInformation) {
        let good = facts.speeds.filter { $0.failure == nil }
        if let refused = facts.speeds.first(where: { $0.failure != nil }), let failure = refused.failure {
            let what = count(refused.connections, "connection")
            if refused.connections == 1 {
                bad(
                    "cannot measure speed: \(failure.reason)",
                    "Try again; if it fails again, ask the server's administrator.")
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
        addPlaying(best * Self.usable, facts.joinedLength ?? information.length, facts.duration)
    }

    private mutating func addPlaying(_ rate: Double, _ length: Int64?, _ duration: Int64?) {
        let most = bitRate(rate)
        if let length, let duration {
            let needed = Double(length) / Double(duration)
            let film = "\(humanSize(length)) in \(longTime(duration)) need \(bitRate(needed)), \(most) are available"
            if needed <= rate { return ok("it will play: \(film)") }
            return bad(
                "it will stall: \(film)",
                "Fetch it first, with `cat FILE > /dev/null` on the mount; then it plays from the cache.")
        }
        let film = "plays up to \(most): a 2h film of \(humanSize(Int64(rate * 7200)))"
        // Not said of a small file. The length is the origin's, and may be any number.
        let seconds = Int64(min(Double(length ?? 0) / rate, 1e12).rounded(.up))
        ok(seconds < 60 ? film : "\(film); this one if it lasts \(longTime(seconds)) or longer")
    }

    // MARK: No answer

    private mutating func addFailure(_ failure: OriginFailure, _ facts: OriginFacts) {
        let place = facts.first.place ?? facts.url
        let remedy: String
        if let reason = facts.loginFailure {
            return bad(
                reason, "Run the command yourself, as the user who mounts: it must print a token, alone on a line.")
        }
        let meaning = failure.meaning
        switch failure {
        case .status where meaning.read == .accessDenied && facts.isOfMount:
            return note(
                "\(place.origin): \(failure.reason); only the daemon knows the mount's own credentials",
                "To check more, give them here as well, with --credentials or --header.")
        case .status where meaning.read == .accessDenied && place.fileProtocol == .sftp:
            remedy =
                "The server refused user, keys and password: check them (--ssh-key, --credentials). A key with a "
                + "passphrase has to be in ssh's agent (ssh-add)."
        case .status where meaning.read == .accessDenied:
            remedy =
                facts.login != .none
                ? "The origin refused \(facts.login.rawValue): \(facts.login.remedy)"
                : "Put user and password into a file for --credentials, or into ~/.netrc."
        case .status where meaning.isMissing: remedy = "Check the path of the URL; a directory's ends with a slash."
        case .status where meaning.isOverloaded: remedy = "The server is overloaded, or limits requests: try later."
        case .status where meaning.retry != nil && !meaning.isUnwell:
            remedy = "The file is locked, or it is too early: try later; a mount retries for a while."
        case .status where meaning.retry != nil: remedy = "Ask the server's administrator; a mount retries for a while."
        case .status(400, _) where place.scheme.hasSuffix("s") && facts.login != .certificate:
            remedy = "Check the URL; a server that wants a client certificate (--cert) may answer so, too."
        case .status: remedy = "Check the URL; a browser may show what the server wants."
        case .unreachable: remedy = "Check host and port of the URL, the network, and proxies (https_proxy)."
        case .untrusted:
            remedy =
                "Check the clock and the URL's scheme; an authority of your own goes into --cacert, and the certificate "
                + "that a server wants of you into --cert."
        case .hostKey: remedy = "Compare the key with the server's own; its administrator knows it."
        case .timedOut: remedy = "The server, or a firewall on the way, is silent: try another network."
        case .wrongAnswer: remedy = "The server, or a proxy on the way, sends a login page or breaks ranges."
        case .noLogin: remedy = "Run the command, or look into the file, that gives it, as the user who mounts."
        case .interrupted, .changed, .away, .unresolved, .cancelled: remedy = "Try again."
        }
        // Some reasons name the origin themselves.
        let reason = failure.reason.contains(place.origin) ? failure.reason : "\(place.origin): \(failure.reason)"
        bad(reason + (facts.first.redirects > 0 ? ", behind a redirect" : ""), remedy)
    }
}

private func isLoopback(_ host: String) -> Bool {
    host == "localhost" || host == "[::1]" || host.hasPrefix("127.")
}
