import Glibc

/// Where in the cache one source has its place.
enum SourceDirectory {
    /// Creates it, 0700. - Returns: its absolute path.
    static func prepare(_ request: MountRequest) throws(Failure) -> String {
        let root = absolute(try chosen(request.options))
        let path = root + "/" + name(of: request.source)
        for folder in ancestors(root) where mkdir(folder, 0o700) != 0 && errno != EEXIST && errno != EROFS {
            throw .mount(
                "cannot create the cache directory \(shown(folder)): \(reason()); choose another with --cache-dir")
        }
        guard mkdir(path, 0o700) == 0 || errno == EEXIST, access(path, W_OK | X_OK) == 0 else {
            throw .mount(
                "the cache directory \(shown(root)) is not writable: \(reason()); choose another with --cache-dir")
        }
        return path
    }

    private static func chosen(_ options: MountOptions) throws(Failure) -> String {
        if let directory = options.cacheDirectory { return directory }
        return try standard()
    }

    /// `/var/cache/reelfs` for root, whose HOME depends on who calls; else as the XDG base directories say.
    static func standard() throws(Failure) -> String {
        if geteuid() == 0 { return "/var/cache/reelfs" }
        if let cache = getenv("XDG_CACHE_HOME").map({ String(cString: $0) }), cache.hasPrefix("/") {
            return cache + "/reelfs"
        }
        let home = getenv("HOME") ?? getpwuid(geteuid())?.pointee.pw_dir
        guard let home, home.pointee == CChar(UInt8(ascii: "/")) else {
            throw .mount("there is no home directory for the cache; choose one with --cache-dir")
        }
        return String(cString: home) + "/.cache/reelfs"
    }

    /// The host for people who look into the cache, and a hash (FNV-1a, 64 bits) of the source without its password.
    static func name(of source: String) -> String {
        let hash = redacted(source).utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) {
            ($0 ^ UInt64($1)) &* 0x100_0000_01b3
        }
        let digits = String(hash, radix: 16)
        let authority = source.firstRange(of: "://").map { source[$0.upperBound...].prefix { !"/?#".contains($0) } }
        let host = (authority ?? "list").split(separator: "@").last ?? "list"
        let safe = host.prefix(80).map {
            $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "." || $0 == "-") ? $0 : "_"
        }
        return String(safe.drop { $0 == "." }) + "-" + String(repeating: "0", count: 16 - digits.count) + digits
    }

    private static func absolute(_ path: String) -> String {
        path.hasPrefix("/") ? path : currentDirectory() + "/" + path
    }

    private static func ancestors(_ path: String) -> [String] {
        let indices = path.indices.dropFirst().filter { path[$0] == "/" } + [path.endIndex]
        return indices.map { String(path[..<$0]) }
    }
}

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
            let descriptor = open(path, O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { throw .usage("header file \(shown(path)): \(reason())") }
            defer { close(descriptor) }
            let lines = String(decoding: readAll(descriptor), as: UTF8.self).split(whereSeparator: \.isNewline)
            for line in lines where line.first != "#" {
                guard case .field(let name, let value) = try header(String(line)) else {
                    throw .usage("header file \(shown(path)) must hold lines of \"Name: value\"")
                }
                result.append((name, value))
            }
        }
    }
    return result
}
