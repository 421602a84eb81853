import ReelCore
import ReelThreads

/// Takes the answer to one range request of a file: it keeps no byte before the head was judged.
final class StreamReceiver: OriginReceiver {
    private let file: RemoteFile
    private let id: Ledger.StreamID
    /// The URL as the request left.
    private let url: ResourceURL
    private let range: ByteRange
    private let place = Lock(AnswerPlace.origin)

    init(_ file: RemoteFile, _ id: Ledger.StreamID, _ url: ResourceURL, _ range: ByteRange) {
        self.file = file
        self.id = id
        self.url = url
        self.range = range
    }

    var program: String? { file.program }

    func sent() { file.sent(id) }

    func yields() -> Bool { file.yields(id) }

    func asked(_ place: AnswerPlace) { self.place.withLock { $0 = place } }

    func head(_ head: ResponseHead) -> OriginFailure? {
        switch judge(head, to: url, asked: range, isConditional: false, known: file.information) {
        case .range:
            file.began(id, isWhole: false)
            return nil
        case .whole:
            file.began(id, isWhole: true)
            return nil
        case .unchanged: return .wrongAnswer("304 to a request without a condition")
        case .failure(let failure): return failure
        }
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        file.arrived(id, bytes, from: place.withLock { $0 })
    }

    func ended(_ failure: OriginFailure?) { file.ended(id, failure, of: url) }
}
