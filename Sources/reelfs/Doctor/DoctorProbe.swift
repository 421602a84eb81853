import ReelCore
import ReelHTTP
import ReelSources
import ReelThreads

/// The requests of `reelfs doctor`, through the transport of mounts. Each ends within a limit.
struct DoctorProbe {
    let origin: CurlOrigin
    /// The most time for one answer.
    let limit: Duration
    /// Changes each request before it leaves, nil if no source is known yet.
    var source: (any Source)?

    /// The answer to one request, as far as it has come.
    fileprivate struct Answer: Sendable {
        var redirects = 0
        var head: ResponseHead?
        var headAt = Duration.zero
        /// The bytes of the body.
        var bytes: Int64 = 0
        var lastByteAt = Duration.zero
        /// The body, if it is to be kept.
        var kept: [UInt8] = []
        /// nil once it has ended: it came in full, or was stopped on purpose.
        var failure: OriginFailure?
        var hasEnded = false
    }

    /// Asks for content information, and judges the answer as a mount does.
    /// - Parameter connects: on a connection of its own.
    func inquire(_ url: ResourceURL, _ range: ByteRange?, connects: Bool = false) -> OriginFacts.Probe {
        let request = OriginRequest(url: url, range: range, stallLimit: limit, connectLimit: connects ? limit : nil)
        let verdict = Monitor<HeadVerdict?>(nil)
        let begin = now()
        let answer = run([request], within: limit) { _, head in
            let found = judge(head, to: url, asked: range, isConditional: false, known: nil)
            verdict.withLock { $0 = found }
            switch found {
            case .range, .unchanged: return nil
            // Known now; a whole body is not wanted.
            case .whole: return .cancelled
            case .failure(let failure): return failure
            }
        }[0]
        var probe = OriginFacts.Probe(
            outcome: .failure(answer.reason ?? .interrupted("no answer")), redirects: answer.redirects,
            place: answer.head?.url, latency: max(.zero, answer.headAt - begin))
        switch verdict.withLock({ $0 }) {
        case .range(let information), .whole(let information): probe.outcome = .success(information)
        case .failure(let failure): probe.outcome = .failure(failure)
        case .unchanged, nil: break
        }
        return probe
    }

    /// Fetches a whole document. - Parameter most: bytes; a longer one is a failure.
    func document(_ request: OriginRequest, most: Int) -> Result<(head: ResponseHead, bytes: [UInt8]), OriginFailure> {
        var request = request
        request.stallLimit = limit
        let answer = run([request], within: limit, keeping: most) { _, head in
            head.isEncoded ? .wrongAnswer("a content encoding that was not requested") : nil
        }[0]
        guard let head = answer.head, answer.failure == nil else {
            return .failure(answer.reason ?? .interrupted("no answer"))
        }
        return .success((head, answer.kept))
    }

    /// Fetches the beginning of a body. - Parameter most: bytes, after which it is stopped.
    func start(
        of request: OriginRequest, most: Int64
    ) -> Result<(head: ResponseHead, bytes: [UInt8]), OriginFailure> {
        var request = request
        request.stallLimit = limit
        let answer = run([request], within: limit, most: most, keeping: .max) { _, head in
            head.isEncoded ? .wrongAnswer("a content encoding that was not requested") : nil
        }[0]
        guard let head = answer.head, answer.failure == nil else {
            return .failure(answer.reason ?? .interrupted("no answer"))
        }
        return .success((head, Array(answer.kept.prefix(Int(most)))))
    }

