import ReelCache
import ReelCore
import ReelThreads

/// One request to the tier for blocks of a slice. It hands on a block once its seal has proven it, and no byte before.
///
/// What it hands on goes to the thread that calls all receivers of a mount.
///
/// `@unchecked Sendable`: the variables belong to the thread of the tier's transport, once `begin` has returned.
final class SliceRead: OriginReceiver, @unchecked Sendable {
    enum End: Sendable {
        /// All blocks were handed on.
        case whole
        /// The tier does not have the slice.
        case missing
        /// The object is not what it should be.
        case damaged
        case failed(OriginFailure)
    }

    private struct Flow {
        /// Blocks that were handed on and not taken yet.
        var underWay = 0
        var isPaused = false
    }

    /// Blocks on their way to the reader.
    private static let mostUnderWay = 4

    let handle: RequestHandle
    let slice: TierSlice
    private let blocks: Range<Int>
    private let owner: TierRequest
    private let tier: Tier
    private let flow = Lock(Flow())
    private let start = now()
    private let startedAt = wallClock()
    /// The next block, and what came of it.
    private var block: Int
    private var record: [UInt8] = []
    private var filled = 0
    private var isDamaged = false
    private var isSent = false
    private var status: Int?
    private var bytes: Int64 = 0

    init(
        _ slice: TierSlice, _ wanted: ByteRange, as handle: RequestHandle, for owner: TierRequest, _ tier: Tier
    ) {
        (self.slice, self.handle, self.owner, self.tier) = (slice, handle, owner, tier)
        blocks = slice.blocks(touching: wanted)
        block = blocks.lowerBound
    }

    /// Asks the tier. - Parameter request: the one that it is a part of.
    func begin(_ request: OriginRequest, isDemanded: Bool) {
        guard let url = tier.place.root.child(Array(slice.name.utf8), query: nil) else {
            return tier.upstream.transport.perform { [self] in owner.ended(self, .missing) }
        }
        // Nobody waits for bytes ahead: a line that is in use makes them late.
        let silence = isDemanded ? tier.place.patience : tier.place.patience * 5
        var own = OriginRequest(
            url: url, range: asked, isDemanded: isDemanded, reason: request.reason,
            stallLimit: min(silence, request.stallLimit))
        own.accepted = [200, 206]
        own.limit = request.limit
        tier.origin.start(handle, tier.place.source.request(own), self)
    }

    private var asked: ByteRange { slice.objectRange(of: blocks) }

    // MARK: The answer

    func sent() {
        isSent = true
        tier.upstream.transport.perform { [self] in owner.sent(self) }
    }

    func head(_ head: ResponseHead) -> OriginFailure? {
        let length = slice.objectLength
        let isRange = head.contentRange == ContentRange(range: asked, total: length)
        let isWhole = head.status == 200 && head.contentRange == nil && head.contentLength == length
        let isRight = !head.isEncoded && (isRange || isWhole && asked == ByteRange(0, length))
        (status, isDamaged) = (head.status, !isRight)
        tier.answers(owner.handle)
        return isRight ? nil : .wrongAnswer("an object of another length")
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        var rest = bytes[...]
        while !rest.isEmpty {
            // More than was asked for is no answer either.
            guard block < blocks.upperBound, take(&rest) else {
                isDamaged = true
                return .stop
            }
        }
        return flow.withLock { flow in
            flow.isPaused = flow.underWay >= Self.mostUnderWay
            return flow.isPaused ? .pause : .more
        }
    }

    /// Takes bytes up to the end of a block, and hands the block on where it is whole. - Returns: false where it is not
    /// the one that was sealed.
    private func take(_ rest: inout Slice<UnsafeRawBufferPointer>) -> Bool {
        if filled == 0 { record = slice.emptyRecord(of: block) }
        let piece = rest.prefix(record.count - filled)
        record.withUnsafeMutableBytes {
            UnsafeMutableRawBufferPointer(rebasing: $0[filled...]).copyMemory(
                from: UnsafeRawBufferPointer(rebasing: piece))
        }
        rest = rest.dropFirst(piece.count)
        (filled, bytes) = (filled + piece.count, bytes + Int64(piece.count))
        guard filled == record.count else { return true }
        guard slice.open(&record, block: block) else { return false }
        let (whole, place) = (record, slice.bytes(of: block))
        (record, filled, block) = ([], 0, block + 1)
        flow.withLock { $0.underWay += 1 }
        tier.upstream.transport.perform { [self] in owner.took(whole, at: place, self) }
        return true
    }

    /// The reader has taken a block.
    func taken() {
        let isWaiting = flow.withLock { flow in
            flow.underWay -= 1
            defer { flow.isPaused = false }
            return flow.isPaused
        }
        if isWaiting { handle.resume() }
    }

    func ended(_ failure: OriginFailure?) {
        let end: End
        switch failure {
        case _ where isDamaged: end = .damaged
        case nil: end = block == blocks.upperBound ? .whole : .damaged
        case let failure? where failure.meaning.isMissing: end = .missing
        // Some servers answer so while they write the object.
        case .status(500, _)? where tier.isAlive: end = .missing
        case let failure?: end = .failed(failure)
        }
        tell(failure)
        switch (end, failure) {
        case (.damaged, _): tier.found(damaged: slice)
        case (.missing, .status(500, _)?): break
        case (.whole, _), (.missing, _): tier.answered(asked: start)
        case (.failed(.cancelled), _), (.failed(.away), _): break
        // It waited for its turn on the line.
        case (.failed(.timedOut), _) where !isSent: break
        case (.failed(let failure), _): tier.avoid(failure.reasonOfBucket)
        }
        tier.upstream.transport.perform { [self] in owner.ended(self, end) }
    }

    private func tell(_ failure: OriginFailure?) {
        var told = status
        if told == nil, case .status(let number, _)? = failure { told = number }
        tier.upstream.origins.ended(tier.place.root.origin, isUnwell: failure?.meaning.isUnwell ?? false)
        // One that waits for another mount's slice asks again and again.
        if failure?.meaning.isMissing == true { return }
        tier.upstream.requests.add(
            RequestRecord(
                when: dateText(startedAt), file: owner.url.description, range: [asked.lower, asked.upper - 1],
                why: owner.reason.rawValue, program: owner.program, from: AnswerPlace.tier.rawValue,
                host: tier.place.root.origin, status: told, bytes: bytes,
                milliseconds: Int64((now() - start) / .milliseconds(1)),
                failure: failure == .cancelled ? nil : failure?.reason),
            of: owner.url)
    }
}
