import ReelCore
import Synchronization

/// One sparse file with its row in the index; outlives its `CacheObject` until what it holds is committed.
final class DataFile: Sendable {
    /// `objects.id`.
    let row: Int64
    let version: Version
    let name: FileName
    let descriptor: Descriptor
    let lastUse: Atomic<Int64>
    /// fdatasync failed once: what the page cache still shows may be gone later, so nothing is read or written any
    /// more.
    let isBroken = Atomic(false)
    private let state: Mutex<FillState>

    init(row: Int64, version: Version, name: FileName, descriptor: consuming Descriptor, map: BlockMap, lastUse: Int64)
    {
        self.row = row
        self.version = version
        self.name = name
        self.descriptor = descriptor
        self.lastUse = Atomic(lastUse)
        state = Mutex(FillState(durable: map))
    }

    func fill<Result: Sendable>(_ change: (inout FillState) -> Result) -> Result { state.withLock { change(&$0) } }

    var filledBytes: Int64 { fill { $0.map.filledBytes } }

    /// Gives the disk back what lies in no filled block: leftovers of streams that were cut, of a crash.
    func punchUnfilled(_ map: BlockMap) throws(CacheError) {
        var block = 0
        while block < map.blockCount {
            let start = block
            // Whole empty extents are the rule in a file of which little is cached.
            while block < map.blockCount, !map[block] {
                block += block % 64 == 0 && map.extents[block / 64] == 0 ? 64 : 1
            }
            if start < block {
                let lower = Int64(start) * BlockSize.block
                try descriptor.punch(lower, Int64(min(block, map.blockCount)) * BlockSize.block - lower)
            }
            block += 1
        }
    }

    /// True where every filled block really has data: a file that was cut and grown again reads as zeros.
    func holds(_ map: BlockMap) -> Bool {
        var block = 0
        while block < map.blockCount {
            guard map[block] else {
                block += block % 64 == 0 && map.extents[block / 64] == 0 ? 64 : 1
                continue
            }
            let start = block
            while block < map.blockCount, map[block] { block += 1 }
            let upper = min(Int64(block) * BlockSize.block, map.length)
            guard descriptor.hasData(Int64(start) * BlockSize.block, upper) else { return false }
        }
        return true
    }
}
