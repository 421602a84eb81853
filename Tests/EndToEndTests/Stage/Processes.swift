import Glibc
import TestKit
import Testing

/// Runs a program that ends with status 0. - Returns: its output.
@discardableResult
func succeed(_ words: [String], in directory: String = "/") throws -> String {
    let end = try ChildProcess.run(words, directory: directory, within: .seconds(40))
    #expect(end.status == 0, "\(words.joined(separator: " ")): \(end.output)\(end.errors)")
    return end.output
}

/// VLC plays it to a transport stream, as fast as it would show it. It refuses to run as root.
/// - Parameters:
///   - home: of `Scene.openHome`.
///   - copy: in it.
func vlc(_ words: [String], home: String, to copy: String) throws -> ChildProcess.End {
    let other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
    let quiet = ["cvlc", "-q", "--intf", "dummy", "--no-media-library"]
    return try ChildProcess.run(
        (geteuid() == 0 ? other : []) + quiet + ["--sout=#std{access=file,mux=ts,dst=\(copy)}"] + words
            + ["vlc://quit"],
        environment: ["HOME": home, "no_proxy": "127.0.0.1,localhost"], within: .seconds(90))
}

/// A line with a sum for each picture of a film, behind lines that begin with `#`.
func pictureSums(of film: String) throws -> String {
    try succeed(["ffmpeg", "-v", "error", "-i", film, "-map", "0:v", "-f", "framemd5", "-"])
}

func pictureCount(_ sums: String) -> Int { sums.split(separator: "\n").count { !$0.hasPrefix("#") } }

/// True for a process that lives: a zombie with other threads does, as one of them may be deep in a sync.
func isRunning(_ pid: pid_t) -> Bool {
    guard let fields = contents("/proc/\(pid)/stat")?.split(separator: ")").last?.split(separator: " ") else {
        return false
    }
    // proc(5): the state is the third field, the number of threads the twentieth.
    return fields.count > 17 && (fields[0] != "Z" || (Int(fields[17]) ?? 0) > 1)
}

/// What the threads of a process do, for the words of a failure: name, state and the kernel's function of each.
func threads(of pid: pid_t) -> String {
    let tasks = (try? names(in: "/proc/\(pid)/task")) ?? []
    return tasks.map { task in
        let place = "/proc/\(pid)/task/\(task)/"
        let state = contents(place + "stat")?.split(separator: ")").last?.split(separator: " ").first ?? "?"
        let words = ["comm", "wchan"].map { contents(place + $0)?.split(separator: "\n").first ?? "?" }
        return "\(words[0]) \(state) \(words[1])"
    }.joined(separator: ", ")
}

/// The process that serves a mount, by its command line: also one that answers nobody.
func daemon(of mountpoint: String) -> pid_t? { processes().first { isDaemon($0, of: mountpoint) } }

func isDaemon(_ pid: pid_t, of mountpoint: String) -> Bool {
    let words = commandLine(of: pid)
    return words.count == 4 && words[0] == "reelfs" && words[1] == "daemon" && words[3] == mountpoint
}

func watcher(of mountpoint: String) -> pid_t? {
    processes().first { pid in
        let words = commandLine(of: pid)
        return words.count == 4 && words[0] == "reelfs" && words[1] == "watch" && words[2] == mountpoint
    }
}

/// Empty for one that has ended.
func commandLine(of pid: pid_t) -> [Substring] { (contents("/proc/\(pid)/cmdline") ?? "").split(separator: "\0") }

/// All that are there.
func processes() -> [pid_t] { ((try? names(in: "/proc")) ?? []).compactMap { pid_t($0) } }

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
