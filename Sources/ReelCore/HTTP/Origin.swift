/// How many connections the transport has at once: a process may mostly have 1024 files open.
package enum ConnectionLimit {
    /// From this many on an origin that has one gets no more, and an origin that has none gets one, up to `most`.
    package static let usual = 256
    package static let most = usual * 3 / 2
}

/// One attempt to fetch bytes of a resource. The transport never retries it: the ledger, which knows the waiting reads,
/// decides that.
package struct OriginRequest: Sendable {
    /// Must hold for the answer to be of use (RFC 9110, section 13).
    package enum Condition: Hashable, Sendable {
        /// `If-Range` with a strong entity tag or an HTTP date.
        case ifRange(String)
        /// `If-None-Match` and, where there is a date, `If-Modified-Since`: 304 says "unchanged".
        case ifChanged(entityTag: String?, lastModified: String?)
    }

    /// What a request is made for.
    package enum Reason: String, Codable, Sendable {
        /// A read waits for the bytes, or an open.
        case demand
        /// Bytes in front of a reader.
        case ahead
        /// The first bytes of a file that is not known yet.
        case head
        /// The end of a media file, where players look after its beginning.
        case tail
        /// The index of a media file, if its first bytes say where it is.
        case index
        /// The next item of a queue.
        case nextItem = "next item"
        /// A command wants the whole file.
        case prefetch
        /// A second try beside a request that is silent.
        case hedge
        /// Another attempt after a failure.
        case retry
        /// Length and version of a file.
        case probe
        /// A folder, or a list.
        case listing
    }

    /// Its credentials go to its origin alone.
    package var url: ResourceURL
    /// The listed URL of the file or folder that it is made for, where `url` is another: a signed link, or a piece.
    package var subject: ResourceURL?
    /// What the resource is known by in the cache, and of the mirrors: `url` before the source has signed it.
    package let resource: ResourceURL
    /// The method as it stands in the request's first line.
    package var method = "GET"
    /// Sent to the origin of `url` alone, as they may hold secrets. A redirect elsewhere is followed without them, and
    /// by GET and HEAD alone: headers may decide what another method does (`Depth`).
    package var headers: [(name: String, value: String)] = []
    /// True if headers and body hold no secrets: a redirect to another origin is followed with both, by any method.
    /// Credentials, and the headers that the user gave, are not sent there all the same.
    package var isPublic = false
    /// Sent with the request; empty: none.
    package var body: [UInt8] = []
    /// Sent by PUT in place of `body`, nil if none.
    package var upload: (any UploadBody)?
    /// Set for a request of S3's interface.
    package var signed: SignedTarget?
    /// When the signature in the URL ends, in seconds since 1970, nil if it does not end, or does not say.
    package var expires: Int64?
    /// The statuses of answers that the receiver takes; all others are failures, or redirects.
    package var accepted: Set<Int> = [200, 206, 304]
    /// Sent as `Range: bytes=lower-(upper-1)`; nil asks for the whole resource.
    package var range: ByteRange?
    /// nil if the answer is of use in any case.
    package var condition: Condition?
    /// The version that the answer has to be of, nil for what is remembered of the resource.
    package var version: ContentInformation?
    /// A range of a resource that becomes longer, and has another version with each byte: what is remembered of it says
    /// nothing, and no other place can be compared with it.
    package var isGrowing = false
    /// The same as the cache keeps it, for a request for a range of its bytes: other mounts may have shared them. nil
    /// for all other requests.
    package var stored: Version?
    /// Only the head is of use: a file server is asked for no bytes. A web server is, as many send a length only with
    /// them.
    package var isHeadEnough = false
    /// A second try beside a body that comes too slowly: of the place that sends it nothing more is asked, as the first
    /// byte of a second body would end the first.
    package var isBesideSlow = false
    /// Demanded bytes go before speculative ones when the connections to a host are all in use.
    package var isDemanded: Bool
    package var reason: Reason
    /// The request ends with `.timedOut` when no byte arrived for this long, unless it pauses.
    package var stallLimit: Duration
    /// The same once it is sent, where another place may be asked instead; nil if there is none. As long as it is kept
    /// back, for a token or for others on the line, the place is not silent.
    package var silenceLimit: Duration?
    /// A limit of its own, beside that of the mount, nil if none.
    package var limit: RateLimit?
    /// Set for a probe: it goes out at once, beside all others, on a connection of its own, which takes no longer than
    /// this (name lookup, TCP and TLS). An old connection would only show when TCP next tries, not whether the origin
    /// is there.
    package var connectLimit: Duration?

    /// A GET without headers of its own.
    package init(
        url: ResourceURL, range: ByteRange? = nil, condition: Condition? = nil, isDemanded: Bool = true,
        reason: Reason = .demand, stallLimit: Duration = .seconds(30), connectLimit: Duration? = nil
    ) {
        self.url = url
        resource = url
        self.range = range
        self.condition = condition
        self.isDemanded = isDemanded
        self.reason = reason
        self.stallLimit = stallLimit
        self.connectLimit = connectLimit
    }

    /// The silence after which it ends, once it is sent.
    package var longestSilence: Duration { min(stallLimit, silenceLimit ?? stallLimit) }

    /// A read waits for it from now on. A command's own limit was meant for what nobody waits for.
    package mutating func promote() {
        isDemanded = true
        limit = nil
    }

    /// Whether it only reads a resource, so that a redirect that it learns holds for the next request as well.
    package var isReading: Bool { method == "GET" || method == "HEAD" }
}

/// The state of an origin that does not simply answer (`Circuit`).
package enum OriginStanding: Hashable, Sendable {
    /// It has been silent for a while: requests still go out.
    case doubtful
    /// Requests are refused. - Parameter since: seconds since 1970.
    case away(Outage, since: Int64)
}

