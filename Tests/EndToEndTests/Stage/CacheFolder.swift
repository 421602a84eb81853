import CSQLite
import Glibc
import ReelThreads
import Synchronization
import TestKit

/// A cache directory as a stranger sees it: its files, and what its index says.
struct CacheFolder {
    var path: String

    /// Directories, one a source.
    var sources: [String] {
        ((try? names(in: path)) ?? []).map { "\(path)/\($0)" }.filter { access($0 + "/lock", F_OK) == 0 }
    }

    /// The index of the one source.
    var index: String { (sources.first ?? path) + "/index.sqlite" }
    var objects: String { (sources.first ?? path) + "/objects" }

    var dataFiles: [String] {
        sources.flatMap { source in
            ((try? names(in: source + "/objects")) ?? []).flatMap { folder -> [String] in
                let folder = "\(source)/objects/\(folder)"
                return ((try? names(in: folder)) ?? []).map { "\(folder)/\($0)" }
            }
        }
    }

    /// What all of it takes on the disk: data, index, log, directories.
    var bytesOnDisk: Int64 { Self.bytesOnDisk(path) }

    private static func bytesOnDisk(_ path: String) -> Int64 {
        guard let own = try? attributes(path) else { return 0 }
        let isDirectory = own.st_mode & S_IFMT == S_IFDIR
        let below = isDirectory ? ((try? names(in: path)) ?? []) : []
        return below.reduce(Int64(own.st_blocks) * 512) { $0 + bytesOnDisk("\(path)/\($1)") }
    }

    /// An extent of an object, as its row has it.
    struct Extent: Hashable {
        var object: Int64
        var extent: Int64
    }

    /// The committed blocks of all objects: bit n of a word is block 64 · extent + n. nil where the index cannot be
    /// read.
    var committed: [Extent: UInt64]? {
        // A running daemon has the index to itself, so a copy is looked at; one that is made in the middle of a commit
        // is as it was before or after.
        let copy = path + "-index-copy"
        for end in ["", "-wal"] {
            unlink(copy + end)
            guard let bytes = try? readWhole(self.index + end) else { continue }
            try? writeFile(copy + end, bytes)
        }
        defer { for end in ["", "-wal", "-shm"] { unlink(copy + end) } }
        var index: OpaquePointer?
        defer { sqlite3_close(index) }
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        guard sqlite3_open_v2(copy, &index, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK,
            sqlite3_prepare_v2(index, "SELECT object, extent, word FROM extents", -1, &statement, nil) == SQLITE_OK
        else { return nil }
        var result: [Extent: UInt64] = [:]
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW:
                let place = Extent(
                    object: sqlite3_column_int64(statement, 0), extent: sqlite3_column_int64(statement, 1))
                result[place] = UInt64(bitPattern: sqlite3_column_int64(statement, 2))
            case SQLITE_DONE: return result
            default: return nil
            }
        }
    }

    var committedBlocks: Int { (committed ?? [:]).values.reduce(0) { $0 + $1.nonzeroBitCount } }

    /// Writes the index's files back. Then a change of a mapped page has to ask the filesystem again, and a filesystem
    /// that refuses answers SIGBUS: what a sick disk comes to when it has been sick for a while.
    func syncIndex() {
        for end in ["", "-wal", "-shm"] {
            guard let descriptor = try? OpenDescriptor(index + end) else { continue }
            fsync(descriptor.number)
        }
    }

    /// Throws what the kernel keeps of the data files, so that they are read from the disk.
    func dropPages() {
        for file in dataFiles {
            guard let descriptor = try? OpenDescriptor(file) else { continue }
            fdatasync(descriptor.number)
            posix_fadvise(descriptor.number, 0, 0, POSIX_FADV_DONTNEED)
        }
    }
}

/// Looks again and again at what a cache takes on the disk, on a thread of its own.
final class CacheSampler: Sendable {
    private let largest = Mutex<Int64>(0)
    private let isStopped = Atomic(false)
    private let thread = Mutex<Thread?>(nil)

    init(_ cache: CacheFolder) {
        let thread = startThread { [self] in
            while !isStopped.load(ordering: .relaxed) {
                let now = cache.bytesOnDisk
                largest.withLock { $0 = max($0, now) }
                // 500 looks a second leave the processor to the readers.
                usleep(2000)
            }
        }
        self.thread.withLock { $0 = thread }
    }

    /// - Returns: the most that was seen, in bytes.
    @discardableResult
    func stop() -> Int64 {
        isStopped.store(true, ordering: .relaxed)
        thread.withLock { $0.take() }?.join()
        return largest.withLock { $0 }
    }
}

extension ScriptedServer {
    /// What the requests for files asked for. A confirmation is a range of one byte.
    func bytesAsked(of length: Int64) -> Int64 {
        fileRequests.reduce(0) { $0 + ($1.range(of: length)?.count ?? length) }
    }
}
