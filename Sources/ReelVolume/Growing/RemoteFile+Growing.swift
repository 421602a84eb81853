import ReelCache
import ReelCore
import ReelFilesystem
import ReelThreads

/// A file that becomes longer while its first and last known blocks stay the same (`--growing`).
extension RemoteFile {
    /// Whether readers wait at its end.
    var isLive: Bool {
        guard let growth else { return false }
        // A playlist says whether more is to come.
        if let joined = services.segments.version(of: url) { return joined.isGrowing }
        let changedAt = information.validator.lastModified
        return growth.withLock { $0.isLive(changedAt: changedAt, date: wallClock(), now: now()) }
    }

    /// Whether no program has a byte of it from its present handles.
    var isUnread: Bool { growth?.withLock { $0.isReadUncounted } == false && statistics.readBytes == 0 }

    /// A handle is open whose reads the ledger does not count, or was open in an earlier process.
    func isReadUncounted() { growth?.withLock { $0.isReadUncounted = true } }

    /// Finds out whether the origin has a longer form of this version, by requests that are made after this call; if
    /// so, the file is that one from then on.
    /// - Parameter completion: called once, on the transport's thread or another that may read the cache.
    func compare(_ completion: @escaping Growth.Waiter) {
        guard let growth else { return completion(.differs) }
        if growth.withLock({ $0.compare(completion) }) { beginComparison(growth) }
    }

    private func beginComparison(_ growth: Growth.Shared) {
        services.later { [self] in
            let waiters = growth.withLock { $0.beginComparison() }
            let end = { @Sendable [self] (verdict: GrowthProof.Verdict) in
                if case .grown(let information) = verdict { grew(information, growth) }
                for waiter in waiters { waiter(verdict) }
                if growth.withLock({ $0.endComparison() }) { beginComparison(growth) }
            }
            if let longer = services.segments.continuation(of: information, at: url) {
                continues(as: longer, end)
            } else {
                GrowthProof.start(self, within: services.options.timeout, end)
            }
        }
    }

    /// The pieces of a joined file say that a longer version has all of this one, so that no byte has to be compared.
    private func continues(as longer: ContentInformation, _ end: @escaping Growth.Waiter) {
        let (known, length) = (information, length)
        let last = ByteRange(length / BlockSize.block * BlockSize.block, length)
        var own = [UInt8](repeating: 0, count: object.present.covers(last) ? Int(last.count) : 0)
        let read = own.withUnsafeMutableBytes { object.read(into: $0, at: last.lower) }
        if read != .bytes(own.count) { own = [] }
        services.transport.perform { [self, own] in
            guard self.length == length else { return end(.differs) }
            if longer.length == length { return end(.grown(known.grown(to: longer))) }
            end(lengthen(known, to: longer, own[...], at: last.lower))
        }
    }

    /// Makes the version of its object a longer one. On the transport's thread.
    /// - Parameter bytes: of the file from `start` on, as the last block leaves if it is not whole; empty if none.
    func lengthen(
        _ known: ContentInformation, to longer: ContentInformation, _ bytes: ArraySlice<UInt8>, at start: Int64
    ) -> GrowthProof.Verdict {
        guard let total = longer.length else { return .differs }
        switch services.store.lengthen(object, to: total, longer.validator) {
        case .done: break
        // The origin's file is the same: the next comparison finds the cache in another state.
        case .later: return .unknown
        case .never: return .differs
        }
        if !bytes.isEmpty {
            bytes.withUnsafeBytes { bytes in
                _ = attempt { () throws(CacheError) in try object.write(bytes, at: start) }
            }
        }
        return .grown(known.grown(to: longer))
    }

    /// The version has another length and validator now, or was found to be still the same.
    private func grew(_ new: ContentInformation, _ growth: Growth.Shared) {
        let known = information
        guard let length = known.length, new != known else { return }
        services.logger.info("\(url): \(length) bytes have become \(new.length ?? 0)")
        move(to: nil, new)
        services.store.remember(new, for: url.text, checkedAt: wallClock())
        let nodes = growth.withLock { growth in
            growth.grew(now())
            return growth.nodes
        }
        for node in nodes { tell(node) }
        answerAtEnd(growth)
        // Reads that wait for bytes which came with the comparison.
        services.ticker.add(self)
    }

    /// The kernel asks for the length of a node again.
    private func tell(_ node: Node) {
        let before = node.shown.length ?? 0
        guard node.grow(to: information) else { return }
        services.kernelCache?.forgetGrown(node.id, from: before)
    }

    // MARK: Handles

