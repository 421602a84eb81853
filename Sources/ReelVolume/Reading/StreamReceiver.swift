import ReelCore
import ReelThreads

/// Takes the answer to one range request of a file: it keeps no byte before the head was judged.
final class StreamReceiver: OriginReceiver {
    /// An answer of a longer form of a file that may grow: its bytes wait until the cached ones were compared with the
    /// origin's.
    private struct Held: Sendable {
        /// The whole length in its head.
        let total: Int64
        /// What has come: no more than the transport hands over at once, as the request pauses then.
        var bytes: [UInt8] = []
        /// The request is over.
        var end: OriginFailure??
    }

    private struct State: Sendable {
        var place = AnswerPlace.origin
        var held: Held?
        /// Why a held answer was of no use; its request ends with that.
        var refusal: OriginFailure?
    }

    private let file: RemoteFile
    private let id: Ledger.StreamID
    /// The URL as the request left.
    private let url: ResourceURL
    private let range: ByteRange
    /// The version when the request was made. A file that grows is another one by the time of the answer, and a
    /// mirror's is the source's once that was found to have the same bytes; what comes of this one belongs to it.
    let known: ContentInformation
    private let state = Lock(State())

    init(_ file: RemoteFile, _ id: Ledger.StreamID, _ url: ResourceURL, _ range: ByteRange) {
        self.file = file
        self.id = id
        self.url = url
        self.range = range
        known = file.information
    }

    var program: String? { file.program }

    func sent() { file.sent(id) }

    func yields() -> Bool { file.yields(id) }

    func asked(_ place: AnswerPlace) { state.withLock { $0.place = place } }

    func head(_ head: ResponseHead) -> OriginFailure? {
        switch judge(head, to: url, asked: range, isConditional: false, known: known) {
        case .range:
            file.began(id, isWhole: false)
            return nil
        case .whole:
            file.began(id, isWhole: true)
            return nil
        case .unchanged: return .wrongAnswer("304 to a request without a condition")
        case .failure(let failure):
            guard failure == .changed, file.growth != nil,
                case .range(let new) = judge(head, to: url, asked: range, isConditional: false, known: nil),
                known.mayGrow(to: new), let total = new.length
            else { return failure }
            state.withLock { $0.held = Held(total: total) }
            // After the head: what the origin has then is no older than this answer.
            file.compare { [self] verdict in
                file.services.transport.perform { [self] in release(verdict) }
            }
            return nil
        }
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        let (isHeld, isRefused, place) = state.withLock { state in
            state.held?.bytes += bytes
            return (state.held != nil, state.refusal != nil, state.place)
        }
        // The request goes on until it hears of its end.
        if isRefused { return .stop }
        return isHeld ? .pause : file.arrived(id, bytes, from: place)
    }

    func ended(_ failure: OriginFailure?) {
        let (isHeld, refusal) = state.withLock { state in
            state.held?.end = .some(failure)
            return (state.held != nil, state.refusal)
        }
        if !isHeld { file.ended(id, refusal ?? failure, of: url) }
    }

    /// The bytes that were held belong to the file, or do not.
    private func release(_ verdict: GrowthProof.Verdict) {
        let (taken, place) = state.withLock { state in
            defer { state.held = nil }
            return (state.held, state.place)
        }
        guard let held = taken else { return }
        let request = file.ask { $0.request(of: id) }
        var failure: OriginFailure?
        switch verdict {
        case .grown where file.length >= held.total: break
        case .grown, .unknown: failure = .interrupted("the file has grown, and what is known of it was not compared")
        case .differs: failure = .changed
        }
        if let failure {
            file.services.counters.droppedBytes(held.bytes.count)
            state.withLock { $0.refusal = failure }
            if held.end == nil { request?.cancel() } else { ended(failure) }
            return
        }
        file.began(id, isWhole: false)
        var answer = BodyAnswer.more
        if !held.bytes.isEmpty { answer = held.bytes.withUnsafeBytes { file.arrived(id, $0, from: place) } }
        if let end = held.end { return file.ended(id, end, of: url) }
        switch answer {
        case .more: request?.resume()
        case .pause: break
        case .stop: request?.cancel()
        }
    }
}
