import Glibc
import ReelCache
import ReelCore
import ReelSources
import ReelThreads

/// The directory of one source in the cache.
enum SourceDirectory {
    /// Creates the directories above it. - Returns: its absolute path, the cipher of an encrypted cache, and the user's
    /// key.
    static func prepare(
        _ source: String, _ options: MountOptions
    ) throws(Failure) -> (path: String, cipher: CacheCipher?, key: SecretBytes?) {
        let root = try root(options)
        // A disk that is full, broken or read-only does not prevent a mount: reads then bypass the cache.
        let tolerated: Set<Int32> = [EROFS, ENOSPC, EDQUOT, EIO]
        do throws(PathError) {
            close(try openTrusted(root, O_RDONLY | O_DIRECTORY, makesDirectories: true))
        } catch {
            switch error {
            case .system(_, let number) where tolerated.contains(number): break
            case .system(let folder, let number):
                throw .mount(
                    "cannot create the cache directory \(shown(folder)): \(reason(number)); choose another with "
                        + "--cache-dir")
            case .untrusted: throw .mount("the cache directory \(shown(root)): \(error)")
            }
        }
        guard access(root, W_OK | X_OK) == 0 || tolerated.contains(errno) || errno == ENOENT else {
            throw .mount(
                "the cache directory \(shown(root)) is not writable: \(reason()); choose another with --cache-dir")
        }
        let name = name(of: source, options)
        guard let encryption = options.encryption else {
            if CacheKeyFile.isEncrypted(root) { throw .mount("\(CacheError.encrypted)") }
            return (root + "/" + sourceDirectoryName(name), nil, nil)
        }
        let key = try encryption.key(within: .seconds(min(30, options.timeout)))
        do throws(CacheError) {
            let cipher = try CacheKeyFile.open(root, key, makes: true)
            return (root + "/" + cipher.directoryName(name), cipher, key)
        } catch {
            throw .mount("\(error)")
        }
    }

    /// What the directory is named after, without credentials; the index keeps it, without its query.
    static func name(of source: String, _ options: MountOptions) -> String {
        SourceKinds.url(of: source).map { options.cacheKey.directory(of: $0) } ?? source
    }

    /// The cache directory, absolute.
    static func root(_ options: MountOptions) throws(Failure) -> String {
        if let chosen = options.cacheDirectory { return absolute(chosen) }
        return try standard()
    }

    /// `/var/cache/reelfs` for root, whose HOME depends on the caller; otherwise the XDG base directory.
    static func standard() throws(Failure) -> String {
        if geteuid() == 0 { return "/var/cache/reelfs" }
        if let cache = environment("XDG_CACHE_HOME"), cache.hasPrefix("/") { return cache + "/reelfs" }
        guard let home = homeDirectory() else {
            throw .mount("this user has no home directory for the cache; choose a directory with --cache-dir")
        }
        return home + "/.cache/reelfs"
    }

    /// HOME if it is the user's own: mount.fuse3 sets `/root` where mount(8) sets none, for every user.
    static func homeDirectory() -> String? {
        let said = environment("HOME").flatMap { $0.hasPrefix("/") ? $0 : nil }
        var status = stat()
        if let said, stat(said, &status) == 0, status.st_uid == geteuid() { return said }
        guard let known = Account.own?.home, known.hasPrefix("/") else { return said }
        return known
    }

    /// The file of logins that the user has, or may yet make.
    static var netrcFile: String? { homeDirectory().map { $0 + "/.netrc" } }
}
