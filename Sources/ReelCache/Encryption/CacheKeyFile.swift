import Glibc

/// The key of an encrypted cache directory: the file `key` in it holds a random master key, sealed with the user's. So
/// the user's key can change without a byte being written again, and a directory is encrypted as a whole or not at all.
package enum CacheKeyFile {
    /// Bytes of a key.
    package static let size = 32
    private static let name = "key"
    /// Begins the file, and is covered by the seal.
    private static let format = "reelfs key 1\n"

    /// Whether the cache directory is encrypted.
    package static func isEncrypted(_ root: String) -> Bool { access("\(root)/\(name)", F_OK) == 0 }

    /// The cipher of a cache directory.
    /// - Parameters:
    ///   - key: the user's, 32 bytes.
    ///   - makes: a directory without a key, and without a cache in it, gets a new one.
    /// - Throws: `.wrongKey`, `.plain`.
    package static func open(_ root: String, _ key: SecretBytes, makes: Bool) throws(CacheError) -> CacheCipher {
        let directory = try Descriptor(trusted: root)
        if makes, faccessat(directory.number, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0 {
            guard sourceDirectories(root).isEmpty else { throw .plain }
            do throws(CacheError) {
                try make(directory, key)
            } catch {
                guard error.isSickDisk else { throw error }
                // Such a disk keeps nothing, and a mount works in memory.
                return CacheCipher(master: SecretBytes(random: size))
            }
        }
        return CacheCipher(master: try master(directory, key))
    }

    /// Seals the master key with another key of the user's, in the place of the old one.
    package static func change(_ root: String, from old: SecretBytes, to new: SecretBytes) throws(CacheError) {
        let directory = try Descriptor(trusted: root)
        let sealed = sealed(try master(directory, old), new)
        let other = try write(sealed, directory)
        guard renameat(directory.number, other, directory.number, name) == 0 else { throw .last("rename") }
        fsync(directory.number)
    }

    /// Forgets the key, unless there is a source's directory left.
    package static func remove(_ root: String) {
        if sourceDirectories(root).isEmpty { unlink("\(root)/\(name)") }
    }

    /// Takes a source's directory whose key is lost out of an encrypted cache, with all in it.
    /// - Returns: bytes freed.
    /// - Throws: `.inUse`, and `.plain` where it needs no key.
    package static func removeSource(_ path: String) throws(CacheError) -> Int64 {
        // Its lock is held until all is gone.
        let directory = try CacheDirectory(path, owner: "")
        do throws(CacheError) {
            _ = try openIndex(directory.index)
            throw .plain
        } catch {
            guard error == .encrypted else { throw error }
        }
        return directory.removeAll()
    }

    /// The names of sources' directories in a cache directory, which reelfs has made: anything else there is not its
    /// own.
    package static func sourceDirectories(_ root: String) -> [String] {
        (names(in: root) ?? []).filter { name in
            var status = stat()
            guard name.utf8.count == 32, name.utf8.allSatisfy({ "0123456789abcdef".utf8.contains($0) }),
                lstat("\(root)/\(name)/index.sqlite", &status) == 0, status.st_mode & S_IFMT == S_IFREG,
                lstat("\(root)/\(name)", &status) == 0
            else { return false }
            return status.st_mode & S_IFMT == S_IFDIR
        }
    }

    // MARK: The file

    private static func make(_ directory: borrowing Descriptor, _ key: SecretBytes) throws(CacheError) {
        let other = try write(sealed(SecretBytes(random: size), key), directory)
        // Another mount may have made it in this moment: that one stays.
        let isMade = linkat(directory.number, other, directory.number, name, 0) == 0 || errno == EEXIST
        let error = CacheError.last("link")
        unlinkat(directory.number, other, 0)
        guard isMade else { throw error }
        fsync(directory.number)
    }

    /// - Returns: the name of a file that survives a power loss.
    private static func write(_ bytes: [UInt8], _ directory: borrowing Descriptor) throws(CacheError) -> String {
        let other = "\(name).\(FileName.random().text)"
        let file = try Descriptor(other, in: directory.number, O_WRONLY | O_CREAT | O_EXCL)
        do throws(CacheError) {
            try bytes.withUnsafeBufferPointer { (bytes) throws(CacheError) in
                try file.write(UnsafeRawBufferPointer(bytes), at: 0)
            }
            guard fsync(file.number) == 0 else { throw .last("fsync") }
            return other
        } catch {
            unlinkat(directory.number, other, 0)
            throw error
        }
    }

    private static func sealed(_ master: SecretBytes, _ key: SecretBytes) -> [UInt8] {
        Array(format.utf8) + CacheCipher(master: key).seal(master.bytes, of: format)
    }

    private static func master(_ directory: borrowing Descriptor, _ key: SecretBytes) throws(CacheError) -> SecretBytes
    {
        let file = try Descriptor(name, in: directory.number, O_RDONLY | O_NONBLOCK)
        var bytes = [UInt8](repeating: 0, count: 1024)
        let count = bytes.withUnsafeMutableBytes { file.read(into: $0, at: 0) }
        guard count >= 0 else { throw .system("pread", EIO) }
        bytes.removeLast(bytes.count - count)
        guard bytes.starts(with: format.utf8),
            var opened = CacheCipher(master: key).open(Array(bytes.dropFirst(format.utf8.count)), of: format)
        else { throw .wrongKey }
        defer { wipe(&opened) }
        guard opened.count == size else { throw .wrongKey }
        return opened.withUnsafeBytes { SecretBytes($0) }
    }
}

extension SecretBytes {
    /// Bytes of the kernel's random numbers. getrandom(2)
    convenience init(random count: Int) {
        self.init(count: count)
        var generator = SystemRandomNumberGenerator()
        for index in memory.indices { memory[index] = UInt8.random(in: .min ... .max, using: &generator) }
    }
}
