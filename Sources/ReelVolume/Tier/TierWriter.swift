import Logging
import ReelCache
import ReelCore
import ReelThreads

/// Writes slices that have come whole from the origin into the tier, in the background, once a fleet. A slice that is
/// not written costs another mount a request to the origin, and nothing else.
final class TierWriter: Sendable {
    fileprivate struct Entry {
        let object: CacheObject
        /// The first byte of the slice.
        let offset: Int64
        var attempt = Attempt.first

        var count: Int64 { min(object.length - offset, TierSlice.size) }
    }

    fileprivate enum Attempt {
        case first
        /// The service had an error of its own (500), after which S3 wants the request made again.
        case afterError
        /// The service refused the request, perhaps for its condition: if this one works, for that.
        case withoutCondition
    }

    private struct State {
        var queue: [Entry] = []
        /// Uploads under way.
        var running: Set<RequestHandle> = []
        /// On the clock of `now()`.
        var pausedUntil = Duration.zero
        /// Why an upload failed; nil once one was taken since.
        var trouble: String?
        /// False where the service knows no conditional PUT.
        var isConditional = true
        var writtenBytes: Int64 = 0
        /// Bytes of slices that were not written, as too many waited, or the service did not take them.
        var leftOutBytes: Int64 = 0
        /// The names of slices whose objects did not hold what they should.
        var damaged: Set<String> = []
        var damagedCount: Int64 = 0
        var isOver = false
    }

    /// Each takes a block of memory, and what curl sends at once.
    private static let mostUploads = 4
    /// Slices that wait: as many bytes as a fast line brings in half a minute. Each keeps its data file open.
    private static let mostWaiting = 4096
    private static let mostFiles = 32
    private static let pause = Duration.seconds(30)
    /// Names of a hundred bytes.
    private static let mostDamaged = 4096

    private let place: TierPlace
    private let origin: any Transport
    private let logger: Logger
    private let state = Lock(State())

    init(_ place: TierPlace, _ origin: any Transport, _ logger: Logger) {
        (self.place, self.origin, self.logger) = (place, origin, logger)
    }

    /// Bytes, and objects.
    var counts: (written: Int64, waiting: Int64, leftOut: Int64, damaged: Int64) {
        state.withLock { state in
            let waiting = Int64(state.queue.count + state.running.count) * TierSlice.size
            return (state.writtenBytes, waiting, state.leftOutBytes, state.damagedCount)
        }
    }

    /// Why it is not written, nil if nothing is known to keep it from being.
    var trouble: String? { state.withLock(\.trouble) }

    /// Bytes came from the origin: writes the slices that have become whole with them.
    func filled(_ range: ByteRange, of object: CacheObject) {
        let length = object.length
        var offset = range.lower / TierSlice.size * TierSlice.size
        while offset < range.upper {
            let slice = ByteRange(offset, min(length, offset + TierSlice.size))
            if object.present.covers(slice) { add(Entry(object: object, offset: offset)) }
            offset += TierSlice.size
        }
        pump()
    }

    private func add(_ entry: Entry) {
        let moment = now()
        state.withLock { state in
            let isKnown = state.queue.last?.object === entry.object
            let files = isKnown ? 0 : Set(state.queue.map { ObjectIdentifier($0.object) }).count
            guard !state.isOver, state.pausedUntil <= moment, state.queue.count < Self.mostWaiting,
                files < Self.mostFiles
            else { return state.leftOutBytes += entry.count }
            state.queue.append(entry)
        }
    }

    private func pump() {
        while true {
            let entry = state.withLock { state -> Entry? in
                guard !state.isOver, state.running.count < Self.mostUploads, !state.queue.isEmpty else { return nil }
                return state.queue.removeFirst()
            }
            guard let entry else { return }
            start(entry)
        }
    }

    private func start(_ entry: Entry) {
        let slice = place.seal.slice(of: entry.object.version, at: entry.offset)
        guard let url = place.root.child(Array(slice.name.utf8), query: nil) else { return }
        let handle = RequestHandle()
        let upload = SliceUpload(slice, entry.object, handle, entry.attempt, self)
        var request = OriginRequest(url: url, isDemanded: false, reason: .prefetch, stallLimit: .seconds(30))
        let isConditional = state.withLock { state in
            state.running.insert(handle)
            return state.isConditional && entry.attempt != .withoutCondition && !state.damaged.contains(slice.name)
        }
        request.put(upload, isConditional: isConditional)
        upload.isConditional = isConditional
        origin.start(handle, place.source.request(request), upload)
    }

