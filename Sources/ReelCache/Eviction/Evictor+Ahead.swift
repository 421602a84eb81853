import ReelCore

/// Room that is made before it is needed, on a thread of its own, so that no write waits for the sync that removes a
/// row or for the filesystem that frees the blocks. A thread that writes and finds no room waits for the round that is
/// under way, or does one itself.
extension Evictor {
    /// Makes as much as there should be. Where little can go, it looks again after a second at the earliest.
    /// - Parameter isEnough: asked once nobody else makes any.
    func makeRoomAhead(unless isEnough: () -> Bool = { false }) {
        let failure = turn.take { () -> CacheError? in
            guard quota.ahead > 0, disk.mayWriteIndex, !ahead.isPausing else { return nil }
            // Other programs may have freed as much since.
            quota.measure()
            let most = quota.ahead
            let wanted = most - quota.room
            guard most > 0, wanted > 0, !isEnough() else { return nil }
            do throws(CacheError) {
                if try makeRoomAhead(wanted) < min(wanted / 2, quota.slack) { ahead.pause(.seconds(1)) }
                return nil
            } catch {
                ahead.pause(.seconds(1))
                return error
            }
        }
        if let failure, failure != .closed, failure != .busy { disk.failed(failure) }
    }

    /// - Returns: bytes freed.
    func makeRoomAhead(_ wanted: Int64) throws(CacheError) -> Int64 {
        var freed: Int64 = 0
        var search = EvictionSearch(wanted)
        while freed < wanted, search.goesOn { freed += try makeRoomAhead(wanted - freed, &search) }
        return freed
    }

    private func makeRoomAhead(_ wanted: Int64, _ search: inout EvictionSearch) throws(CacheError) -> Int64 {
        var (closed, sum): ([EvictionCandidate], Int64) = ([], 0)
        var open: [OpenFile] = []
        for candidate in try candidates(search.begin(), sparing: search.spared, { _ in true })
        where sum < wanted {
            guard let file = candidate.file else {
                closed.append(candidate)
                sum += candidate.bytes
                continue
            }
            guard let object = files.held(file.row) else { continue }
            let holder = object.holder
            let unheld = object.wasLent ? [] : [candidate.blocks]
            let blocks = holder.map { $0.expendable([candidate.blocks]) } ?? unheld
            sum += blocks.reduce(0) { $0 + Int64($1.count) * BlockSize.block }
            if let index = open.firstIndex(where: { $0.file === file }) {
                open[index].blocks += blocks
            } else {
                open.append(OpenFile(object: object, holder: holder, file: file, blocks: blocks))
            }
        }
        var freed: Int64 = 0
        // Also where a later one fails.
        defer { tally.bytes.add(freed, ordering: .relaxed) }
        var rest = closed[...]
        while !rest.isEmpty { freed += try evictClosed(rest.takeBatch(), &search) }
        freed += try withExtendedLifetime(open) { () throws(CacheError) in try discardAhead(open) }
        for one in open { one.holder?.noticeRemovals() }
        return freed
    }

    /// A file in use, and what of it could go.
    private struct OpenFile {
        /// It is kept, so that nobody opens the file again before its bytes have gone.
        let object: CacheObject
        let holder: (any ObjectHolder)?
        let file: DataFile
        var blocks: [Range<Int>]
    }

    /// Does what `discard` does, while the files are written to: first the rows, durably and in one transaction, then
    /// the bytes, then their part of the quota. Only then do writes fill these blocks again. - Returns: bytes freed.
    private func discardAhead(_ open: [OpenFile]) throws(CacheError) -> Int64 {
        typealias Leaving = (file: DataFile, blocks: BlockTable.Departing)
        let leaving = try index.write { (index) throws(CacheError) -> [Leaving] in
            var leaving: [Leaving] = []
            do throws(CacheError) {
                // Its holder may have left it since, and the committer then counted its bytes out.
                for one in open where files.file(one.file.row) === one.file {
                    guard try !index.isPinned(one.file.version.key) else { continue }
                    let blocks = one.file.depart(one.blocks)
                    if !blocks.rows.isEmpty { leaving.append((one.file, blocks)) }
                }
                guard !leaving.isEmpty else { return [] }
                try index.transaction { () throws(CacheError) in
                    for (file, blocks) in leaving {
                        try index.write(blocks.rows, of: file)
                        try index.setUnclean(file.row, cached: file.withBlocks { $0.states.durableBytes })
                    }
                }
            } catch {
                for (file, blocks) in leaving { file.withBlocks { $0.stay(blocks) } }
                throw error
            }
            reached(.discardRowsCommitted)
            return leaving
        }
        var (freed, failure): (Int64, CacheError?) = (0, nil)
        for (file, blocks) in leaving {
            do throws(CacheError) {
                for run in blocks.all.ranges { try file.punch(run) }
                freed += blocks.bytes
            } catch {
                failure = error
            }
            reached(.discardPunched)
            // No row covers them any more, even if the disk refuses the hole.
            file.withBlocks { $0.gone(blocks) }
            quota.release(blocks.bytes)
        }
        if let failure, freed == 0 { throw failure }
        return freed
    }
}
