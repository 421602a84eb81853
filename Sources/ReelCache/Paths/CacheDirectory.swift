import CSQLite
import Glibc
import ReelCore

/// The name of a source's directory inside the cache: 32 hexadecimal digits made from the source's text (FNV-1a, 128
/// bits), so that neither the source nor its credentials can be read from it.
package func sourceDirectoryName(_ source: String) -> String {
    // Offset basis and prime of FNV-1a, 128 bits: RFC 9923.
    var hash: UInt128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d
    for byte in source.utf8 {
        hash = (hash ^ UInt128(byte)) &* 0x0000_0000_0100_0000_0000_0000_0000_013b
    }
    return hexadecimal(hash)
}

/// The directory of one source. This process holds its lock as long as this value lives.
final class CacheDirectory: Sendable {
    /// Without symbolic links, as SQLite wants it. All other calls use `own`.
    private let path: String
    /// A path of the directory itself, even after it was moved.
    let own: String
    /// `objects/`.
    let objects: Descriptor
    /// The reason why the directory cannot be changed, nil if it can.
    let failure: CacheError?
    /// nil if the cache is plain.
    let cipher: CacheCipher?
    private let lock: Descriptor
    private let itself: Descriptor

    /// Makes the directory where there is none (0700, its parents too) and takes its lock. Refuses a link, another
    /// user's directory, and one that other users could replace.
    init(_ directory: String, owner mountPoint: String, _ cipher: CacheCipher? = nil) throws(CacheError) {
        let itself = try openOwn(directory)
        guard fchmod(itself.number, 0o700) == 0 else { throw .last("chmod") }
        let own = "/proc/self/fd/\(itself.number)"
        // Its place cannot change: only root and its owner can write to the directories above.
        guard let resolved = realpath(own, nil) else { throw .last("realpath") }
        let path = String(cString: resolved)
        free(resolved)
        let lock = try lockFile(itself, owner: mountPoint, cipher)
        guard mkdirat(itself.number, "objects", 0o700) == 0 || errno == EEXIST else { throw .last("mkdir") }
        let objects = try Descriptor(directory: "objects", in: itself.number)
        self.cipher = cipher
        self.path = path
        self.itself = itself
        self.own = own
        self.lock = lock
        self.objects = objects
        failure = nil
    }

    /// Whether it has the name of this source's directory.
    func isNamed(after source: String) -> Bool {
        let name = cipher?.directoryName(source) ?? sourceDirectoryName(source)
        return path.utf8.split(separator: UInt8(ascii: "/")).last?.elementsEqual(name.utf8) == true
    }

    /// A directory on a disk that takes no writes: it is read as far as possible, and not changed.
    private init(readOnly directory: String, _ failure: CacheError, _ cipher: CacheCipher?) throws(CacheError) {
        let itself = (try? openOwn(directory, makes: false)) ?? .none
        let lock = try heldLock(itself, cipher)
        self.cipher = cipher
        path = directory
        own = itself.number < 0 ? directory : "/proc/self/fd/\(itself.number)"
        objects = (try? Descriptor(directory: "objects", in: itself.number)) ?? .none
        self.itself = itself
        self.lock = lock
        self.failure = failure
    }

    /// Does the same as the first `init`; on a disk that takes no writes it opens the directory for reading.
    static func open(
        _ directory: String, owner mountPoint: String, _ cipher: CacheCipher? = nil
    ) throws(CacheError) -> CacheDirectory {
        do throws(CacheError) {
            return try CacheDirectory(directory, owner: mountPoint, cipher)
        } catch {
            guard error.isSickDisk else { throw error }
            return try CacheDirectory(readOnly: directory, error, cipher)
        }
    }

    /// The path of the index, as SQLite wants it.
    var index: String { path + "/index.sqlite" }

    /// Removes the directory with everything in it. - Returns: bytes freed on the disk.
    func removeAll() -> Int64 {
        let freed = removeContents(itself.number)
        rmdir(path)
        return freed
    }

    /// Lets another daemon in before this value goes.
    func unlock() { flock(lock.number, LOCK_UN) }

    // A child process has the lock's file open until it runs its program.
    deinit { unlock() }

    /// The data file of a row; nil if no usable file is there.
    func open(_ row: ObjectRow) throws(CacheError) -> Descriptor? {
        try row.name?.open(in: objects, length: row.version.length)
    }

    /// The two connections to the index. A broken index is set aside and replaced: the cache is only a cache.
    func connections() throws(CacheError) -> (writer: IndexConnection, reader: IndexConnection) {
        var status = stat()
        let isStrange =
            fstatat(itself.number, "index.sqlite", &status, AT_SYMLINK_NOFOLLOW) == 0
            && status.st_mode & S_IFMT != S_IFREG
        if !isStrange, access(damageMark, F_OK) != 0, let pair = try openPair(index) { return pair }
        try setAside()
        unlink(damageMark)
        guard let pair = try openPair(index) else { throw .index(SQLITE_CORRUPT) }
        return pair
    }

    private func openPair(_ index: String) throws(CacheError) -> (writer: IndexConnection, reader: IndexConnection)? {
        // This call makes the file, not SQLite, so that its mode does not depend on the umask; its -wal and -shm take
        // the same mode.
        _ = try Descriptor("index.sqlite", in: itself.number, O_RDWR | O_CREAT)
        guard let writer = try openIndex(index, cipher), let reader = try openIndex(index, cipher) else { return nil }
        return (writer, reader)
    }

