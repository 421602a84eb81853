import Glibc
import TestKit
import Testing

/// A mount namespace of its own for one test: with `mount.reelfs` installed, a fstab, a user and a cache that are not
/// the machine's, and `/dev/fuse` open to everybody. Whatever runs in it ends with it.
final class MountNamespace: Sendable {
    /// A number that no account has.
    static let userID: uid_t = 61234
    static let user = String(userID)
    let scene: Scene
    private let holder: ChildProcess

    /// `$0` is the scene's folder, `$1` the program, `$2` the user. `/etc` and `/usr/sbin` are covered by overlays;
    /// what programs leave in `/run` and `/var/cache` stays in the namespace.
    ///
    /// The copies of other tests' mounts go first: they would keep those mounts from ending.
    private static let script = """
        for place in $(cut -d ' ' -f 5 /proc/self/mountinfo | grep '^/tmp/' | tac); do
            umount --lazy --no-canonicalize "$place" 2> /dev/null || true
        done
        cd "$0" && chmod 755 .
        mkdir layer device home theirs
        mount -t tmpfs -o dev,suid,mode=755 tmpfs layer
        mkdir layer/etc layer/etc.work layer/sbin layer/sbin.work layer/bin
        cp "$1" layer/bin/reelfs
        ln -s "$0/layer/bin/reelfs" layer/sbin/mount.reelfs
        ln -s "$0/layer/bin/reelfs" layer/sbin/reelfs
        mount -t overlay -o lowerdir=/etc,upperdir=layer/etc,workdir=layer/etc.work overlay /etc
        mount -t overlay -o lowerdir=/usr/sbin,upperdir=layer/sbin,workdir=layer/sbin.work overlay /usr/sbin
        for place in /run /var/cache; do mount -t tmpfs -o mode=755 tmpfs $place; done
        # Where nodes cannot be made, the machine's own has to do.
        if mknod -m 666 layer/fuse c 10 229; then mount --bind layer/fuse /dev/fuse; fi
        echo "viewer:x:$2:$2::$0/home:/bin/sh" >> /etc/passwd
        : > /etc/fstab
        : > /etc/fuse.conf
        chown "$2:$2" home theirs
        echo ready
        exec sleep 600
        """

    fileprivate init(_ scene: Scene) throws {
        self.scene = scene
        holder = try ChildProcess(
            ["unshare", "--mount", "--propagation", "private", "--", "sh", "-e", "-c"]
                + [Self.script, scene.folder, program, Self.user])
        let isReady = eventually { holder.said.output == "ready\n" || holder.poll() != nil }
        guard isReady, holder.said.output == "ready\n" else {
            end()
            throw ChildError(words: ["unshare"], reason: holder.said.errors)
        }
    }

    /// For programs outside, as `nsenter` or mount(8)'s `-N`.
    var path: String { "/proc/\(holder.pid)/ns/mnt" }

    /// A path of the namespace for those who are not in it.
    func outside(_ path: String) -> String { "/proc/\(holder.pid)/root\(path)" }

    /// The scene's second mount point, which belongs to the ordinary user.
    var theirs: String { scene.folder + "/theirs" }

    /// Runs a program without any environment, in `/`.
    func run(_ words: [String], asUser: Bool = false, within limit: Duration = .seconds(30)) throws -> ChildProcess.End
    {
        try ChildProcess.run(entered(words, asUser: asUser), within: limit)
    }

    func start(_ words: [String], asUser: Bool = false) throws -> ChildProcess {
        try ChildProcess(entered(words, asUser: asUser))
    }

    private func entered(_ words: [String], asUser: Bool) -> [String] {
        let user = ["setpriv", "--reuid", Self.user, "--regid", Self.user, "--clear-groups", "--"]
        return ["nsenter", "--mount=\(path)", "--", "env", "-i"] + (asUser ? user : []) + words
    }

    func write(_ text: String, to path: String, mode: mode_t = 0o644) throws {
        try writeFile(outside(path), text.utf8)
        chmod(outside(path), mode)
    }

    func fstab(_ lines: String...) throws { try write(lines.map { $0 + "\n" }.joined(), to: "/etc/fstab") }

    /// The whole mountinfo.
    var table: String { "/proc/\(holder.pid)/mountinfo" }

    /// The scene's mounts of reelfs, as mountinfo has them.
    var mounts: [(mountpoint: String, type: String, source: String, line: String)] {
        (contents(table) ?? "").split(separator: "\n").compactMap { line in
            let fields = line.split(separator: " ").map { String($0) }
            guard let dash = fields.firstIndex(of: "-"), fields[dash + 1].hasSuffix("reelfs") else { return nil }
            guard fields[4].hasPrefix(scene.folder) else { return nil }
            return (unescaped(fields[4]), fields[dash + 1], unescaped(fields[dash + 2]), String(line))
        }
    }

    var processes: [pid_t] {
        guard let mine = link(path) else { return [] }
        return EndToEndTests.processes().filter { link("/proc/\($0)/ns/mnt") == mine }
    }

    /// The daemon or the watcher (`kind`) of a mount point.
    func process(_ kind: String, of mountpoint: String) -> pid_t? {
        processes.first { pid in
            let words = commandLine(of: pid)
            return words.count == 4 && words[1] == kind && words[kind == "watch" ? 2 : 3] == mountpoint
                && isRunning(pid)
        }
    }

    fileprivate func end() {
        for pid in processes where pid != holder.pid { kill(pid, SIGKILL) }
        holder.signal(SIGKILL)
        // A look whether it runs would miss a zombie, which has to be waited for.
        _ = try? holder.wait(within: .seconds(5))
    }
}

/// Runs `body` with a scene in a namespace of its own. A test that hangs loses its processes, so that its calls fail.
func withNamespace(limit: Duration = .seconds(90), _ body: (MountNamespace) throws -> Void) throws {
    try withScene(limit: limit + .seconds(30)) { scene in
        let namespace = try MountNamespace(scene)
        let watchdog = Watchdog(after: limit) { namespace.end() }
        defer {
            namespace.end()
            if watchdog.callOff() { Issue.record("the test was cut short: something hung for \(limit)") }
        }
        try body(namespace)
    }
}

/// A server that answers every path but `…/film.mkv` with a listing of that film.
func anywhereServer(_ film: FileOrigin) throws -> ScriptedServer {
    let page =
        "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><pre><a href=\"../\">../</a>\r\n"
        + "<a href=\"film.mkv\">film.mkv</a>   14-Nov-2023 22:13   \(film.length)\r\n</pre></body></html>"
    return try ScriptedServer { request in
        request.path.hasSuffix("/film.mkv")
            ? film.answer(request) : ServerStep.answer(200, [("Content-Type", "text/html")], body: page)
    }
}

private func link(_ path: String) -> String? {
    var bytes = [UInt8](repeating: 0, count: 256)
    let count = bytes.withUnsafeMutableBytes {
        readlink(path, $0.baseAddress!.assumingMemoryBound(to: CChar.self), $0.count)
    }
    return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
}

/// What the kernel and fstab(5) write spaces and the like: `\` and three octal digits.
func unescaped(_ field: String) -> String {
    var bytes: [UInt8] = []
    var rest = Array(field.utf8)[...]
    while let byte = rest.popFirst() {
        if byte == UInt8(ascii: "\\"), let value = UInt8(String(decoding: rest.prefix(3), as: UTF8.self), radix: 8) {
            bytes.append(value)
            rest = rest.dropFirst(3)
        } else {
            bytes.append(byte)
        }
    }
    return String(decoding: bytes, as: UTF8.self)
}
