import CSQLite
import Glibc

/// The reason why a call on the cache failed. The texts never hold a URL's query, user or password.
package enum CacheError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Another daemon holds this source's directory. The mount point that it serves, "" if it has not written it yet.
    case inUse(by: String)
    /// The index was written by a newer program: its schema version, and the newest known here.
    case newerIndex(found: Int, known: Int)
    /// The directory belongs to another source.
    case otherSource
    /// The cache is encrypted, and no key was given.
    case encrypted
    /// The cache is plain, and a key was given.
    case plain
    /// The key is another one than the cache's.
    case wrongKey
    /// Something else stands in the directory's place, or another user owns it.
    case strangeDirectory
    /// Another user could replace a directory on the way to it.
    case untrusted(PathError)
    /// A system call failed: its name and errno.
    case system(String, Int32)
    /// SQLite's extended result code.
    case index(Int32)
    /// The cap leaves no space, and nothing can be evicted.
    case full
    /// The kernel, or a mapping, reads the data file itself.
    case busy
    /// A length below zero, or beyond that of any file.
    case badLength
    /// The store was closed.
    case closed

    /// A sentence for the user, without a capital and a full stop.
    package var description: String {
        switch self {
        case .inUse(let mountPoint) where mountPoint.isEmpty:
            "another reelfs uses this source's part of the cache directory at the moment: it is being mounted, or a "
                + "command works on the cache"
        case .inUse(let address) where !address.hasPrefix("/"):
            "this source is already served at \(address) with the same cache directory"
        case .inUse(let mountPoint):
            "this source is already mounted at \(mountPoint) with the same cache directory"
        case .newerIndex(let found, let known):
            "the cache was written by a newer reelfs (its format is \(found), known is \(known)): use that one, or "
                + "another cache directory"
        case .otherSource: "the cache directory belongs to another source: choose another cache directory"
        case .encrypted:
            "the cache is encrypted: give its key with --encrypt, or choose another cache directory with --cache-dir; if "
                + "the key is lost, `reelfs cache prune --lost-key` removes what it has sealed"
        case .plain:
            "the cache is not encrypted: choose another cache directory with --cache-dir, or remove this one before it "
                + "is used with --encrypt"
        case .wrongKey:
            "the key is not the one of this cache: give the right one, or choose another cache directory with "
                + "--cache-dir; if it is lost, `reelfs cache prune --lost-key` removes what it has sealed"
        case .strangeDirectory:
            "this source's part of the cache directory is no directory, or belongs to another user: remove it, or choose "
                + "another cache directory"
        case .untrusted(let error): "the cache directory cannot be used: \(error)"
        case .system(let call, let number):
            "the cache directory cannot be used: \(call): \(String(cString: strerror(number)))"
        case .index(let code): "the cache's index cannot be used: \(String(cString: sqlite3_errstr(code)))"
        case .full: "the cache is full and nothing in it can make way"
        case .busy: "the cached file is being read by the kernel itself"
        case .badLength: "a file of this length cannot be cached"
        case .closed: "the cache is closed"
        }
    }

    /// The error of the system call that just failed.
    static func last(_ call: String) -> CacheError { .system(call, errno) }

    /// The error of a call of SQLite that just failed on a connection. The system's own where SQLite got no descriptor
    /// or no memory: its code is then that of a disk that fails. sqlite.org/c3ref/system_errno.html
    static func sqlite(_ code: Int32, on connection: OpaquePointer?) -> CacheError {
        if code & 0xFF == SQLITE_NOMEM || code == ioerrNoMemory { return .system("malloc", ENOMEM) }
        guard [SQLITE_CANTOPEN, SQLITE_IOERR].contains(code & 0xFF), let connection else { return .index(code) }
        let cause = CacheError.system("open", sqlite3_system_errno(connection))
        return cause.isShortage ? cause : .index(code)
    }

    /// `SQLITE_IOERR_NOMEM`, a macro that Swift does not import.
    static let ioerrNoMemory = SQLITE_IOERR | 12 << 8

    /// True where this process, or the machine, has no descriptor or no memory left: that says nothing of the disk.
    var isShortage: Bool {
        guard case .system(_, let number) = self else { return false }
        return [EMFILE, ENFILE, ENOMEM].contains(number)
    }

    /// True where the directory is the right one, and only cannot be written, read or understood at present.
    var isSickDisk: Bool {
        switch self {
        case .system(_, let number):
            [ENOSPC, EDQUOT, EIO, EROFS, ENODEV, ENXIO, ESTALE, ETIMEDOUT].contains(number)
        case .index(let code):
            [SQLITE_FULL, SQLITE_IOERR, SQLITE_READONLY, SQLITE_CANTOPEN, SQLITE_BUSY, SQLITE_LOCKED, SQLITE_PROTOCOL]
                .contains(code & 0xFF)
        case .newerIndex: true
        case .inUse, .otherSource, .encrypted, .plain, .wrongKey, .strangeDirectory, .untrusted, .full, .busy,
            .badLength, .closed:
            false
        }
    }

    /// True where the index itself is broken, and not the disk, the memory or the query.
    var isDamage: Bool {
        guard case .index(let code) = self else { return false }
        return [SQLITE_CORRUPT, SQLITE_NOTADB].contains(code & 0xFF)
    }
}
