import ReelCache
import ReelCore
import ReelFilesystem
import ReelThreads

/// Does what the ledger decides, and reports the outcome to it.
extension RemoteFile {
    /// - Parameters:
    ///   - reason: of the requests that it starts, nil for what the ledger has.
    ///   - limit: of these requests, nil for that of the mount alone.
    func perform(_ actions: [Ledger.Action], for reason: OriginRequest.Reason? = nil, limit: RateLimit? = nil) {
        for action in actions {
            switch action {
            case .start(let id, let range, let isDemanded): start(id, range, isDemanded: isDemanded, reason, limit)
            case .stop(let id):
                decide({ $0.takeRequest(of: id) })?.cancel()
            case .resume(let id):
                ask({ $0.request(of: id) })?.resume()
            case .promote(let id):
                ask({ $0.request(of: id) })?.promote()
            case .complete(let id): complete(id)
            case .completeInPart(let id, let range): complete(id, range)
            case .fail(let id, let failure):
                guard let read = decide({ $0.take(id, now: now()) }) else { continue }
                note(read)
                services.logger.info("\(url): read of \(read.range) failed: \(failure)")
                read.caller.fail(VolumeError(failure))
            }
        }
    }

    /// - Parameter part: the bytes that the read gets, nil for all.
    private func complete(_ id: Ledger.ReadID, _ part: ByteRange? = nil) {
        guard let read = decide({ $0.takeForAnswer(id, part, now: now()) }) else { return }
        if read.isRepair { return read.caller.succeed(UnsafeRawBufferPointer(start: nil, count: 0)) }
        services.answers.add(Int(read.range.count)) { [self] buffer in
            answer(read, buffer)
            decide { $0.endAnswer(of: id) }
            note(read)
            moveQueue(now())
        }
    }

    /// Keeps in mind that a read has waited for long.
    private func note(_ read: ParkedReads.Read) {
        guard let stall = read.wait?.stall(now: now()) else { return }
        decide { $0.note(stall) }
        services.counters.stalled(for: stall.fault)
    }

    private func start(
        _ id: Ledger.StreamID, _ range: ByteRange, isDemanded: Bool, _ reason: OriginRequest.Reason?,
        _ limit: RateLimit?
    ) {
        guard !range.isEmpty else { return }
        let handle = RequestHandle()
        // It may have been stopped or promoted since it was decided.
        let now = decide { $0.start(handle, id) }
        if !now.isWanted { handle.cancel() }
        let isDemanded = isDemanded || now.isDemanded
        let (url, planned, acceptsRanges, isBesideSlow) = ask {
            ($0.url, $0.ledger.reason(of: id), $0.ledger.acceptsRanges, $0.ledger.isBesideSlow(id))
        }
        let receiver = StreamReceiver(self, id, url, range)
        let information = receiver.known
        // Of a file that grows each answer is of another version: its head shows which.
        let condition = growth == nil ? information.validator.ifRange.map { OriginRequest.Condition.ifRange($0) } : nil
        var request = OriginRequest(
            url: url, range: range, condition: condition,
            isDemanded: isDemanded, reason: reason ?? planned, stallLimit: services.options.timeout)
        (request.limit, request.version, request.isBesideSlow) = (limit, information, isBesideSlow)
        // A body that comes whole has no second try beside a slow tier, and ends where the tier's slices do.
        if acceptsRanges { request.stored = object.version }
        services.logger.debug("\(url): asks for \(range)\(isDemanded ? "" : " ahead")")
        services.ticker.add(self)
        services.origin.start(handle, request, receiver)
    }

    // MARK: Events of streams

    /// The request that found this version out goes on as its first stream.
    func adopt(_ request: RequestHandle, _ range: ByteRange, isWhole: Bool) -> Ledger.StreamID {
        let (id, isWanted) = decide { $0.adopt(request, range, isWhole: isWhole, now: now()) }
        services.ticker.add(self)
        if !isWanted { request.cancel() }
        return id
    }

    /// A request that was made beside it becomes a stream. - Returns: nil where its bytes are not wanted.
    func adoptBeside(_ request: RequestHandle, _ range: ByteRange) -> Ledger.StreamID? {
        let id = decide { $0.adoptBeside(request, range, now: now()) }
        services.ticker.add(self)
        return id
    }

    /// - Parameter isTimed: as in the ledger.
    func sent(_ id: Ledger.StreamID, isTimed: Bool = true) {
        decide { $0.sent(id, isTimed: isTimed, now: now()) }
    }

    func yields(_ id: Ledger.StreamID) -> Bool { decide { $0.yield(id) } }

    func began(_ id: Ledger.StreamID, isWhole: Bool) {
        perform(decide { $0.began(id, isWhole: isWhole, now: now()) })
    }

    func arrived(_ id: Ledger.StreamID, _ bytes: UnsafeRawBufferPointer, from place: AnswerPlace) -> BodyAnswer {
        let moment = now()
        let range = decide { $0.place(of: id, count: Int64(bytes.count), from: place, now: moment) }
        guard let range else { return .stop }
        defer { decide { $0.wrote() } }
        // Only this thread adds bytes.
        let news = object.present.gaps(in: range)
        let part = UnsafeRawBufferPointer(rebasing: bytes[..<Int(range.count)])
        let isThere = news.isEmpty || attempt { () throws(CacheError) in try object.write(part, at: range.lower) }
        if !isThere {
            let full = OriginFailure.wrongAnswer("no room in the cache, nor in memory")
            perform(decide { $0.lost(id, range, full, now: moment) })
            return .stop
        }
        let requests = concurrency.value.withLock { $0.took(range.count, now: moment) }
        let writing = now() - moment
        let result = decide(under: limits(requests, moment)) {
            $0.arrived(id, range, news: news, writing: writing, now: moment)
        }
        perform(result.actions)
        if range.lower < Container.mostHead { lookAtHead() }
        if let tier = services.tier, place != .tier, !news.isEmpty, services.shares(self) {
            tier.writer.filled(range, of: object)
        }
        return result.answer
    }

    /// - Parameter url: that was asked: the file may have another place by now.
    func ended(_ id: Ledger.StreamID, _ failure: OriginFailure?, of url: ResourceURL) {
        if let failure, failure != .cancelled { services.logger.info("\(url): \(failure)") }
        concurrency.value.withLock { $0.ended(failure, now: now()) }
        // Before a reader hears of it: it may open the file again at once.
        if failure?.meaning.isContradiction ?? false { services.doubt(url) }
        perform(decide { $0.ended(id, failure, now: now(), random: RandomNumbers.fraction()) })
        for report in ask({ $0.reports }) { report(failure) }
    }
}
