import ReelCore

/// How much of one answer has come, and how much of it may come.
struct AnswerProgress {
    var collector = HeaderCollector()
    /// Used for a file server.
    var file = FileAnswer()
    /// The verdict that was reached before curl is done with the answer, nil if none yet.
    var verdict: Transfer.Verdict?
    /// Whether the receiver has taken the head.
    private(set) var isAccepted = false
    /// When the transport stops reading the useless body of an error or a redirect, nil if the body is wanted.
    private(set) var drainEnd: ContinuousClock.Instant?
    private(set) var received: Int64 = 0
    /// The start of a useless body.
    private var refusal: [UInt8] = []
    /// Bytes behind the head, as they came: the body, and what frames it.
    private var raw: Int64 = 0
    /// Bytes that a 206 may hold, and bytes that its Content-Range announces.
    private var limit = Int64.max
    private var announced: Int64?

    /// The transport reads so much of a useless body, for so long, to use its connection again.
    private static let drainLimit: Int64 = 64 << 10
    private static let drainTime = Duration.milliseconds(300)
    /// Bytes of a refusal to look at: those of S3 services have some hundred.
    private static let refusalLimit = 4 << 10
    /// Bytes behind a head that may be no body (chunk sizes and their extensions, trailers): as many as a head has, and
    /// what chunks of one byte need. More than the 100 KiB that curl reads before it hands any of them on.
    private static let framingLimit: Int64 = 256 << 10
    private static let framingShare: Int64 = 8

    /// The receiver has taken the head. - Parameter range: the range that was asked for, nil for all.
    mutating func accept(_ head: ResponseHead, asked range: ByteRange?) {
        isAccepted = true
        guard head.status == 206, let range else { return }
        limit = range.count
        announced = head.contentRange?.range?.count
    }

    /// Ends the request with `verdict` once its body has come or has taken `drainTime`.
    mutating func drain(_ verdict: Transfer.Verdict) {
        self.verdict = verdict
        drainEnd = ContinuousClock.now + Self.drainTime
    }

    /// Ends the request at once.
    mutating func cut(_ failure: OriginFailure) {
        verdict = .failed(failure)
        drainEnd = ContinuousClock.now
    }

    // MARK: The body

    /// The bytes of a piece of an accepted body that belong to the range that was asked for.
    func wanted(of count: Int) -> Int { Int(min(Int64(count), limit - received)) }

    mutating func take(_ count: Int) { received += Int64(count) }

    /// Whether all bytes came that may come.
    var isFull: Bool { received >= limit }

    /// Takes a piece of a useless body. - Returns: whether the transport reads more of it.
    mutating func drain(_ bytes: UnsafeRawBufferPointer) -> Bool {
        received += Int64(bytes.count)
        if [301, 400, 401, 403].contains(collector.status) {
            refusal += bytes.prefix(Self.refusalLimit - refusal.count)
        }
        return received <= Self.drainLimit
    }

    /// The text of an element in the refusal of an S3 service (`<Region>eu-west-1</Region>`), nil if it has none.
    func refused(_ element: String) -> String? {
        let tag = Array("<\(element)>".utf8)
        let start = refusal.indices.first { refusal[$0...].starts(with: tag) }
        return start.map { String(decoding: refusal[($0 + tag.count)...].prefix { $0 != 0x3C }, as: UTF8.self) }
    }

    /// Takes bytes behind the head, before curl takes the body out of them.
    /// - Returns: false where too many of them are no body.
    mutating func takeRaw(_ count: Int) -> Bool {
        raw += Int64(count)
        return raw - received <= Self.framingLimit + Self.framingShare * received
    }

    /// Whether all bytes came that the head announced; false where it announced none.
    var isWhole: Bool { announced.map { received >= $0 } ?? false }

    /// Whether fewer bytes came than the head announced.
    var isShort: Bool { announced.map { received < $0 } ?? false }
}
