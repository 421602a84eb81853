import Glibc
import ReelCore
import ReelThreads

/// The name of the program that a thread belongs to, as ps(1) shows it; nil where it has ended or is in another
/// namespace. Reads two files of proc(5), and so takes some microseconds: for reads that wait for the network anyway.
func programName(ofThread thread: Int32) -> String? {
    guard thread > 0, let status = procFile("/proc/\(thread)/status") else { return nil }
    let lines = status.split(separator: "\n")
    guard let line = lines.first(where: { $0.hasPrefix("Tgid:") }),
        let process = Int32(line.dropFirst(5).drop { $0 == "\t" || $0 == " " }),
        let name = procFile("/proc/\(process)/comm")
    else { return nil }
    return name.split(separator: "\n").first.map { String($0) }
}

/// The first two kilobytes of a file.
private func procFile(_ path: String) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 2048)
    let count = read(descriptor, &bytes, bytes.count)
    return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
}
