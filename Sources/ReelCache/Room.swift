import Glibc
import Synchronization

/// The account of the cap: bytes of filled blocks, of those that somebody is about to fill, and of the index.
final class Room: Sendable {
    /// What the disk has, in bytes.
    struct Disk: Sendable {
        var free: Int64
        var total: Int64
        /// What the index takes of it.
        var index: Int64 = 0
    }

    private struct State {
        var used: Int64
        var index: Int64 = 0
        /// The given cap, or less.
        var cap: Int64
        var untilMeasured: Int64 = 0
    }

    private let limits: CacheLimits
    private let disk: @Sendable () -> Disk?
    private let state: Mutex<State>

    init(_ limits: CacheLimits, used: Int64, disk: @escaping @Sendable () -> Disk?) {
        self.limits = limits
        self.disk = disk
        state = Mutex(State(used: used, cap: max(0, limits.cap)))
        measure()
    }

    /// Takes `bytes` where they fit under the cap as it was measured within the last 4 MiB.
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

    func release(_ bytes: Int64) {
        state.withLock { state in
            assert(bytes <= state.used, "more room given back than was taken")
            state.used = max(0, state.used - bytes)
        }
    }

    /// An object turned out to hold more than was known.
    func add(_ bytes: Int64) { state.withLock { $0.used += bytes } }

    /// Bytes that must go before `bytes` fit; 0 or less where they fit. Measures the disk.
    func shortfall(_ bytes: Int64) -> Int64 {
        measure()
        return state.withLock { $0.used + $0.index - $0.cap + bytes }
    }

    /// The cap as it was last measured.
    var cap: Int64 { state.withLock { $0.cap } }

    var usage: (used: Int64, cap: Int64) {
        measure()
        return state.withLock { ($0.used + $0.index, $0.cap) }
    }

    /// Looks at the disk again.
    func measure() {
        let disk = disk()
        let asked = max(0, limits.cap)
        state.withLock { state in
            state.untilMeasured = 4 << 20
            state.cap = asked
            guard let disk else { return }
            state.index = disk.index
            let floor =
                switch limits.minimumFree {
                case .bytes(let bytes): bytes
                case .percent(let percent): disk.total / 100 * Int64(percent)
                }
            state.cap = min(asked, max(0, state.used + disk.index + disk.free - floor))
        }
    }
}

/// fstatvfs(3): free is what an ordinary user may take.
func diskOf(_ descriptor: Int32) -> Room.Disk? {
    var status = statvfs()
    guard fstatvfs(descriptor, &status) == 0 else { return nil }
    return Room.Disk(
        free: diskBytes(status.f_bavail, of: status.f_frsize),
        total: diskBytes(status.f_blocks, of: status.f_frsize))
}

/// What statvfs(3) counts in blocks, in bytes. Some file systems tell of as many as a number can name: more than an
/// exbibyte is taken for one, so that no sum of a few overflows.
package func diskBytes(_ count: UInt, of unit: UInt) -> Int64 {
    let (bytes, isTooLarge) = count.multipliedReportingOverflow(by: unit)
    return isTooLarge ? 1 << 60 : Int64(min(bytes, 1 << 60))
}