    /// A running daemon that met damage makes this file, because a start does not read pages deep inside.
    private var damageMark: String { own + "/index.sqlite.is-damaged" }

    /// The index is broken: the next start sets it aside.
    func markDamage() { _ = try? Descriptor(damageMark, O_WRONLY | O_CREAT) }

    /// Only the last one stays, to be looked into.
    private func setAside() throws(CacheError) {
        removeSetAside { _ in true }
        let index = own + "/index.sqlite"
        for suffix in ["-wal", "-shm"] { rename(index + suffix, index + setAsideSuffix + suffix) }
        // Somebody may have removed it, and left the mark.
        guard rename(index, index + setAsideSuffix) == 0 || errno == ENOENT else { throw .last("rename") }
    }

    /// Removes the index that was set aside if it takes more than this on the disk, and older ones. What stays counts
    /// into the cap.
    func limitSetAside(to most: Int64) {
        let isTooLarge = sizeOnDisk(of: [index + setAsideSuffix, index + setAsideSuffix + "-wal"]) > most
        removeSetAside { isTooLarge || !$0.hasPrefix("index.sqlite" + setAsideSuffix) }
    }

    private func removeSetAside(_ isUnwanted: (String) -> Bool) {
        for name in names(in: own) ?? [] where name.hasPrefix("index.sqlite.damaged-") && isUnwanted(name) {
            _ = remove(name, in: itself.number)
        }
    }
}

/// Goes from descriptor to descriptor, and follows no link. - Returns: bytes freed.
private func removeContents(_ directory: Int32) -> Int64 {
    (names(in: "/proc/self/fd/\(directory)") ?? []).reduce(0) { $0 + remove($1, in: directory) }
}

/// Removes an entry of a directory with all that is in it. - Returns: bytes freed.
private func remove(_ name: String, in directory: Int32) -> Int64 {
    var status = stat()
    guard fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else { return 0 }
    guard status.st_mode & S_IFMT == S_IFDIR else {
        return unlinkat(directory, name, 0) == 0 ? Int64(status.st_blocks) * 512 : 0
    }
    var freed: Int64 = 0
    if let folder = try? Descriptor(directory: name, in: directory) { freed = removeContents(folder.number) }
    unlinkat(directory, name, AT_REMOVEDIR)
    return freed
}

/// Takes the lock, and writes its holder into it for later openers.
private func lockFile(
    _ directory: borrowing Descriptor, owner mountPoint: String, _ cipher: CacheCipher?
) throws(CacheError) -> Descriptor {
    let lock = try Descriptor("lock", in: directory.number, O_RDWR | O_CREAT)
    try take(lock, cipher)
    guard ftruncate(lock.number, 0) == 0 else { throw .last("ftruncate") }
    let number = lock.number
    // Folder names may be private: a sealed one stands behind an empty line.
    let place = cipher.map { [UInt8(ascii: "\n")] + $0.seal(Array(mountPoint.utf8), of: "owner") }
    let owner = Array("\(getpid())\n".utf8) + (place ?? Array((mountPoint + "\n").utf8))
    guard pwrite(number, owner, owner.count, 0) == owner.count else { throw .last("pwrite") }
    return lock
}

/// Takes the lock of a directory that cannot be written: once it can, another daemon would change what this one reads.
/// - Returns: `.none` where there is none to take.
private func heldLock(
    _ directory: borrowing Descriptor, _ cipher: CacheCipher?
) throws(CacheError) -> Descriptor {
    guard directory.number >= 0, let lock = try? Descriptor("lock", in: directory.number, O_RDONLY) else {
        return .none
    }
    try take(lock, cipher)
    return lock
}

private func take(_ lock: borrowing Descriptor, _ cipher: CacheCipher?) throws(CacheError) {
    guard flock(lock.number, LOCK_EX | LOCK_NB) == 0 else {
        guard errno == EWOULDBLOCK else { throw .last("flock") }
        throw .inUse(by: mountPointOfOwner(lock, cipher))
    }
}

private func mountPointOfOwner(_ lock: borrowing Descriptor, _ cipher: CacheCipher?) -> String {
    let text = [UInt8](unsafeUninitializedCapacity: 8192) {
        $1 = max(0, lock.read(into: UnsafeMutableRawBufferPointer($0), at: 0))
    }
    let place = text.drop { $0 != UInt8(ascii: "\n") }.dropFirst()
    if let cipher { return String(decoding: cipher.open(Array(place.dropFirst()), of: "owner") ?? [], as: UTF8.self) }
    return String(decoding: place.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
}

/// Opens the directory itself. In a directory for all users another user may have made it first.
private func openOwn(_ path: String, makes: Bool = true) throws(CacheError) -> Descriptor {
    let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) ?? path.startIndex
    let above = try Descriptor(trusted: String(path[..<slash]), makes: makes)
    let name = String(path.unicodeScalars[slash...].drop { $0 == "/" })
    if makes, mkdirat(above.number, name, 0o700) != 0, errno != EEXIST { throw .last("mkdir") }
    let directory = openat(above.number, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    if directory < 0, errno == ELOOP || errno == ENOTDIR { throw .strangeDirectory }
    let itself = try Descriptor(directory, from: "open")
    guard try itself.status().st_uid == geteuid() else { throw .strangeDirectory }
    return itself
}
