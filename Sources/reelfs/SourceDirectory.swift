import Glibc
import ReelCache
import ReelCore

/// Where in the cache one source has its place.
enum SourceDirectory {
    /// Creates what leads to it. - Returns: its absolute path.
    static func prepare(_ source: String, _ options: MountOptions) throws(Failure) -> String {
        let root = try root(options)
        // A disk that is full, broken or read-only is no reason not to mount: reads then go past it.
        let sick: Set<Int32> = [EROFS, ENOSPC, EDQUOT, EIO]
        do throws(PathError) {
            close(try openTrusted(root, O_RDONLY | O_DIRECTORY, makesDirectories: true))
        } catch {
            switch error {
            case .system(_, let number) where sick.contains(number): break
            case .system(let folder, let number):
                throw .mount(
                    "cannot create the cache directory \(shown(folder)): \(reason(number)); choose another with "
                        + "--cache-dir")
            case .untrusted: throw .mount("the cache directory \(shown(root)): \(error)")
            }
        }
        guard access(root, W_OK | X_OK) == 0 || sick.contains(errno) || errno == ENOENT else {
            throw .mount(
                "the cache directory \(shown(root)) is not writable: \(reason()); choose another with --cache-dir")
        }
        return root + "/" + sourceDirectoryName(ResourceURL(source)?.text ?? source)
    }

    /// The cache directory, absolute.
    static func root(_ options: MountOptions) throws(Failure) -> String {
        if let chosen = options.cacheDirectory { return absolute(chosen) }
        return try standard()
    }

    /// `/var/cache/reelfs` for root, whose HOME depends on who calls; else as the XDG base directories say.
    static func standard() throws(Failure) -> String {
        if geteuid() == 0 { return "/var/cache/reelfs" }
        if let cache = getenv("XDG_CACHE_HOME").map({ String(cString: $0) }), cache.hasPrefix("/") {
            return cache + "/reelfs"
        }
        guard let home = homeDirectory() else {
            throw .mount("there is no home directory for the cache; choose one with --cache-dir")
        }
        return home + "/.cache/reelfs"
    }

    /// HOME where it is the user's own: mount.fuse3 says `/root` to everybody for whom mount(8) says nothing.
    private static func homeDirectory() -> String? {
        let said = getenv("HOME").map { String(cString: $0) }.flatMap { $0.hasPrefix("/") ? $0 : nil }
        var status = stat()
        if let said, stat(said, &status) == 0, status.st_uid == geteuid() { return said }
        guard let known = getpwuid(geteuid())?.pointee.pw_dir, known.pointee == CChar(UInt8(ascii: "/")) else {
            return said
        }
        return String(cString: known)
    }
}

/// - Parameter path: relative to the current directory, or absolute.
func absolute(_ path: String) -> String { path.hasPrefix("/") ? path : currentDirectory() + "/" + path }

func currentDirectory() -> String {
    guard let pointer = getcwd(nil, 0) else { return "/" }
    defer { free(pointer) }
    return String(cString: pointer)
}

/// The headers of the options and of their files, in order.
func loadHeaders(_ headers: [MountOptions.Header]) throws(Failure) -> [(name: String, value: String)] {
    var result: [(name: String, value: String)] = []
    for item in headers {
        switch item {
        case .field(let name, let value): result.append((name, value))
        case .file(let path):
            for line in numberedLines(try OptionText(path, kind: "header file", isSecret: true).text) {
                guard case .field(let name, let value)? = try? header(String(line.text)) else {
                    throw .usage("header file \(shown(path)), line \(line.number) must be \"Name: value\"")
                }
                result.append((name, value))
            }
        }
    }
    return result
}
