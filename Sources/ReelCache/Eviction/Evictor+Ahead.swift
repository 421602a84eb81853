import ReelCore

/// Room that is made before it is needed, on a thread of its own, so that no write waits for the sync that removes a
/// row or for the filesystem that frees the blocks.
extension Evictor {
    /// Makes as much as there should be. Where little can go, it looks again after a second at the earliest.
    func makeRoomAhead() {
        let wanted = quota.ahead - quota.room
        guard wanted > 0, disk.mayWriteIndex else { return }
        do throws(CacheError) {
            if try makeRoomAhead(wanted) < wanted / 2 { ahead.pause(.seconds(1)) }
        } catch {
            if error != .closed, error != .busy { disk.failed(error) }
            ahead.pause(.seconds(1))
        }
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
        // The object is kept, so that nobody opens the file again before its bytes have gone.
        var open: [(object: CacheObject, holder: (any ObjectHolder)?, file: DataFile, blocks: [Range<Int>])] = []
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
                open.append((object, holder, file, blocks))
            }
        }
        var freed = try evictClosed(closed, &search)
        // Also where a later one fails.
        defer { tally.bytes.add(freed, ordering: .relaxed) }
        for (object, holder, file, blocks) in open {
            freed += try withExtendedLifetime(object) { () throws(CacheError) in try discardAhead(blocks, of: file) }
            holder?.noticeRemovals()
        }
        return freed
    }

    /// Does what `discard` does, while the file is written to: first the rows, durably, then the bytes, then their part
    /// of the quota. Only then do writes fill these blocks again. - Returns: bytes freed.
    private func discardAhead(_ blocks: [Range<Int>], of file: DataFile) throws(CacheError) -> Int64 {
        let departing = try index.write { (index) throws(CacheError) -> BlockTable.Departing in
            // Its holder may have left it since, and the committer then counted its bytes out.
            guard files.file(file.row) === file, try !index.isPinned(file.version.key) else {
                return BlockTable.Departing()
            }
            let departing = file.depart(blocks)
            guard !departing.rows.isEmpty else { return departing }
            do throws(CacheError) {
                try index.transaction { () throws(CacheError) in
                    try index.write(departing.rows, of: file)
                    try index.setUnclean(file.row, cached: file.withBlocks { $0.states.durableBytes })
                }
            } catch {
                file.withBlocks { $0.stay(departing) }
                throw error
            }
            reached(.discardRowsCommitted)
            return departing
        }
        guard departing.bytes > 0 else { return 0 }
        // No row covers them any more, even if the disk refuses the hole.
        defer {
            file.withBlocks { $0.gone(departing) }
            quota.release(departing.bytes)
        }
        for run in departing.all.ranges { try file.punch(run) }
        reached(.discardPunched)
        return departing.bytes
    }
}
