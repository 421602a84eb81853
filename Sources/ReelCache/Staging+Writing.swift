import Glibc
import ReelCore
import ReelThreads

/// The thread that writes, and what the origin's thread writes to make room.
extension Staging {
    private enum Step {
        case write([Item], isSlow: Bool)
        /// There is something to do earlier than was thought.
        case again
        case end
    }

    func run() {
        while true {
            let planned = state.withLock(notifying: false) { due($0) }
            let look: (inout State) -> Step? = { [self] state in
                next(&state) ?? (due(state) < planned ? .again : nil)
            }
            let step: Step?
            if planned == .forever {
                step = state.wait(look)
            } else {
                step = state.wait(atMost: max(.zero, planned - now()), look)
            }
            switch step {
            case .end: return
            case .write(let items, let isSlow): write(items, isSlow)
            case .again, nil: if state.withLock(notifying: false, { now() >= restDue($0) }) { rest() }
            }
        }
    }

    /// When there is something to do, be it to rest, unless something comes.
    private func due(_ state: State) -> Duration { min(state.queue.due ?? .forever, restDue(state)) }

    private func restDue(_ state: State) -> Duration {
        if state.queue.isMoving || state.landed.isEmpty && !account.hasSpares { return .forever }
        return state.lastCame + Staging.idleTime
    }

    private func next(_ state: inout State) -> Step? {
        if state.isStopping { return .end }
        let moment = now()
        let isSlow = state.pace.isSlow(moment)
        let isPressed = isSlow || account.isShort && state.landed.count < Staging.comfort
        return state.queue.next(now: moment, longest: state.pace.run, isPressed: isPressed).map {
            .write($0, isSlow: isSlow)
        }
    }

    private func write(_ items: [Item], _ isSlow: Bool) {
        let store = state.withLock(notifying: false) { $0.store }
        var refused: [Item] = []
        var run: [(item: Item, memory: MemoryBlock)] = []
        func end() {
            defer { run = [] }
            guard let first = run.first, let store else { return }
            // The page cache takes what the disk does not, and may lose it: memory has the only bytes then.
            let isSlow = isSlow && !run.contains { $0.item.wasRefused }
            let isTaken = store.write(run.map(\.memory), to: first.item.file, from: first.item.block, isSlow)
            if !isTaken { refused += run.map(\.item) }
        }
        for item in items {
            if let memory = item.file.staged.beginWriting(item.block) { run.append((item, memory)) } else { end() }
        }
        end()
        let surplus = state.withLock { state in
            state.queue.ended(refused: refused, now: now())
            // Also of those that were refused, or had gone: giving them up does nothing.
            state.landed += items.map { Place(file: $0.file, block: $0.block) }
            let surplus = state.landed.prefix(max(0, state.landed.count - Staging.mostBlocks))
            state.landed.removeFirst(surplus.count)
            return surplus
        }
        for place in surplus { place.file?.staged.giveUp(place.block) }
        // Who looks after files that nobody holds any more looks at these.
        if let store, refused.contains(where: { !store.files.isHeld($0.file.row) }) { store.committer.schedule() }
    }

    /// Nothing has come for a while: what the disk has leaves memory.
    func rest() {
        let (landed, store) = state.withLock(notifying: false) { state in
            defer { state.landed = [] }
            return (state.landed, state.store)
        }
        for place in landed { place.file?.staged.giveUp(place.block) }
        for file in store?.files.all ?? [] { file.direct.close() }
        account.giveUpSpares()
    }

    /// On the origin's thread: the block that was begun longest ago and has not become whole goes to the disk as it is.
    /// - Returns: false where there is none, or the disk does not take it.
    func spill() -> Bool {
        while true {
            let found = state.withLock(notifying: false) { state -> (store: Store?, place: Place)? in
                guard !state.filling.isEmpty else { return nil }
                let place = state.filling.removeFirst()
                state.spilling = place
                return (state.store, place)
            }
            guard let (store, place) = found else { return false }
            defer { state.withLock { $0.spilling = nil } }
            guard let file = place.file, let memory = file.staged.beginSpilling(place.block) else { continue }
            let isTaken = store?.spill(memory, place.block, of: file) ?? false
            file.staged.endSpilling(place.block, memory, hasLanded: isTaken)
            if !isTaken { state.withLock(notifying: false) { $0.filling.insert(place, at: 0) } }
            return isTaken
        }
    }
}

extension Duration {
    fileprivate static let forever = Duration.seconds(Int64.max / 2)
}

extension Store {
    /// Staged blocks, one behind the other, go to the disk. - Returns: false where it does not take them.
    fileprivate func write(_ blocks: [MemoryBlock], to file: DataFile, from first: Int, _ isSlow: Bool) -> Bool {
        let failures = file.fill { $0.failedSyncs }
        let hasLanded = disk.mayWriteData && put(blocks, into: file, at: Int64(first) * BlockSize.block, isSlow)
        for (block, memory) in zip(first..., blocks) {
            guard file.staged.endWriting(block, memory, hasLanded: hasLanded), hasLanded else { continue }
            let (bytes, sum) = file.fill { ($0.landed(block, failures: failures), $0.sum(of: block)) }
            if bytes > 0, let sum { filled(bytes, block, of: file, sum) }
        }
        // Leases count it, and whoever opens the file now may be given it as a whole.
        if file.fill({ $0.map.isComplete && !$0.isStaging }) { file.direct.close() }
        return hasLanded
    }

    private func put(_ blocks: [MemoryBlock], into file: DataFile, at offset: Int64, _ isSlow: Bool) -> Bool {
        attempt(file) { () throws(CacheError) in
            // Somebody has cut it. Grown again by this write, what is gone would be zeros; who fills finds out.
            guard file.descriptor.isLong(file.version.length) else { return false }
            let start = now()
            switch isSlow ? .notSo : file.direct.write(blocks, at: offset, to: file.descriptor) {
            case .written:
                staging?.wrote(blocks.count, in: now() - start)
                disk.dataWasWritten(isOnDisk: true)
            case .failed(let number):
                let error = CacheError.system("pwritev", number)
                if number != ENOSPC, number != EDQUOT { disk.failed(error, needsProof: true) }
                throw error
            case .notSo:
                for (index, block) in blocks.enumerated() {
                    try file.descriptor.write(block.bytes, at: offset + Int64(index) * BlockSize.block)
                    staging?.wroteToPageCache(Int64(block.bytes.count))
                }
            }
            return true
        }
    }

    /// The pieces of a block that is not whole, through the page cache.
    fileprivate func spill(_ memory: MemoryBlock, _ block: Int, of file: DataFile) -> Bool {
        guard disk.mayWriteData, let pieces = file.pieces(of: block) else { return false }
        let lower = file.bytes(of: block).lower
        return attempt(file) { () throws(CacheError) in
            guard file.descriptor.isLong(file.version.length) else { return false }
            for range in pieces.all.map(\.range) {
                try file.descriptor.write(memory.bytes.part(range, from: lower), at: range.lower)
                staging?.wroteToPageCache(range.count)
            }
            return true
        }
    }

    /// Does what may fail for want of a disk.
    private func attempt(_ file: DataFile, _ body: () throws(CacheError) -> Bool) -> Bool {
        var isDone = false
        do throws(CacheError) {
            try file.change { () throws(CacheError) in isDone = try body() }
        } catch {
            disk.failed(error)
            room.measure()
            return false
        }
        if isDone { disk.dataWasWritten() }
        return isDone
    }
}
