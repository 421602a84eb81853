import CLinux
import Glibc

/// - Parameter path: relative to the current directory, or absolute.
func absolute(_ path: String) -> String {
    path.utf8.first == UInt8(ascii: "/") ? path : currentDirectory() + "/" + path
}

/// The path before its last slash, and the name behind it; nil if there is no slash. By bytes, as the kernel cuts it: a
/// mark that combines with the slash would hide it from a comparison of Characters.
func cutAtLastSlash(_ path: String) -> (above: String, name: String)? {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return nil }
    return (
        String(decoding: path.utf8[..<slash], as: UTF8.self),
        String(decoding: path.utf8[slash...].dropFirst(), as: UTF8.self)
    )
}

func currentDirectory() -> String {
    guard let pointer = getcwd(nil, 0) else { return "/" }
    defer { free(pointer) }
    return String(cString: pointer)
}

/// The path without symbolic links; nil with errno set.
func realPath(_ path: String) -> String? {
    guard let pointer = realpath(path, nil) else { return nil }
    defer { free(pointer) }
    return String(cString: pointer)
}

/// A variable of the environment.
func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

/// The text of a small file of the system; nil with errno set.
func textOfFile(_ path: String) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    return String(decoding: readAll(descriptor), as: UTF8.self)
}

/// Reads up to the end of file.
func readAll(_ descriptor: Int32) -> [UInt8] {
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while true {
        let count = read(descriptor, &chunk, chunk.count)
        if count < 0, errno == EINTR { continue }
        if count <= 0 { return bytes }
        bytes += chunk[..<count]
    }
}

/// Writes everything, or gives up at the first error (a reader that has gone).
func writeAll(_ descriptor: Int32, _ bytes: [UInt8]) {
    var rest = bytes[...]
    while !rest.isEmpty {
        let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR { continue }
        if count <= 0 { return }
        rest = rest.dropFirst(count)
    }
}

/// A pipe whose ends close on exec.
struct Pipe {
    let reading: Int32
    let writing: Int32

    /// nil with errno set.
    init?() {
        // Above the standard descriptors and the daemon's third, so that handing one over never overwrites another.
        var ends: [Int32] = [-1, -1]
        guard pipe2(&ends, O_CLOEXEC) == 0 else { return nil }
        reading = fcntl(ends[0], F_DUPFD_CLOEXEC, 10)
        writing = fcntl(ends[1], F_DUPFD_CLOEXEC, 10)
        let number = errno
        close(ends[0])
        close(ends[1])
        guard reading >= 0, writing >= 0 else {
            if reading >= 0 { close(reading) }
            errno = number
            return nil
        }
    }

    /// All of them, or none: nil with errno set.
    static func make(_ count: Int) -> [Pipe]? {
        var pipes: [Pipe] = []
        while pipes.count < count {
            guard let pipe = Pipe() else {
                let number = errno
                for pipe in pipes { pipe.closeBoth() }
                errno = number
                return nil
            }
            pipes.append(pipe)
        }
        return pipes
    }

    func closeBoth() {
        close(reading)
        close(writing)
    }
}
