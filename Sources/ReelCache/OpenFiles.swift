import Synchronization

/// The data files in use, by row: those with a `CacheObject`, and those whose last one is gone but not yet committed.
///
/// A file becomes held only under the writer's gate; so what is idle there stays idle for as long as the gate is held.
final class OpenFiles: Sendable {
    private struct Entry {
        let file: DataFile
        weak var object: CacheObject?
        /// Instances alive; briefly two, as one dies while the next is made.
        var count = 0
        var isSuperseded = false
    }

    private struct State {
        var entries: [Int64: Entry] = [:]
        var lastRowInMemory: Int64 = 0
    }

    private let state = Mutex(State())

    func file(_ row: Int64) -> DataFile? { state.withLock { $0.entries[row]?.file } }
    var all: [DataFile] { state.withLock { $0.entries.values.map(\.file) } }
    var idle: [DataFile] { state.withLock { $0.entries.values.filter { $0.count == 0 }.map(\.file) } }
    var objects: [CacheObject] { state.withLock { $0.entries.values.compactMap(\.object) } }

    /// The living instance of a file that somebody holds.
    func held(_ row: Int64) -> CacheObject? { state.withLock { $0.entries[row]?.object } }
    func isHeld(_ row: Int64) -> Bool { state.withLock { ($0.entries[row]?.count ?? 0) > 0 } }
    func isSuperseded(_ row: Int64) -> Bool { state.withLock { $0.entries[row]?.isSuperseded ?? false } }
    func supersede(_ row: Int64, _ flag: Bool) { state.withLock { $0.entries[row]?.isSuperseded = flag } }

    /// The one living instance, or a new one.
    func object(_ file: DataFile, _ store: Store) -> CacheObject {
        if let living = state.withLock({ $0.entries[file.row]?.object }) { return living }
        let object = CacheObject(file, store)
        state.withLock { state in
            var entry = state.entries[file.row] ?? Entry(file: file)
            entry.object = object
            entry.count += 1
            state.entries[file.row] = entry
        }
        return object
    }

    func closed(_ file: DataFile) { state.withLock { $0.entries[file.row]?.count -= 1 } }
    @discardableResult func drop(_ row: Int64) -> DataFile? {
        state.withLock { $0.entries.removeValue(forKey: row)?.file }
    }

    /// A number for a file without a row: below zero, never used twice.
    func rowInMemory() -> Int64 {
        state.withLock { state in
            state.lastRowInMemory -= 1
            return state.lastRowInMemory
        }
    }
}
