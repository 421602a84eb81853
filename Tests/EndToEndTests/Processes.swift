import Glibc

/// True for a process that lives: a zombie with other threads does, as one of them may be deep in a sync.
func isRunning(_ pid: pid_t) -> Bool {
    guard let fields = contents("/proc/\(pid)/stat")?.split(separator: ")").last?.split(separator: " ") else {
        return false
    }
    // proc(5): the state is the third field, the number of threads the twentieth.
    return fields.count > 17 && (fields[0] != "Z" || (Int(fields[17]) ?? 0) > 1)
}

/// The process that serves a mount, by its command line: also one that answers nobody.
func daemon(of mountpoint: String) -> pid_t? {
    process { $0.count == 4 && $0[0] == "reelfs" && $0[1] == "daemon" && $0[3] == mountpoint }
}

func watcher(of mountpoint: String) -> pid_t? {
    process { $0.count == 4 && $0[0] == "reelfs" && $0[1] == "watch" && $0[2] == mountpoint }
}

/// - Parameter matches: given the words of a command line.
private func process(_ matches: ([Substring]) -> Bool) -> pid_t? {
    guard let folder = opendir("/proc") else { return nil }
    defer { closedir(folder) }
    while let entry = readdir(folder) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) {
            $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        guard let pid = pid_t(name), let line = contents("/proc/\(pid)/cmdline") else { continue }
        if matches(line.split(separator: "\0")) { return pid }
    }
    return nil
}

struct MountLine {
    var mountpoint: String
    var line: String
}

func mountTable() -> [MountLine] {
    (contents("/proc/self/mountinfo") ?? "").split(separator: "\n").compactMap { line in
        let fields = line.split(separator: " ")
        return fields.count > 4 ? MountLine(mountpoint: String(fields[4]), line: String(line)) : nil
    }
}

/// A value of /proc/PID/status, in KiB: `VmHWM` is the peak of resident memory.
func memory(_ field: String, of pid: pid_t) -> Int? {
    let line = contents("/proc/\(pid)/status")?.split(separator: "\n").first { $0.hasPrefix(field + ":") }
    return line?.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) }
}

func contents(_ path: String) -> String? {
    try? String(decoding: readWhole(path), as: UTF8.self)
}
