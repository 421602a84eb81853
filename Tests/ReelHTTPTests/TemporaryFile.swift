import Glibc

/// A file with some text, gone with the value.
struct TemporaryFile: ~Copyable {
    let path: String

    init(_ text: String) throws {
        var template = Array("/tmp/reelfs-test-XXXXXX".utf8CString)
        let descriptor = mkstemp(&template)
        guard descriptor >= 0 else { throw TemporaryFileError(errno: errno) }
        path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        _ = text.withCString { write(descriptor, $0, text.utf8.count) }
        close(descriptor)
    }

    deinit { unlink(path) }
}

struct TemporaryFileError: Error {
    var errno: Int32
}