    fileprivate func ended(_ upload: SliceUpload, _ failure: OriginFailure?) {
        let count = upload.slice.range.count
        let reason = failure?.reasonOfBucket
        // Objects end outside of the lock.
        let (isNews, _) = state.withLock { state -> (Bool, [Entry]) in
            state.running.remove(upload.handle)
            switch failure {
            case nil:
                state.writtenBytes += count
                if upload.attempt == .withoutCondition { state.isConditional = false }
                state.damaged.remove(upload.slice.name)
                state.trouble = nil
            // Another mount has written it, or is just about to.
            case let failure? where failure.meaning.condition == .refused: state.trouble = nil
            case let failure? where upload.isConditional && failure.meaning.condition == .unknown:
                state.queue.append(upload.entry(.withoutCondition))
            case .status(500, _)? where upload.attempt == .first: state.queue.append(upload.entry(.afterError))
            // Its bytes have left the cache, or the mount ends.
            case .cancelled?: state.leftOutBytes += count
            default:
                state.leftOutBytes += count + state.queue.reduce(0) { $0 + $1.count }
                state.pausedUntil = now() + Self.pause
                defer { (state.trouble, state.queue) = (reason, []) }
                return (state.trouble == nil, state.queue)
            }
            return (false, [])
        }
        if isNews, let reason {
            logger.warning("the tier \(place.name) is not written for a while: \(reason)")
        }
        pump()
    }

    func stop() {
        let (running, _) = state.withLock { state in
            defer { (state.isOver, state.queue) = (true, []) }
            return (state.running, state.queue)
        }
        for handle in running { handle.cancel() }
    }

    // MARK: Objects that are not what they should be

    /// The next upload of the slice replaces its object. - Returns: whether that is news.
    func distrust(_ slice: TierSlice) -> Bool {
        state.withLock { state in
            state.damagedCount += 1
            if state.damaged.count >= Self.mostDamaged { state.damaged = [] }
            return state.damaged.insert(slice.name).inserted
        }
    }

    func distrusts(_ slice: TierSlice) -> Bool { state.withLock { $0.damaged.contains(slice.name) } }
}

/// The upload of one slice: reads, checks and seals a block of the cache at a time.
///
/// `@unchecked Sendable`: `TierWriter` makes it, and then the transport's thread alone uses it.
private final class SliceUpload: OriginReceiver, UploadBody, @unchecked Sendable {
    let slice: TierSlice
    let object: CacheObject
    let handle: RequestHandle
    let attempt: TierWriter.Attempt
    var isConditional = true
    private let writer: TierWriter
    /// The block that is sent now, sealed, and where it lies in the object.
    private var record: [UInt8] = []
    private var place = ByteRange(0, 0)

    init(
        _ slice: TierSlice, _ object: CacheObject, _ handle: RequestHandle, _ attempt: TierWriter.Attempt,
        _ writer: TierWriter
    ) {
        (self.slice, self.object, self.handle, self.attempt, self.writer) = (slice, object, handle, attempt, writer)
    }

    /// The same once more.
    func entry(_ attempt: TierWriter.Attempt) -> TierWriter.Entry {
        TierWriter.Entry(object: object, offset: slice.range.lower, attempt: attempt)
    }

    var length: Int64 { slice.objectLength }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int? {
        if !place.contains(offset) {
            let next = (0..<slice.blockCount).first { slice.objectRange(of: $0..<$0 + 1).contains(offset) }
            guard let next, fill(next) else { return nil }
        }
        let start = Int(offset - place.lower)
        let count = min(buffer.count, record.count - start)
        record.withUnsafeBytes { buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[start..<start + count])) }
        return count
    }

    private func fill(_ block: Int) -> Bool {
        record = slice.emptyRecord(of: block)
        let bytes = slice.bytes(of: block)
        let read = TierSlice.withBlock(of: &record) { object.read(into: $0, at: bytes.lower) }
        guard read == .bytes(Int(bytes.count)) else { return false }
        slice.seal(&record, block: block)
        place = slice.objectRange(of: block..<block + 1)
        return true
    }

    func head(_ head: ResponseHead) -> OriginFailure? { nil }
    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer { .more }
    func ended(_ failure: OriginFailure?) { writer.ended(self, failure) }
}

extension OriginRequest {
    /// Makes it write an object. - Parameter isConditional: only where there is none.
    mutating func put(_ body: any UploadBody, isConditional: Bool) {
        (method, upload, accepted) = ("PUT", body, [200, 201, 204])
        if isConditional { condition = .ifChanged(entityTag: "*", lastModified: nil) }
    }
}
