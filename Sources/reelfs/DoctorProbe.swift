import ReelCore
import ReelHTTP
import ReelThreads

/// The requests of `reelfs doctor`: through the transport that mounts have, one or some at a time, each with an end.
struct DoctorProbe {
    let origin: CurlOrigin
    /// Of one answer.
    let limit: Duration

    /// What came for one request.
    struct Answer: Sendable {
        var redirects = 0
        var head: ResponseHead?
        var headAt = Duration.zero
        /// Of the body.
        var bytes: Int64 = 0
        var lastByteAt = Duration.zero
        /// The body, where it was asked to be kept.
        var kept: [UInt8] = []
        /// nil, once it has ended: it came as it should, or was not wanted any further.
        var failure: OriginFailure?
        var hasEnded = false
    }

    /// Asks for content information, as a mount does, and returns what it made of the answer.
    /// - Parameter connects: on a connection of its own.
    func inquire(_ url: ResourceURL, _ range: ByteRange?, connects: Bool = false) -> OriginFacts.Probe {
        let request = OriginRequest(
            url: url, range: range, stallLimit: limit, connectLimit: connects ? limit : nil)
        let (answer, latency, verdict) = ask(request)
        // Cancelled is what took too long.
        let failure = answer.failure == .cancelled ? OriginFailure.timedOut : answer.failure
        var probe = OriginFacts.Probe(
            outcome: .failure(failure ?? .interrupted("no answer")), redirects: answer.redirects,
            place: answer.head?.url, latency: latency)
        switch verdict {
        case .range(let information), .whole(let information): probe.outcome = .success(information)
        case .failure(let failure): probe.outcome = .failure(failure)
        case .unchanged, nil: break
        }
        return probe
    }

    private func ask(_ request: OriginRequest) -> (Answer, latency: Duration, HeadVerdict?) {
        let verdict = Monitor<HeadVerdict?>(nil)
        let begin = now()
        let answer = run([request], within: limit) { _, head in
            let found = judge(head, to: request.url, asked: request.range, isConditional: false, known: nil)
            verdict.withLock { $0 = found }
            switch found {
            case .range, .unchanged: return nil
            // Known now; a whole body is not wanted.
            case .whole: return .cancelled
            case .failure(let failure): return failure
            }
        }[0]
        return (answer, max(.zero, answer.headAt - begin), verdict.withLock { $0 })
    }

    /// The whole of a document. - Parameter most: bytes, over which it is none.
    func document(_ url: ResourceURL, most: Int) -> Result<(head: ResponseHead, bytes: [UInt8]), OriginFailure> {
        let request = OriginRequest(url: url, stallLimit: limit)
        let answer = run([request], within: limit, keeping: most) { _, head in
            head.isEncoded ? .wrongAnswer("a content encoding that was not requested") : nil
        }[0]
        if let failure = answer.failure { return .failure(failure == .cancelled ? .timedOut : failure) }
        guard let head = answer.head else { return .failure(.interrupted("no answer")) }
        return .success((head, answer.kept))
    }

    /// Reads `ranges` at once, a connection each, for at most `time`.
    /// - Parameters:
    ///   - ranges: one nil for a body that comes whole or not at all.
    ///   - most: of such a body, in bytes.
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
        // From the first head on: connecting is told apart. A cut at the end of the time is no failure.
        let heads = answers.filter { $0.head != nil }.map(\.headAt)
        speed.received = answers.reduce(0) { $0 + $1.bytes }
        speed.failure = answers.compactMap(\.failure).first { $0 != .cancelled }
        if speed.failure == nil, speed.received == 0 { speed.failure = .timedOut }
        let end = answers.contains { $0.failure == .cancelled } ? now() : answers.map(\.lastByteAt).max() ?? now()
        speed.elapsed = max(.milliseconds(1), end - (heads.min() ?? end))
        speed.bytes = Double(speed.received) / speed.elapsed.seconds
        return speed
    }

    /// Starts all, waits for their ends, and ends what is left after `time`.
    private func run(
        _ requests: [OriginRequest], within time: Duration, most: Int64 = .max, keeping: Int = 0,
        head: @escaping @Sendable (Int, ResponseHead) -> OriginFailure?
    ) -> [Answer] {
        let answers = Monitor([Answer](repeating: Answer(), count: requests.count))
        let receivers = requests.indices.map { index in
            Receiver(answers, index, most: most, keeping: keeping, head)
        }
        let ids = zip(requests, receivers).map { origin.start($0, $1) }
        let ended = { (answers: inout [Answer]) -> [Answer]? in answers.allSatisfy(\.hasEnded) ? answers : nil }
        if let result = answers.wait(atMost: time, ended) { return result }
        for id in ids { origin.cancel(id) }
        return answers.wait(ended)
    }
}

private final class Receiver: OriginReceiver {
    private let answers: Monitor<[DoctorProbe.Answer]>
    private let index: Int
    private let most: Int64
    private let keeping: Int
    private let judge: @Sendable (Int, ResponseHead) -> OriginFailure?

    /// - Parameters:
    ///   - most: bytes, after which it has seen enough.
    ///   - keeping: bytes of the body that are kept; more are a failure. 0: none is.
    init(
        _ answers: Monitor<[DoctorProbe.Answer]>, _ index: Int, most: Int64, keeping: Int,
        _ judge: @escaping @Sendable (Int, ResponseHead) -> OriginFailure?
    ) {
        self.answers = answers
        self.index = index
        self.most = most
        self.keeping = keeping
        self.judge = judge
    }

    func redirected() { answers.withLock { $0[index].redirects += 1 } }

    func head(_ head: ResponseHead) -> OriginFailure? {
        answers.withLock { answers in
            answers[index].head = head
            answers[index].headAt = now()
        }
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
            // What was seen enough of has not failed.
            let isEnough = answers[index].bytes >= most
            if answers[index].failure == nil, !isEnough { answers[index].failure = failure }
            answers[index].hasEnded = true
        }
    }
}