    func opened(_ handle: OpenFile) {
        guard let growth else { return }
        let hadPages = handle.wantsDirectIO ? nil : handle.node.takesPages()
        growth.withLock { $0.opened(ObjectIdentifier(handle), handle.node, hadPages: hadPages) }
        if services.segments.version(of: url)?.isGrowing == true {
            // It is followed from the open on.
            growth.withLock { $0.reachedEnd() }
            services.ticker.add(self)
        }
        // It may have grown since the open looked.
        tell(handle.node)
    }

    func closed(_ handle: OpenFile) { growth?.withLock { $0.closed(ObjectIdentifier(handle)) } }

    // MARK: Reads at the end

    /// A read at the end waits for more where that is to be expected, and for what has come since it found the end.
    func readAtEnd(
        _ offset: Int64, _ count: Int, of node: NodeID, at moment: Duration, _ growth: Growth.Shared,
        park: () -> any ParkedRead
    ) -> ReadAnswer {
        // One that lies further behind looks for nothing that a writer has just written.
        guard offset <= length, count > 0, !isSuperseded, !isOver else { return .read(0) }
        growth.withLock { $0.reachedEnd() }
        defer { services.ticker.add(self) }
        guard offset < length || isLive else { return .read(0) }
        let deadline = moment + services.options.timeout
        let read = Growth.EndRead(caller: park(), node: node, offset: offset, count: count, deadline: deadline)
        growth.withLock { $0.add(read) }
        // It may have grown, or ended, meanwhile.
        answerAtEnd(growth)
        if isSuperseded || isOver { endReads() }
        return .parked
    }

    /// Answers the reads at the old end with what is behind it.
    private func answerAtEnd(_ growth: Growth.Shared) {
        for read in growth.withLock({ $0.takeReaders(before: length) }) {
            let range = ByteRange(read.offset, min(length, read.offset + Int64(read.count)))
            wait(read.caller, for: range, of: read.node, until: read.deadline)
        }
    }

    /// The origin has another version, or the volume has gone: the reads at the end see it.
    func endReads() {
        for read in growth?.withLock({ $0.end() }) ?? [] {
            read.caller.succeed(UnsafeRawBufferPointer(start: nil, count: 0))
        }
    }

    /// Asks the origin for more where it is due, and shows the end to those that have waited long enough.
    /// - Returns: whether there is more to wait for.
    func follow(_ now: Duration) -> Bool {
        guard let growth else { return false }
        let (late, looks) = growth.withLock { ($0.takeLate(now), $0.takeLook(now)) }
        for read in late { read.caller.succeed(UnsafeRawBufferPointer(start: nil, count: 0)) }
        if looks { look(growth) }
        return growth.withLock { $0.isAwaited }
    }

    private func look(_ growth: Growth.Shared) {
        let looked = { @Sendable [self] (isNews: Bool) in
            growth.withLock { $0.looked(isNews: isNews, now()) }
            // The playlist has its end now.
            if services.segments.version(of: url)?.isGrowing == false { endReads() }
        }
        guard services.transport.isWorthAsking(url) else { return looked(false) }
        let known = information
        InformationRequest.start(url, known: known, limit: services.options.timeout, services) { [self] outcome in
            guard case .information(let new) = outcome, !new.isSameVersion(as: known) else { return looked(false) }
            guard known.mayGrow(to: new) else { return isOther(new, looked) }
            compare { [self] verdict in
                switch verdict {
                case .grown: looked(true)
                case .differs: isOther(new, looked)
                case .unknown: looked(false)
                }
            }
        }
    }

    /// The origin has another version: the next open finds it.
    private func isOther(_ new: ContentInformation, _ looked: (Bool) -> Void) {
        services.doubt(url)
        endReads()
        looked(false)
    }
}

extension ContentInformation {
    /// The same of its longer form.
    func grown(to longer: ContentInformation) -> ContentInformation {
        var information = self
        (information.length, information.validator) = (longer.length, longer.validator)
        return information
    }

    /// Whether `new` may be a longer form of this version, as far as both say.
    func mayGrow(to new: ContentInformation) -> Bool {
        guard let length, let longer = new.length else { return false }
        return longer > length && acceptsRanges && new.acceptsRanges && validator.mirror == 0
            && new.validator.mirror == 0
    }
}

extension KernelCache {
    /// A file has become longer: the kernel forgets its length, and the page that had its end. A new length makes it
    /// drop the other pages as well.
    func forgetGrown(_ node: NodeID, from length: Int64) {
        let page: Int64 = 4096
        forgetPages(of: node, ByteRange(length / page * page, length / page * page + page))
    }
}