    /// Reads `ranges` at once, a connection each, for at most `time`.
    /// - Parameters:
    ///   - ranges: a single nil: the whole body.
    ///   - most: bytes of a whole body to read.
    func speed(
        _ url: ResourceURL, _ ranges: [ByteRange?], _ known: ContentInformation, within time: Duration, most: Int64
    ) -> OriginFacts.Speed {
        let condition = known.validator.ifRange.map { OriginRequest.Condition.ifRange($0) }
        let requests = ranges.map { range in
            OriginRequest(url: url, range: range, condition: range == nil ? nil : condition, stallLimit: limit)
        }
        // A range ends by itself, and leaves its connection for the next ones.
        let most = ranges.contains(nil) ? most : .max
        let answers = run(requests, within: time, most: most) { index, head in
            let asked = requests[index].range
            switch judge(head, to: url, asked: asked, isConditional: false, known: known) {
            case .range: return nil
            case .whole: return asked == nil ? nil : .wrongAnswer("200 where a range was asked for")
            case .unchanged: return .wrongAnswer("304 to a request without a condition")
            case .failure(let failure): return failure
            }
        }
        var speed = OriginFacts.Speed(connections: requests.count)
        // From the first head on, as connecting is reported separately. The end of the time is not a failure.
        let heads = answers.filter { $0.head != nil }.map(\.headAt)
        speed.received = answers.reduce(0) { $0 + $1.bytes }
        speed.failure = answers.compactMap(\.failure).first { $0 != .cancelled }
        if speed.failure == nil, speed.received == 0 { speed.failure = .timedOut }
        let end = answers.contains { $0.failure == .cancelled } ? now() : answers.map(\.lastByteAt).max() ?? now()
        speed.elapsed = max(.milliseconds(1), end - (heads.min() ?? end))
        speed.bytes = Double(speed.received) / speed.elapsed.seconds
        return speed
    }

    /// Starts all requests, waits for their ends, and cancels those that are left after `time`.
    /// - Parameters:
    ///   - most: bytes of a body, after which it is stopped.
    ///   - keeping: bytes of a body to keep; more are a failure. 0: the body is not kept.
    private func run(
        _ requests: [OriginRequest], within time: Duration, most: Int64 = .max, keeping: Int = 0,
        judge: @escaping @Sendable (Int, ResponseHead) -> OriginFailure?
    ) -> [Answer] {
        let answers = Monitor([Answer](repeating: Answer(), count: requests.count))
        let ids = requests.indices.map { index in
            let receiver = Receiver(answers: answers, index: index, most: most, keeping: keeping, judge: judge)
            return origin.start(source?.request(requests[index]) ?? requests[index], receiver)
        }
        let ended = { (answers: inout [Answer]) -> [Answer]? in answers.allSatisfy(\.hasEnded) ? answers : nil }
        if let result = answers.wait(atMost: time, ended) { return result }
        for id in ids { id.cancel() }
        return answers.wait(ended)
    }
}

extension DoctorProbe.Answer {
    /// The failure of one request: it is cancelled only if it takes too long.
    fileprivate var reason: OriginFailure? { failure == .cancelled ? .timedOut : failure }
}

/// Collects the answer to one request.
private final class Receiver: OriginReceiver {
    private let answers: Monitor<[DoctorProbe.Answer]>
    private let index: Int
    private let most: Int64
    private let keeping: Int
    private let judge: @Sendable (Int, ResponseHead) -> OriginFailure?

    init(
        answers: Monitor<[DoctorProbe.Answer]>, index: Int, most: Int64, keeping: Int,
        judge: @escaping @Sendable (Int, ResponseHead) -> OriginFailure?
    ) {
        self.answers = answers
        self.index = index
        self.most = most
        self.keeping = keeping
        self.judge = judge
    }

    func redirected() { answers.withLock { $0[index].redirects += 1 } }

    func head(_ head: ResponseHead) -> OriginFailure? {
        answers.withLock { ($0[index].head, $0[index].headAt) = (head, now()) }
        return judge(index, head)
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        answers.withLock(notifying: false) { answers in
            answers[index].bytes += Int64(bytes.count)
            answers[index].lastByteAt = now()
            if keeping > 0 {
                answers[index].kept += bytes
                if answers[index].bytes > keeping {
                    answers[index].failure = .wrongAnswer("a document of more than \(keeping >> 20) MiB")
                    return .stop
                }
            }
            return answers[index].bytes >= most ? .stop : .more
        }
    }

    func ended(_ failure: OriginFailure?) {
        answers.withLock { answers in
            // A body that was stopped because enough had come has not failed.
            if answers[index].failure == nil, answers[index].bytes < most { answers[index].failure = failure }
            answers[index].hasEnded = true
        }
    }
}
