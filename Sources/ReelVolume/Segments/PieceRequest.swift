import ReelCore
import ReelSources
import ReelThreads

/// Asks for a range of one piece, and hands its bytes on, deciphered.
///
/// Its receiver gets the head once it was judged, exactly the bytes of the range, and an end without a failure where
/// all of them came.
final class PieceRequest: ForwardingReceiver {
    private struct State {
        /// Positions in the body as it comes: bytes before those that are wanted, and those.
        var before: Int64 = 0
        var left: Int64
        /// Positions in the deciphered bytes, likewise.
        var plainBefore: Int64 = 0
        var plainLeft: Int64
        var isWhole = false
    }

    /// To be sent.
    let request: OriginRequest
    private let cipher: PieceCipher?
    let receiver: any OriginReceiver
    private let state: Lock<State>

    /// nil for a key that is none.
    /// - Parameters:
    ///   - resource: what is known of the resource; the answer has to agree. nil where it grows.
    ///   - range: of the piece's bytes, deciphered.
    ///   - key: where the piece has a cipher.
    ///   - file: the joined file's URL.
    init?(
        _ piece: PieceList.Piece, of resource: ContentInformation?, _ range: ByteRange, key: [UInt8]?,
        isDemanded: Bool, reason: OriginRequest.Reason, of file: ResourceURL, stallLimit: Duration,
        limit: RateLimit? = nil, to receiver: any OriginReceiver
    ) {
        var (asked, plainBefore) = (range, Int64(0))
        var cipher: PieceCipher?
        if let given = piece.cipher {
            guard let made = key.flatMap({ PieceCipher(key: $0, given.initialVector) }) else { return nil }
            cipher = made
            // Each block needs the one before it. The first block that comes is deciphered with a wrong vector, unless
            // it is the piece's first, and is left out.
            let block = PieceCipher.block
            let first = max(0, range.lower / block - 1) * block
            asked = ByteRange(first, (range.upper + block - 1) / block * block)
            plainBefore = range.lower - first
        }
        let base = piece.range?.lower ?? 0
        asked = ByteRange(base + asked.lower, base + asked.upper)
        var request = OriginRequest(
            url: piece.url, range: asked, condition: resource?.validator.ifRange.map { .ifRange($0) },
            isDemanded: isDemanded, reason: reason, stallLimit: stallLimit)
        (request.limit, request.subject, request.version) = (limit, file, resource)
        request.isGrowing = resource == nil
        self.request = request
        self.cipher = cipher
        self.receiver = receiver
        state = Lock(State(left: asked.count, plainBefore: plainBefore, plainLeft: range.count))
    }

    func head(_ head: ResponseHead) -> OriginFailure? {
        switch judge(head, to: request.url, asked: request.range, isConditional: false, known: request.version) {
        case .range: break
        case .whole:
            // A server without ranges sends all of the piece, which is as long as a few seconds of film.
            state.withLock { ($0.before, $0.isWhole) = (request.range?.lower ?? 0, true) }
        case .unchanged: return .wrongAnswer("304 to a request without a condition")
        case .failure(let failure): return failure
        }
        return receiver.head(head)
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        let raw = UnsafeRawBufferPointer(
            rebasing: bytes[state.withLock { Self.part(bytes.count, &$0.before, &$0.left) }])
        var answer = BodyAnswer.more
        if !raw.isEmpty {
            if let cipher {
                guard let plain = cipher.deciphered(raw) else { return .stop }
                answer = plain.withUnsafeBytes { hand($0) }
            } else {
                answer = hand(raw)
            }
        }
        // The rest of a whole resource is not wanted, nor is what comes behind the range.
        return state.withLock { $0.left == 0 && ($0.isWhole || raw.count < bytes.count) } ? .stop : answer
    }

    private func hand(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        let part = state.withLock { Self.part(bytes.count, &$0.plainBefore, &$0.plainLeft) }
        return part.isEmpty ? .more : receiver.body(UnsafeRawBufferPointer(rebasing: bytes[part]))
    }

    /// Which of the next bytes are wanted.
    private static func part(_ count: Int, _ before: inout Int64, _ left: inout Int64) -> Range<Int> {
        let skipped = Int(min(before, Int64(count)))
        let wanted = Int(min(left, Int64(count - skipped)))
        before -= Int64(skipped)
        left -= Int64(wanted)
        return skipped..<(skipped + wanted)
    }

    func ended(_ failure: OriginFailure?) {
        let isThere = state.withLock { $0.plainLeft == 0 }
        receiver.ended(isThere ? nil : failure ?? .interrupted("a segment ended before its end"))
    }
}
