import Glibc
import ReelCore
import ReelThreads

/// The data files of one cache: makes, opens and removes them, and keeps the table of those in use.
///
/// A file is in use while it has a `CacheObject`, and then until it is committed. A file becomes held only under the
/// index's write lock, so an idle file stays idle as long as a thread holds that lock.
final class DataFiles: Sendable {
    private struct Entry {
        let file: DataFile
        weak var object: CacheObject?
        /// Living instances; two for a moment, as one dies while the next is made.
        var count = 0
        var isSuperseded = false
    }

    private struct State {
        var entries: [Int64: Entry] = [:]
        var lastRowInMemory: Int64 = 0
        var mayHaveEvictable = true
        /// The rows of files that were closed since the last commit began, and not opened again.
        var closed: Set<Int64> = []
        /// The last rows of files of which bytes were lent and may still lie in sockets.
        var lent: [Int64] = []
    }

    /// Far more than clients have not read to the end yet.
    private static let mostLent = 1024

    private let directory: CacheDirectory
    private let isWritable: Bool
    private let state = Lock(State())

    /// - Parameter isWritable: false: removes no file.
    init(_ directory: CacheDirectory, isWritable: Bool) {
        self.directory = directory
        self.isWritable = isWritable
    }

    // MARK: In use

    func file(_ row: Int64) -> DataFile? { state.withLock { $0.entries[row]?.file } }
    var all: [DataFile] { state.withLock { $0.entries.values.map(\.file) } }
    var idle: [DataFile] { state.withLock { $0.entries.values.filter { $0.count == 0 }.map(\.file) } }
    var objects: [CacheObject] { state.withLock { $0.entries.values.compactMap(\.object) } }

    /// The living instance of a file; nil where it has no holder.
    func held(_ row: Int64) -> CacheObject? { state.withLock { $0.entries[row]?.object } }
    func isHeld(_ row: Int64) -> Bool { state.withLock { ($0.entries[row]?.count ?? 0) > 0 } }
    func isSuperseded(_ row: Int64) -> Bool { state.withLock { $0.entries[row]?.isSuperseded ?? false } }
    func supersede(_ row: Int64, _ flag: Bool) { state.withLock { $0.entries[row]?.isSuperseded = flag } }

    /// The one living instance, or a new one.
    func object(_ file: DataFile, _ store: ObjectStore) -> CacheObject {
        if let living = held(file.row) { return living }
        let object = CacheObject(file, store)
        state.withLock { state in
            state.entries[file.row, default: Entry(file: file)].object = object
            state.entries[file.row]?.count += 1
            state.closed.remove(file.row)
        }
        return object
    }

    /// An instance is gone. - Returns: how many files were closed since the last commit began.
    func closed(_ file: DataFile) -> Int {
        state.withLock { state in
            state.entries[file.row]?.count -= 1
            if state.entries[file.row]?.count == 0 { state.closed.insert(file.row) }
            return state.closed.count
        }
    }

    func beginCommit() { state.withLock { $0.closed = [] } }

    @discardableResult func drop(_ row: Int64) -> DataFile? {
        let file = state.withLock { state in
            state.mayHaveEvictable = true
            return state.entries.removeValue(forKey: row)?.file
        }
        if file?.wasLent == true {
            state.withLock { $0.lent = $0.lent.filter { $0 != row }.suffix(Self.mostLent - 1) + [row] }
        }
        return file
    }

    /// Whether bytes of the file were lent when it was in use before.
    func wasLent(_ row: Int64) -> Bool { state.withLock { $0.lent.contains(row) } }

    /// False once a search of the index has found no closed file that may be evicted, until a file is closed or
    /// unpinned: a search looks at all extents, and comes with each write where the cache is full. Set under the
    /// index's write lock.
    var mayHaveEvictable: Bool {
        get { state.withLock { $0.mayHaveEvictable } }
        set { state.withLock { $0.mayHaveEvictable = newValue } }
    }

    /// A number for a file without a row: below zero, never used twice.
    func rowInMemory() -> Int64 {
        state.withLock { state in
            state.lastRowInMemory -= 1
            return state.lastRowInMemory
        }
    }

    // MARK: On the disk

    func create(_ name: FileName, length: Int64) throws(CacheError) -> Descriptor {
        try name.create(in: directory.objects, length: length)
    }

    /// The file of a row; nil if no usable file is there.
    func open(_ row: ObjectRow) throws(CacheError) -> Descriptor? { try directory.open(row) }

    /// Removes a file, unless the directory must not change.
    func remove(_ name: FileName?) {
        if isWritable { name?.remove(in: directory.objects) }
    }

    /// Removes data files without a row, which a daemon that died or an index that was set aside has left. Only names
    /// of our own form, one directory at a time.
    func sweep(_ index: CacheIndex) throws(CacheError) {
        guard isWritable else { return }
        for number in 0..<256 {
            let name = String(String(number + 256, radix: 16).suffix(2))
            let folder = try Descriptor.find(name, in: directory.objects.number, O_RDONLY | O_DIRECTORY)
            guard let folder else { continue }
            try index.write { (index) throws(CacheError) in
                let found = names(in: "/proc/self/fd/\(folder.number)")
                if found == nil, case let failure = CacheError.last("opendir"), failure.isShortage { throw failure }
                for file in (found ?? []).lazy.compactMap({ FileName(text: $0) }) where file.directory == name {
                    let sql = "SELECT 1 FROM objects WHERE file = ?"
                    if try index.first(sql, [.bytes(file.bytes)], { _ in true }) == nil { remove(file) }
                }
            }
        }
    }
}

/// The names of a directory, without `.` and `..`; nil with errno set.
package func names(in directory: String) -> [String]? {
    guard let stream = opendir(directory) else { return nil }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) {
            $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        if name != ".", name != ".." { names.append(name) }
    }
    return names
}

extension DataFile {
    convenience init(
        _ row: ObjectRow, _ descriptor: consuming Descriptor, _ blocks: BlockTable, _ cipher: CacheCipher?,
        wasLent: Bool = false
    ) {
        self.init(
            row: row.id, version: row.version, name: row.name, descriptor: descriptor, blocks: blocks,
            lastUse: row.lastUse, cipher: row.name.flatMap { cipher?.blockCipher($0, of: row.version.key) },
            wasLent: wasLent)
    }
}