/// Answers requests: the transport, or a layer in front of it, which answers a request itself or hands it on to the
/// layer below.
package protocol Origin: AnyObject, Sendable {
    /// Starts a request, under a handle by which it is cancelled, promoted and resumed. Callable from any thread; never
    /// blocks and never calls the receiver before it returns.
    /// - Parameter handle: a new one, or that of a request that has ended, which goes on as this one.
    func start(_ handle: RequestHandle, _ request: OriginRequest, _ receiver: any OriginReceiver)
}

/// The lowest layer: sends requests, and hands the answers to receivers. The program has one, over libcurl.
package protocol Transport: Origin {
    /// Does a short job on the thread that calls the receivers, after what was asked before; not at all once the origin
    /// is shut down. Never blocks.
    func perform(_ job: @escaping @Sendable () -> Void)

    /// What all transports of a mount share.
    var line: Line { get }

    /// From the next request on, these origins (`ResourceURL.origin`) may get the user's secrets, too. Never blocks.
    func trust(_ origins: Set<String>)

    /// From the next request on, each scheme, host and port has a `Circuit`: requests to one that is away end with
    /// `.away`, those under way too, and probes look for its return. Called once, before the first request.
    /// - Parameters:
    ///   - deadline: of a read: silence for so long is an outage.
    ///   - report: called on the receivers' thread when an origin (`ResourceURL.origin`) is away, or back (nil).
    func watchOutages(deadline: Duration, _ report: @escaping @Sendable (String, Outage?) -> Void)

    /// Origins that are away or in doubt, by `ResourceURL.origin`; all others are taken to answer.
    var standings: [String: OriginStanding] { get }

    /// A file of the origin is wanted: probes go on looking for its return.
    func noteInterest(in url: ResourceURL)
}

extension Origin {
    /// Starts a request under a new handle. - Returns: that handle.
    @discardableResult
    package func start(_ request: OriginRequest, _ receiver: any OriginReceiver) -> RequestHandle {
        let handle = RequestHandle()
        start(handle, request, receiver)
        return handle
    }
}

extension Transport {
    /// Before a question that can be answered from memory as well: false while the origin is away, or in doubt.
    package func isWorthAsking(_ url: ResourceURL) -> Bool {
        if line.isOffline { return false }
        let isWorth = standings[url.origin] == nil
        if !isWorth { noteInterest(in: url) }
        return isWorth
    }

    /// How the origin of `url` is away, nil if requests to it go out.
    package func outage(of url: ResourceURL) -> Outage? {
        if line.isOffline { return .offline }
        return if case .away(let outage, _) = standings[url.origin] { outage } else { nil }
    }

    /// Origins that are away, and since when (seconds since 1970), by name.
    package var outages: [(origin: String, outage: Outage, since: Int64)] {
        standings.compactMap { origin, standing in
            if case .away(let outage, let since) = standing { (origin, outage, since) } else { nil }
        }.sorted { $0.0 < $1.0 }
    }
}

/// Takes the answer to one request. All calls come from the origin's one thread, in order: `head` at most once (for the
/// final answer: redirects are only reported to `redirected`, 1xx are not shown), then `body` any number of times, then
/// `ended` exactly once. None may block on the network.
package protocol OriginReceiver: AnyObject, Sendable {
    /// The request leaves: a connection was free for it. Called again where it is sent to another place.
    func sent()

    /// A demanded request finds all connections to the origin busy, or too many requests pause, or a program begins to
    /// wait beside a command's request. - Returns: true if no reader waits for the rest of this one: it then ends with
    /// `.cancelled`.
    func yields() -> Bool

    /// The name is known, and a connection of the request's own is tried. Called again for each address and place.
    func connecting()

    /// The origin answered and sent the request to another place, which is asked now.
    func redirected()

    /// The head and the bytes that follow come from there.
    func asked(_ place: AnswerPlace)

    /// The status line and the headers. A failure returned here ends the request with it, before any byte of the body.
    func head(_ head: ResponseHead) -> OriginFailure?

    /// The next bytes of the body, valid during the call. Gathered to some hundred KiB where they come fast, handed on
    /// at once where they come slowly.
    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer

    /// The name of the program that the request is for, as far as it is known; asked for when it has ended.
    var program: String? { get }

    /// Nothing follows. nil if the body came whole, as long as the head had announced.
    func ended(_ failure: OriginFailure?)
}

extension OriginReceiver {
    /// It is not known.
    package var program: String? { nil }
    /// Does nothing.
    package func sent() {}
    /// A reader waits for each request, unless its receiver knows better.
    package func yields() -> Bool { false }
    /// Does nothing.
    package func connecting() {}
    /// Does nothing.
    package func redirected() {}
    /// Does nothing.
    package func asked(_ place: AnswerPlace) {}
}

/// Where an answer comes from.
package enum AnswerPlace: String, Sendable {
    case origin, mirror
    /// The bucket that the mounts of a fleet share.
    case tier
}

/// The body of a request, made while it is sent. One thread at a time reads it, in order; from its start again where
/// the request is sent again.
package protocol UploadBody: AnyObject, Sendable {
    /// In bytes.
    var length: Int64 { get }
    /// Copies the bytes at `offset`. - Returns: how many, at least one, nil if they cannot be had, and the request ends
    /// with `.cancelled`.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int?
}

/// What the transport does after it handed over bytes of a body.
package enum BodyAnswer: Sendable {
    /// These bytes were taken; more are wanted.
    case more
    /// These bytes were taken; no more of them until `RequestHandle.resume`.
    case pause
    /// These bytes were taken; the request ends now with `.cancelled`.
    case stop
}
