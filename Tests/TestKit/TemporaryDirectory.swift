import Glibc

/// Without the device the tests that mount are skipped, except in CI, where a missing mount must not look like a pass.
package let fuseIsUsable =
    access("/dev/fuse", R_OK | W_OK) == 0 || getenv("CI").map { String(cString: $0) } == "true"

/// A directory under the temporary one, removed at the end of `body`, which leaves it empty.
package func withTemporaryDirectory<Value>(
    below parent: String = "/tmp", _ body: (String) throws -> Value
) throws -> Value {
    var template = Array("\(parent)/reelfs-test-XXXXXX".utf8CString)
    guard let path = mkdtemp(&template).map({ String(cString: $0) }) else {
        throw ChildError(words: ["mkdtemp"], reason: String(cString: strerror(errno)))
    }
    let value = Result { try body(path) }
    guard rmdir(path) == 0 || errno == ENOENT else {
        let error = ChildError(words: ["rmdir", path], reason: String(cString: strerror(errno)))
        // What the body threw says more.
        _ = try value.get()
        throw error
    }
    return try value.get()
}

/// The text of a file, whole; empty where it cannot be read. Files of /proc have no size to read by.
package func contents(of path: String) -> String {
    guard let stream = fopen(path, "re") else { return "" }
    defer { fclose(stream) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    while case let count = fread(&buffer, 1, buffer.count, stream), count > 0 { bytes += buffer[..<count] }
    return String(decoding: bytes, as: UTF8.self)
}
