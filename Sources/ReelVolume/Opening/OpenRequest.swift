import ReelCache
import ReelCore
import ReelThreads

/// The first request for an unknown resource: its head is the content information, its body the first bytes, which are
/// kept.
final class OpenRequest: OriginReceiver {
    enum Found: Sendable {
        case file(RemoteFile)
        case failure(OriginFailure)
    }

    private enum Stage {
        case asked
        /// The file is just leaving the table.
        case late
        case file(RemoteFile, Ledger.StreamID)
    }

    private struct State {
        var stage = Stage.asked
        var place = AnswerPlace.origin
    }

    /// The same for all attempts.
    private struct Plan: Sendable {
        let url: ResourceURL
        /// What an earlier answer has said, nil if none has.
        let remembered: ContentInformation?
        let tail: TailPrefetch?
        let demand: CallDemand?
        let files: FileTable
        let services: Services
        let finished: @Sendable (ContentInformation) -> Void
    }

    private let plan: Plan
    /// nil for the resource as a whole.
    private let range: ByteRange?
    private let handle = RequestHandle()
    private let state = Lock(State())
    private let completion: @Sendable (Found) -> Void

    private init(_ plan: Plan, _ range: ByteRange?, _ completion: @escaping @Sendable (Found) -> Void) {
        self.plan = plan
        self.range = range
        self.completion = completion
    }

    /// Sends it, and tries again as long as the open may wait. The file in the answer is open: one handle is counted.
    /// - Parameters:
    ///   - head: bytes to ask for.
    ///   - tail: fetches the end at the same time.
    ///   - demand: says whether a caller waits, nil if one does.
    ///   - end: on the clock of `now()`, nil for the mount's timeout from now.
    ///   - finished: called when a resource of unknown length has come to its end.
    static func start(
        _ url: ResourceURL, head: Int64 = Readahead.first, tail: TailPrefetch?, demand: CallDemand? = nil,
        until end: Duration? = nil, _ files: FileTable, _ services: Services,
        finished: @escaping @Sendable (ContentInformation) -> Void,
        _ completion: @escaping @Sendable (Found) -> Void
    ) {
        let remembered = services.store.information(for: url.text)?.information
        let plan = Plan(
            url: url, remembered: remembered, tail: tail, demand: demand, files: files, services: services,
            finished: finished)
        // Behind the first request in the queue: a reader waits for that one.
        defer { tail?.start() }
        let end = end ?? now() + services.options.timeout
        let ended = Once(completion)
        let current = Lock<RequestHandle?>(nil)
        let giveUp: @Sendable () -> Void = {
            guard let completion = ended.take() else { return }
            current.withLock { $0 }?.cancel()
            tail?.cancel()
            // It may read the cache, and timers wait for no disk.
            services.later { completion(.failure(.timedOut)) }
        }
        let timer = services.ticker.after(max(.zero, end - now()) + Self.inLine, giveUp, atEnd: giveUp)
        askingForBytes(ByteRange(0, head), until: end, services) {
            (range, left, done: @escaping @Sendable (Found) -> Void) in
            let open = OpenRequest(plan, range, done)
            current.withLock { $0 = open.handle }
            if ended.isOver { return done(.failure(.cancelled)) }
            var request = OriginRequest(url: url, range: range, reason: .head, stallLimit: left)
            if let demand { request.isDemanded = demand.begins(open.handle) }
            if let program = demand?.program, !services.programs[program].isScanning(now: now()) {
                open.handle.rank = .beginner
                services.transport.line.tell(ObjectIdentifier(open), ahead: 0, by: .beginner, now: now())
            }
            services.origin.start(open.handle, request, open)
        } completion: { found in
            services.ticker.cancel(timer)
            if case .file = found {} else { tail?.cancel() }
            if let completion = ended.take() { return completion(found) }
            if case .file(let file) = found { files.close(file) }
        }
    }

    /// After the time of its requests, of which each begins only when its turn comes, for their own failures to come
    /// first: those say more.
    private static let inLine = Duration.milliseconds(500)

    private func end(_ found: Found) {
        plan.services.transport.line.tell(ObjectIdentifier(self), ahead: nil, now: now())
        completion(found)
    }

    var program: String? {
        if case .file(let file, _) = stage { file.program } else { plan.demand?.program }
    }

    func yields() -> Bool {
        if case .file(let file, let stream) = stage { file.yields(stream) } else { false }
    }

    private var stage: Stage { state.withLock { $0.stage } }

    func head(_ head: ResponseHead) -> OriginFailure? {
        let verdict = judge(head, to: plan.url, asked: range, isConditional: false, known: nil)
        switch verdict {
        case .unchanged: return .wrongAnswer("304 to a request without a condition")
        case .failure(let failure): return failure
        case .range(let information), .whole(let information):
            if isForeignPage(information, inPlaceOf: plan.remembered) {
                return .wrongAnswer("a web page where media was expected")
            }
            let isWhole = if case .whole = verdict { true } else { false }
            return begin(information, isWhole: isWhole)
        }
    }

    private func begin(_ information: ContentInformation, isWhole: Bool) -> OriginFailure? {
        let file: RemoteFile
        do throws(CacheError) {
            guard let opened = try plan.files.openNow(plan.url, information) else {
                // No failure of the origin.
                state.withLock { $0.stage = .late }
                return .cancelled
            }
            file = opened
        } catch {
            plan.services.logger.error("\(error)")
            return .wrongAnswer("the cache cannot hold it")
        }
        let asked = ByteRange(0, isWhole ? file.length : min(range!.upper, file.length))
        let stream = file.adopt(handle, asked, isWhole: isWhole && range != nil)
        state.withLock { $0.stage = .file(file, stream) }
        file.began(stream, isWhole: false)
        plan.tail?.join(file)
        end(.file(file))
        return nil
    }

    func asked(_ place: AnswerPlace) { state.withLock { $0.place = place } }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        let (stage, place) = state.withLock { ($0.stage, $0.place) }
        guard case .file(let file, let stream) = stage else { return .stop }
        return file.arrived(stream, bytes, from: place)
    }

    func ended(_ failure: OriginFailure?) {
        switch stage {
        case .asked: end(.failure(failure ?? .interrupted("no answer")))
        case .late: end(.failure(.interrupted("the last reader was just leaving")))
        case .file(let file, let stream):
            // First: a reader that sees the end may open the file again, and has to find the complete version.
            if failure == nil { plan.files.settle(file, stream, plan.finished) }
            file.ended(stream, failure, of: plan.url)
        }
    }
}
