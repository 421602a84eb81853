import ReelCore
import ReelFilesystem

/// The reads of one file that wait: `limit` of them for its ledger, the others in a queue.
///
/// Each read that the ledger holds makes every decision of it longer, and each decision is made under the file's lock
/// by a thread that serves the whole mount: thousands of reads of one file would keep the reads of all others waiting.
struct ParkedReads {
    struct Read: Sendable {
        let caller: any ParkedRead
        /// The node of the handle.
        let node: NodeID
        var range: ByteRange
        let deadline: Duration
        /// It waits for the bytes to be in the cache, and takes none.
        let isRepair: Bool
        /// Set where its reader may play, and reads on: its bytes should have been there, and its wait may be a stall.
        var wait: ReadWait?
    }

    /// Four for each place in a file that readahead keeps track of.
    static let limit = 4 * Readahead.cursorLimit

    /// The reads of the ledger.
    private var held: [Ledger.ReadID: Read] = [:]
    /// Oldest first.
    private var queue: [Read] = []
    private var nextID: Ledger.ReadID = 1

    var heldCount: Int { held.count }
    var queuedCount: Int { queue.count }

    /// - Returns: false where the read is for the ledger at once.
    mutating func enqueue(_ read: Read) -> Bool {
        guard held.count >= Self.limit || !queue.isEmpty else { return false }
        queue.append(read)
        return true
    }

    /// The ledger holds this read from here on. - Returns: its name there.
    mutating func hold(_ read: Read) -> Ledger.ReadID {
        defer { nextID += 1 }
        held[nextID] = read
        return nextID
    }

    /// Reports an event to the waits of the reads that the ledger holds.
    /// - Parameter range: only of those that want some of these bytes, nil for all.
    mutating func tellWaits(of range: ByteRange? = nil, _ event: (inout ReadWait) -> Void) {
        for id in held.keys where held[id]?.wait != nil {
            if let range, held[id]?.range.overlaps(range) == false { continue }
            event(&held[id]!.wait!)
        }
    }

    /// A read that the ledger held has its answer; nil where its caller has gone.
    mutating func take(_ id: Ledger.ReadID) -> Read? { held.removeValue(forKey: id) }

    /// The caller of a read has gone. - Returns: the name of the read where the ledger holds it.
    mutating func remove(_ caller: any ParkedRead) -> Ledger.ReadID? {
        if let index = queue.firstIndex(where: { $0.caller === caller }) {
            queue.remove(at: index)
            return nil
        }
        guard let id = held.first(where: { $0.value.caller === caller })?.key else { return nil }
        held[id] = nil
        return id
    }

    /// Takes the queued reads whose deadline has passed.
    mutating func takeLate(_ now: Duration) -> [Read] { takeQueued { $0.deadline <= now } }

    /// Takes these of the queued reads.
    mutating func takeQueued(where isMeant: (Read) -> Bool) -> [Read] {
        var (taken, left) = ([Read](), [Read]())
        // Each is asked about once: the answer may change meanwhile.
        for read in queue { if isMeant(read) { taken.append(read) } else { left.append(read) } }
        if !taken.isEmpty { queue = left }
        return taken
    }

    /// Takes the oldest queued reads, as many as the ledger has room for.
    mutating func takeNext() -> [Read] {
        let next = queue.prefix(max(0, Self.limit - held.count))
        queue.removeFirst(next.count)
        return Array(next)
    }

    /// Takes all queued reads.
    mutating func takeQueue() -> [Read] {
        defer { queue = [] }
        return queue
    }
}
