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
            case .resume(let id): resume(id)
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
        let request = OriginRequest(
            url: url, range: range, condition: information.validator.ifRange.map { .ifRange($0) },
            isDemanded: isDemanded, stallLimit: services.options.timeout)
        services.logger.debug("\(url): asks for \(range)\(isDemanded ? "" : " ahead")")
        services.ticker.add(self)
        running(services.origin.start(request, StreamReceiver(self, id, range)), for: id, isDemanded: isDemanded)
    }

    /// - Parameter isDemanded: as the request was made.
    private func running(_ request: OriginRequestID, for id: Ledger.StreamID, isDemanded: Bool) {
        let (isWanted, isOwed, isPromoted) = state.withLock { state in
            guard state.ledger.isLive(id), !state.isOver else { return (false, false, false) }
            state.requests[id] = request
            return (true, state.owedResumes.remove(id) != nil, !isDemanded && state.ledger.isDemanded(id))
        }
        if !isWanted { return services.origin.cancel(request) }
        if isOwed { services.origin.resume(request) }
        // It may have been promoted before it had a name.
        if isPromoted { services.origin.promote(request) }
    }

    private func resume(_ id: Ledger.StreamID) {
        let request = state.withLock { state in
            // Bytes may come before who started the request has its name.
            if state.requests[id] == nil, state.ledger.isLive(id) { state.owedResumes.insert(id) }
            return state.requests[id]
        }
        if let request { services.origin.resume(request) }
    }

    // MARK: What the streams bring

    /// The request that found this version out goes on as its first stream.
    func adopt(_ range: ByteRange, isWhole: Bool) -> Ledger.StreamID {
        services.ticker.add(self)
        return state.withLock { state in
            if isWhole { state.ledger.acceptsRanges = false }
            return state.ledger.adopt(range, now: now())
        }
    }

    func adopted(_ id: Ledger.StreamID, _ request: OriginRequestID, isDemanded: Bool) {
        running(request, for: id, isDemanded: isDemanded)
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
        services.counters.bytesFromOrigin.add(Int64(bytes.count), ordering: .relaxed)
        let moment = now()
        let place = state.withLock { state -> (range: ByteRange, news: [ByteRange])? in
            state.rate.add(Int64(bytes.count), moment)
            let range = state.ledger.place(of: id, count: Int64(bytes.count))
            state.ledger.dropped(Int64(bytes.count) - (range?.count ?? 0))
            guard let range else {
                tell(&state)
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
        let limits = limits(lanes: lanes.took(place.range.count, moment), moment)
        let result = decide(limits) { state in
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

    private static let windowInMemory: Int64 = 2 << 20

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
        lanes.saw(failure, now())
        // Before a reader hears of it: he may open the file anew at once.
        if failure?.isContradiction ?? false { services.doubt(url) }
        let actions = decide { state in
            state.requests[id] = nil
            state.owedResumes.remove(id)
            return state.ledger.ended(id, failure, now: now(), random: Double.random(in: 0...1))
        }
        perform(actions)
    }
}
