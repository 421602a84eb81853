import ReelCore
import Synchronization

/// The blocks of one data file that are in memory on their way to the disk, or were a moment ago: see `Staging`.
///
///     filling ──all bytes came──▶ whole ⇄ writing ──▶ landed ──▶ gone
///        ⇅
///     writing (spilt) ──▶ gone
///
/// From writing back where the disk refused. Any of them goes when its block is lost or discarded; a write that
/// runs then is waited for (`Staging.remove`).
final class StagedBlocks: Sendable {
    enum Stage: Sendable { case filling, whole, writing, landed }

    private struct Entry {
        let memory: MemoryBlock
        var stage = Stage.filling
    }

    private let entries = Mutex<[Int: Entry]>([:])
    /// Spares the hit path a lock where there are none.
    private let count = Atomic(0)

    var isEmpty: Bool { count.load(ordering: .acquiring) == 0 }

    /// Its bytes, also where they are on the disk by now.
    subscript(block: Int) -> MemoryBlock? { isEmpty ? nil : entries.withLock { $0[block]?.memory } }

    func stage(of block: Int) -> Stage? { isEmpty ? nil : entries.withLock { $0[block]?.stage } }

    /// Its bytes, where the disk does not have them.
    func alone(_ block: Int) -> MemoryBlock? { memory(of: block) { $0 != .landed } }

    /// Its bytes, where some are still to come.
    func filling(_ block: Int) -> MemoryBlock? { memory(of: block) { $0 == .filling } }

    private func memory(of block: Int, where isMeant: (Stage) -> Bool) -> MemoryBlock? {
        if isEmpty { return nil }
        return entries.withLock { entries in entries[block].flatMap { isMeant($0.stage) ? $0.memory : nil } }
    }

    func holdsAlone(_ block: Int) -> Bool { alone(block) != nil }

    func add(_ block: Int, _ memory: MemoryBlock) { change { $0[block] = Entry(memory: memory) } }

    func isWhole(_ block: Int) { change { $0[block]?.stage = .whole } }

    /// nil where there is nothing of it to write, any more or yet.
    func beginWriting(_ block: Int) -> MemoryBlock? { begin(block, from: .whole) }

    /// The same of one that is not whole, and goes to the disk in its pieces.
    func beginSpilling(_ block: Int) -> MemoryBlock? { begin(block, from: .filling) }

    private func begin(_ block: Int, from stage: Stage) -> MemoryBlock? {
        change { entries in
            guard entries[block]?.stage == stage else { return nil }
            entries[block]?.stage = .writing
            return entries[block]?.memory
        }
    }

    /// - Returns: false where it has gone meanwhile.
    func endWriting(_ block: Int, _ memory: MemoryBlock, hasLanded: Bool) -> Bool {
        change { entries in
            guard let entry = entries[block], entry.memory === memory else { return false }
            entries[block]?.stage = hasLanded ? .landed : .whole
            if hasLanded { memory.land() }
            return true
        }
    }

    /// What comes of it from here on goes where the rest is.
    func endSpilling(_ block: Int, _ memory: MemoryBlock, hasLanded: Bool) {
        change { entries in
            guard entries[block]?.memory === memory else { return }
            if hasLanded { entries[block] = nil } else { entries[block]?.stage = .filling }
        }
    }

    /// Its memory is for another, once who reads it now has done so. Nothing where the disk does not have it.
    func giveUp(_ block: Int) {
        change { entries in if entries[block]?.stage == .landed { entries[block] = nil } }
    }

    /// The same of all that the disk has.
    func giveUpLanded() {
        guard !isEmpty else { return }
        change { entries in entries = entries.filter { $0.value.stage != .landed } }
    }

    /// Those that are not whole yet. - Returns: which they were.
    func removeFilling(_ blocks: Range<Int>) -> [Int] {
        change { entries in
            let filling = entries.filter { blocks.contains($0.key) && $0.value.stage == .filling }.map(\.key)
            for block in filling { entries[block] = nil }
            return filling
        }
    }

    func remove(_ blocks: Range<Int>) {
        guard !isEmpty else { return }
        change { entries in for block in entries.keys where blocks.contains(block) { entries[block] = nil } }
    }

    private func change<Result>(_ body: (inout [Int: Entry]) -> Result) -> Result {
        entries.withLock { entries in
            defer { count.store(entries.count, ordering: .releasing) }
            return body(&entries)
        }
    }
}
