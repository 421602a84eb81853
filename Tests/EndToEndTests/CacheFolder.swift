import CSQLite
import Glibc
import TestKit

/// A cache directory as a stranger sees it: its files, and what its index says.
struct CacheFolder {
    var path: String

    /// Directories, one a source.
    var sources: [String] {
        ((try? names(in: path)) ?? []).map { "\(path)/\($0)" }.filter { access($0 + "/lock", F_OK) == 0 }
    }

    /// Of the one source.
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

    /// An extent of an object, as a row tells of it.
    struct Extent: Hashable {
        var object: Int64
        var extent: Int64
    }

    /// The committed blocks of all objects: bit n of a word is block 64 · extent + n. nil where the index cannot be
    /// read.
    var committed: [Extent: UInt64]? {
        var index: OpaquePointer?
        defer { sqlite3_close(index) }
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        guard sqlite3_open_v2(self.index, &index, SQLITE_OPEN_READONLY, nil) == SQLITE_OK,
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

    /// Throws what the kernel keeps of the data files, so that they are read from the disk.
    func dropPages() {
        for file in dataFiles {
            guard let descriptor = try? OpenDescriptor(file) else { continue }
            fdatasync(descriptor.number)
            posix_fadvise(descriptor.number, 0, 0, POSIX_FADV_DONTNEED)
        }
    }
}

extension ScriptedServer {
    /// What the requests for files asked for. A confirmation is a range of one byte.
    func bytesAsked(of length: Int64) -> Int64 {
        fileRequests.reduce(0) { $0 + ($1.range(of: length)?.count ?? length) }
    }
}
