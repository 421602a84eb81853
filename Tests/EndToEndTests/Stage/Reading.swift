import CFuse
import Glibc
import ReelCore
import TestKit
import Testing

/// A system call that failed.
struct SystemFailure: Error, Equatable, CustomStringConvertible {
    var call: String
    var number: Int32

    init(_ call: String, _ number: Int32 = errno) {
        self.call = call
        self.number = number
    }

    var description: String { "\(call): \(String(cString: strerror(number)))" }
}

/// The errno of a call that says -1 when it fails; 0 where it does not.
func code(_ call: () -> Int) -> Int32 {
    errno = 0
    return call() < 0 ? errno : 0
}

/// The errno that reading a file to its end comes to; 0 where it does not fail.
func readingCode(_ path: String) -> Int32 {
    do {
        _ = try readWhole(path)
        return 0
    } catch { return error.number }
}

/// By read(2), to its end.
func readWhole(_ path: String, flags: Int32 = 0) throws(SystemFailure) -> [UInt8] {
    let file = try OpenDescriptor(path, flags: flags)
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 256 << 10)
    while true {
        let count = read(file.number, &chunk, chunk.count)
        if count < 0 { throw SystemFailure("read") }
        if count == 0 { return bytes }
        bytes += chunk[..<count]
    }
}

/// An open file, closed with the value.
struct OpenDescriptor: ~Copyable {
    let number: Int32

    init(_ path: String, flags: Int32 = 0) throws(SystemFailure) {
        number = open(path, O_RDONLY | O_CLOEXEC | flags)
        guard number >= 0 else { throw SystemFailure("open") }
    }

    /// The same open file under another number.
    init(copying other: Int32) throws(SystemFailure) {
        number = fcntl(other, F_DUPFD_CLOEXEC, 0)
        guard number >= 0 else { throw SystemFailure("fcntl") }
    }

    deinit { close(number) }

    /// Whole, or up to the end of file: pread(2) may give less for no reason but a signal.
    func bytes(at offset: Int64, count: Int) throws(SystemFailure) -> [UInt8] {
        var bytes = [UInt8](repeating: 0xEE, count: count)
        var done = 0
        while done < count {
            let got = bytes.withUnsafeMutableBytes {
                pread(number, $0.baseAddress! + done, count - done, off_t(offset) + off_t(done))
            }
            if got < 0 { throw SystemFailure("pread") }
            if got == 0 { break }
            done += got
        }
        return Array(bytes[..<done])
    }

    func attributes() throws(SystemFailure) -> stat {
        var result = stat()
        guard fstat(number, &result) == 0 else { throw SystemFailure("fstat") }
        return result
    }

    /// The whole file through the page cache, given to `body`.
    func mapped<Value>(_ body: (UnsafeRawBufferPointer) throws -> Value) throws -> Value {
        let length = Int(try attributes().st_size)
        guard let start = mmap(nil, length, PROT_READ, MAP_SHARED, number, 0), start != MAP_FAILED else {
            throw SystemFailure("mmap")
        }
        defer { munmap(start, length) }
        return try body(UnsafeRawBufferPointer(start: start, count: length))
    }
}

func attributes(_ path: String) throws(SystemFailure) -> stat {
    var result = stat()
    guard lstat(path, &result) == 0 else { throw SystemFailure("lstat") }
    return result
}

func extendedAttribute(_ name: String, of path: String) throws(SystemFailure) -> String {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = getxattr(path, name, &bytes, bytes.count)
    if count < 0 { throw SystemFailure("getxattr") }
    return String(decoding: bytes[..<count], as: UTF8.self)
}

func names(in path: String) throws(SystemFailure) -> [String] {
    guard let folder = opendir(path) else { throw SystemFailure("opendir") }
    defer { closedir(folder) }
    var result: [String] = []
    while true {
        errno = 0
        guard let entry = readdir(folder) else {
            if errno != 0 { throw SystemFailure("readdir") }
            return result.filter { $0 != "." && $0 != ".." }.sorted()
        }
        withUnsafePointer(to: &entry.pointee.d_name) { pointer in
            pointer.withMemoryRebound(to: CChar.self, capacity: 256) { result.append(String(cString: $0)) }
        }
    }
}

func writeFile(_ path: String, _ bytes: some Sequence<UInt8>) throws(SystemFailure) {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw SystemFailure("open") }
    defer { close(descriptor) }
    let bytes = Array(bytes)
    var done = 0
    while done < bytes.count {
        let count = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress! + done, bytes.count - done) }
        guard count > 0 else { throw SystemFailure("write") }
        done += count
    }
}

extension FileOrigin {
    var length: Int64 { version.length }
    var whole: [UInt8] { expectedBytes(ByteRange(0, length)) }

    /// nil where `bytes` are the whole file, else what is wrong.
    func difference(from bytes: [UInt8]) -> String? {
        if Int64(bytes.count) != length { return "\(bytes.count) bytes instead of \(length)" }
        return bytes.withUnsafeBytes { version.bytes.firstDifference(in: $0, from: 0) }.map { "differs at \($0)" }
    }

    /// nil where the file at `path` reads as this one, else what is wrong.
    func difference(inFile path: String) -> String? {
        do { return difference(from: try readWhole(path)) } catch { return error.description }
    }
}

/// Starts a program that reads a file to its end, and waits until it has read `count` bytes.
/// - Parameter copy: a file for them. As text of a pipe they would take a busy machine longer to decode than to fetch.
func startReader(of path: String, into copy: String, atLeast count: Int64) throws -> ChildProcess {
    let reader = try ChildProcess(["sh", "-c", "exec cat \"$0\" > \"$1\"", path, copy])
    #expect(eventually { ((try? attributes(copy).st_size) ?? -1) >= count }, "no bytes came")
    return reader
}
