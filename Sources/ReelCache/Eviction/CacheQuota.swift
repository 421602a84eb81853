import Glibc
import ReelCore
import ReelThreads

/// The limits of a cache: space, and time without a use.
package struct CacheLimits: Hashable, Sendable {
    /// Free disk space to keep, whatever the cap.
    package enum Floor: Hashable, Sendable {
        case bytes(Int64)
        case percent(Int)

        /// Bytes. - Parameter total: the disk's size in bytes.
        package func bytes(ofDisk total: Int64) -> Int64 {
            switch self {
            case .bytes(let bytes): bytes
            case .percent(let percent): total / 100 * Int64(percent)
            }
        }
    }

    /// Bytes, the index included.
    package var cap: Int64
    /// Free disk space to keep, whatever the cap.
    package var minimumFree: Floor
    /// Data unused for this long is evicted, nil if age evicts nothing.
    package var age: Duration?
    /// Bytes that should be free before they are needed, nil for as many as the cap allows.
    package var roomAhead: Int64?

    /// - Parameter cap: bytes.
    package init(cap: Int64, minimumFree: Floor = .percent(5), age: Duration? = nil, roomAhead: Int64? = nil) {
        self.cap = cap
        self.minimumFree = minimumFree
        self.age = age
        self.roomAhead = roomAhead
    }
}

/// Counts how much of the cap is in use: bytes of filled blocks, of blocks that are about to be filled, and of the
/// index.
final class CacheQuota: Sendable {
    /// The disk's space, in bytes.
    struct Disk: Sendable {
        var free: Int64
        var total: Int64
        /// The part that the index takes.
        var index: Int64 = 0
    }

    private struct State {
        var used: Int64
        var index: Int64 = 0
        /// The given cap, or less.
        var cap: Int64
        var untilMeasured: Int64 = 0
        var room: Int64 { cap - used - index }
    }

    private let limits: CacheLimits
    private let disk: @Sendable () -> Disk?
    private let state: Lock<State>

    init(_ limits: CacheLimits, used: Int64, disk: @escaping @Sendable () -> Disk?) {
        self.limits = limits
        self.disk = disk
        state = Lock(State(used: used, cap: max(0, limits.cap)))
        measure()
    }

    /// Takes `bytes` from the cap, as it was measured within the last 4 MiB. - Returns: false where they do not fit.
    func reserve(_ bytes: Int64) -> Bool {
        let (fits, isDue) = state.withLock { (state) -> (Bool, Bool) in
            state.untilMeasured -= bytes
            guard bytes <= state.cap, state.used + state.index <= state.cap - bytes else { return (false, false) }
            state.used += bytes
            return (true, state.untilMeasured <= 0)
        }
        if isDue { measure() }
        return fits
    }

    /// Gives back reserved bytes.
    func release(_ bytes: Int64) {
        state.withLock { state in
            assert(bytes <= state.used, "more released than was reserved")
            state.used = max(0, state.used - bytes)
        }
    }

    /// Counts bytes that an object holds beyond those of its row.
    func add(_ bytes: Int64) { state.withLock { $0.used += bytes } }

    /// Measures the disk. - Returns: bytes that must go before `bytes` fit; 0 or less where they fit.
    func shortfall(_ bytes: Int64) -> Int64 {
        measure()
        return state.withLock { $0.used + $0.index - $0.cap + bytes }
    }

    /// What the index leaves of the cap, as it was last measured.
    var capacity: Int64 { state.withLock { max(0, $0.cap - $0.index) } }

    /// The cap as it was last measured.
    var cap: Int64 { state.withLock { $0.cap } }

    /// What is freed beyond what is needed right now, because each discard costs a transaction: a sixteenth of the cap,
    /// at most two extents.
    var slack: Int64 { min(cap / 16, 2 * BlockSize.extent) }

    /// Bytes that fit now, as it was last measured; below zero where too many are there.
    var room: Int64 { state.withLock { $0.room } }

    /// Bytes of room that are made before they are needed: an eighth of the cap, 256 MiB at most, and none where that
    /// is less than two extents. Three quarters of it last for more than a third of a second at 500 MB/s: a sync beside
    /// as many writes takes as long.
    var ahead: Int64 { ahead(of: cap) }

    private func ahead(of cap: Int64) -> Int64 {
        if let given = limits.roomAhead { return given }
        let part = min(cap / 8, 32 * BlockSize.extent)
        return part < 2 * BlockSize.extent ? 0 : part
    }

    /// Less than three quarters of that is free. Each write asks: one lock.
    var isTight: Bool {
        state.withLock { state in
            let ahead = ahead(of: state.cap)
            return ahead > 0 && state.room < ahead / 4 * 3
        }
    }

    var usage: (used: Int64, cap: Int64) {
        measure()
        return state.withLock { ($0.used + $0.index, $0.cap) }
    }

    /// Measures the disk again.
    func measure() {
        let disk = disk()
        let asked = max(0, limits.cap)
        state.withLock { state in
            state.untilMeasured = 4 << 20
            state.cap = asked
            guard let disk else { return }
            state.index = disk.index
            let floor = limits.minimumFree.bytes(ofDisk: disk.total)
            state.cap = min(asked, max(0, state.used + disk.index + disk.free - floor))
        }
    }
}

/// Behind the name of an index that was set aside.
let setAsideSuffix = ".damaged-1"

/// Bytes that the index and its log take on the disk, and the index that was set aside.
func sizeOnDisk(ofIndex path: String) -> Int64 {
    sizeOnDisk(of: ["", "-wal", "-shm", setAsideSuffix, setAsideSuffix + "-wal"].map { path + $0 })
}

/// Bytes that these files take on the disk.
func sizeOnDisk(of paths: [String]) -> Int64 {
    paths.reduce(0) { sum, path in
        var status = stat()
        return lstat(path, &status) == 0 ? sum + Int64(status.st_blocks) * 512 : sum
    }
}

/// The disk of a file, by fstatvfs(3). Free means: free for an ordinary user.
func diskOf(_ descriptor: Int32) -> CacheQuota.Disk? {
    var status = statvfs()
    guard fstatvfs(descriptor, &status) == 0 else { return nil }
    return CacheQuota.Disk(
        free: diskBytes(status.f_bavail, of: status.f_frsize),
        total: diskBytes(status.f_blocks, of: status.f_frsize))
}

/// Converts units of statvfs(3) to bytes. Some file systems claim as many as a number can hold: this returns at most an
/// exbibyte, so that no sum of a few overflows.
package func diskBytes(_ count: UInt, of unit: UInt) -> Int64 {
    let (bytes, isTooLarge) = count.multipliedReportingOverflow(by: unit)
    return isTooLarge ? 1 << 60 : Int64(min(bytes, 1 << 60))
}
