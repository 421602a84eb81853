import ReelCore

extension Store {
    /// Bytes in use and the cap: the given one, but never more than what leaves the floor of the disk free.
    package var usage: (used: Int64, cap: Int64) { room.usage }

    /// Takes `bytes` (whole blocks, the last one of a file short) from the cap before data is written. Where they do not
    /// fit, extents are evicted. False where that is not enough. Called under no lock that a holder's `relinquish` takes.
    func makeRoom(for bytes: Int64) -> Bool {
        if room.reserve(bytes) { return true }
        // More than is needed right now, as each discard costs a transaction: a sixteenth of the cap, at most two
        // extents.
        let slack = min(room.cap / 16, 2 * BlockSize.extent)
        let shortfall = room.shortfall(bytes)
        guard shortfall > 0 else { return room.reserve(bytes) }
        do throws(CacheError) {
            _ = try evict(shortfall, slack: slack)
        } catch {
            if error != .closed, error != .busy { disk.failed(error) }
        }
        return room.reserve(bytes)
    }

    /// A block in memory, for bytes that the disk does not take.
    func memoryBlock(_ count: Int64) throws(CacheError) -> MemoryBlock {
        for isScarce in [false, true] {
            if let block = MemoryBlock(count, memory) { return block }
            // An eighth at a time: finding out what can go costs more than letting it go.
            var freed: Int64 = 0
            for object in files.objects.sorted(by: { $0.lastUse < $1.lastUse }) where object.file.isInMemory {
                guard freed < MemoryAccount.keptLimit / 8 else { break }
                freed += object.relinquishMemory(scarce: isScarce ? MemoryAccount.keptLimit / 8 - freed : nil)
            }
        }
        guard let block = MemoryBlock(count, memory) else { throw .full }
        return block
    }
}

extension CacheObject {
    fileprivate var lastUse: Int64 { file.lastUse }

    /// The longest unused extents first.
    fileprivate func relinquishMemory(scarce: Int64?) -> Int64 {
        let blocks = file.memoryBlocks.map { block in (file.withBlocks { $0.lastUse(ofExtent: block / 64) }, block) }
            .sorted { $0 < $1 }.map(\.1)
        let before = store.memory.bytes
        _ = holder?.relinquish(blocks.map { $0..<$0 + 1 }, scarce: scarce)
        return before - store.memory.bytes
    }
}
