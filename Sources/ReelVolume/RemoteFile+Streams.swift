import ReelCache
import ReelCore
import ReelThreads

/// Doing what the ledger decided, and telling it what came of it.
extension RemoteFile {
    func perform(_ actions: [Ledger.Action]) {
        for action in actions {
            switch action {
            case .start(let id, let range, let isDemanded): start(id, range, isDemanded: isDemanded)
            case .stop(let id):
                if let request = state.withLock({ $0.requests.removeValue(forKey: id) }) {
                    services.origin.cancel(request)
                }
            case .resume(let id):
                if let request = state.withLock({ $0.requests[id] }) { services.origin.resume(request) }
            case .promote(let id):
                if let request = state.withLock({ $0.requests[id] }) { services.origin.promote(request) }
            case .complete(let id): complete(id)
            case .completeInPart(let id, let range): complete(id, range)
            case .fail(let id, let failure):
                guard let parked = state.withLock({ $0.parked.removeValue(forKey: id) }) else { continue }
                services.logger.info("\(url): read of \(parked.range) failed: \(failure)")
                parked.read.fail(VolumeError(failure))
            }
        }
    }

    /// - Parameter part: the bytes that the read gets; nil: all.
    private func complete(_ id: Ledger.ReadID, _ part: ByteRange? = nil) {
        guard var parked = state.withLock({ $0.parked.removeValue(forKey: id) }) else { return }
        if parked.isRepair { return parked.read.succeed(UnsafeRawBufferPointer(start: nil, count: 0)) }
        parked.range = part ?? parked.range
        services.answers.add { [self, parked] in
            services.withAnswerBuffer(Int(parked.range.count)) { answer(parked, $0) }
            moveQueue(now())
        }
    }

    private func start(_ id: Ledger.StreamID, _ range: ByteRange, isDemanded: Bool) {
        guard !range.isEmpty else { return }
        let handle = RequestHandle()
        // It may have been stopped or promoted since it was decided.
        let (isWanted, isDemanded) = state.withLock { state in
            let isWanted = state.ledger.isLive(id) && !state.isOver
            if isWanted { state.requests[id] = handle }
            return (isWanted, isDemanded || state.ledger.isDemanded(id))
        }
        if !isWanted { services.origin.cancel(handle) }
        let request = OriginRequest(
            url: url, range: range, condition: information.validator.ifRange.map { .ifRange($0) },
            isDemanded: isDemanded, stallLimit: services.options.timeout)
        services.logger.debug("\(url): asks for \(range)\(isDemanded ? "" : " ahead")")
        services.ticker.add(self)
        services.send(request, as: handle, to: StreamReceiver(self, id, range))
    }

    // MARK: What the streams bring

    /// The request that found this version out goes on as its first stream.
    func adopt(_ request: RequestHandle, _ range: ByteRange, isWhole: Bool) -> Ledger.StreamID {
        services.ticker.add(self)
        let (id, isWanted) = state.withLock { state in
            if isWhole { state.ledger.acceptsRanges = false }
            let id = state.ledger.adopt(range, now: now())
            state.requests[id] = request
            return (id, state.ledger.isLive(id) && !state.isOver)
        }
        if !isWanted { services.origin.cancel(request) }
        return id
    }

    /// The same of a request that was made beside it. - Returns: nil where its bytes are not wanted.
    func adoptBeside(_ request: RequestHandle, _ range: ByteRange) -> Ledger.StreamID? {
        services.ticker.add(self)
        return state.withLock { state in
            guard !state.isOver, let id = state.ledger.adoptBeside(range, now: now()) else { return nil }
            state.requests[id] = request
            return id
        }
    }

    /// - Parameter isTimed: as in the ledger.
    func sent(_ id: Ledger.StreamID, isTimed: Bool = true) {
        state.withLock { $0.ledger.requested(id, now: now(), isTimed: isTimed) }
    }

    func yields(_ id: Ledger.StreamID) -> Bool { state.withLock { $0.ledger.yield(id) } }

    func began(_ id: Ledger.StreamID, isWhole: Bool) {
        perform(state.withLock { $0.ledger.began(id, isWhole: isWhole, now: now()) })
    }

    func arrived(_ id: Ledger.StreamID, _ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        let moment = now()
        let place = state.withLock { state -> (range: ByteRange, news: [ByteRange])? in
            state.rate.add(Int64(bytes.count), moment)
            let range = state.ledger.place(of: id, count: Int64(bytes.count))
            state.ledger.dropped(Int64(bytes.count) - (range?.count ?? 0))
            guard let range else {
                report(&state)
                return nil
            }
            state.isWriting = true
            return (range, state.ledger.gaps(in: range))
        }
        guard let place else { return .stop }
        defer { state.withLock { $0.isWriting = false } }
        if !place.news.isEmpty, !write(bytes, place.range) {
            let full = OriginFailure.wrongAnswer("no room in the cache, nor in memory")
            perform(
                decide { state in
                    state.ledger.dropped(place.range.count)
                    return state.ledger.ended(id, full, now: moment, random: 0)
                })
            return .stop
        }
        let isInMemory = object.isInMemory
        let requests = concurrency.value.withLock { $0.took(place.range.count, now: moment) }
        let result = decide(limits(requests, moment)) { state in
            // What is in memory must have room there for all readers.
            state.ledger.windowLimit = isInMemory ? min(windowLimit, RemoteFile.windowInMemory) : windowLimit
            return state.ledger.arrived(id, place.range, news: place.news, now: moment)
        }
        perform(result.actions)
        return switch result.answer {
        case .more: .more
        case .pause: .pause
        case .enough: .stop
        }
    }

    private static let windowInMemory = 2 * Readahead.near

    private func write(_ bytes: UnsafeRawBufferPointer, _ range: ByteRange) -> Bool {
        do {
            let part = UnsafeRawBufferPointer(rebasing: bytes[..<Int(range.count)])
            try object.write(part, at: range.lower)
            return true
        } catch {
            services.logger.error("\(error)")
            return false
        }
    }

    func ended(_ id: Ledger.StreamID, _ failure: OriginFailure?) {
        if let failure, failure != .cancelled { services.logger.info("\(url): \(failure)") }
        concurrency.value.withLock { $0.ended(failure, now: now()) }
        // Before a reader hears of it: he may open the file anew at once.
        if failure?.isContradiction ?? false { services.doubt(url) }
        let actions = decide { state in
            state.requests[id] = nil
            return state.ledger.ended(id, failure, now: now(), random: Double.random(in: 0...1))
        }
        perform(actions)
    }
}
