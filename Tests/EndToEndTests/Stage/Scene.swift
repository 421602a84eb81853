import Glibc
import Synchronization
import TestKit
import Testing

/// The program under test.
let program = builtProgram("reelfs")

/// All tests that mount; each needs `/dev/fuse`.
@Suite(.enabled(if: fuseIsUsable, "/dev/fuse cannot be opened"), .onWorkers) struct EndToEnd {}

/// A temporary directory with a place to mount on, a cache and the mounts of one test.
final class Scene: Sendable {
    let folder: String
    /// The key of the cache, where the test runs with encrypted ones; 32 bytes in hexadecimal.
    let key: String?
    private let daemons = Mutex<[pid_t: String]>([:])

    fileprivate init() throws {
        var template = Array("/tmp/reelfs-scene-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw SystemFailure("mkdtemp") }
        folder = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        for name in ["cache", "mount", "work"] { mkdir(folder + "/" + name, 0o755) }
        key = CacheKind.isEncrypted ? folder + "/key" : nil
        if let key {
            try writeFile(key, Array(String(repeating: "5e", count: 32).utf8))
            chmod(key, 0o600)
        }
    }

    var cache: String { folder + "/cache" }
    var mountpoint: String { folder + "/mount" }

    /// The options of mounts and of commands on the cache that the kind of cache wants.
    var keyOptions: [String] { key.map { ["--encrypt", "file:" + $0] } ?? [] }

    /// A path for the test's own files.
    func work(_ name: String) -> String { folder + "/work/" + name }

    /// A folder that everybody may write to, as the home of a program that refuses to run as root. - Returns: its path.
    func openHome() -> String {
        let home = work("home")
        mkdir(home, 0o777)
        chmod(home, 0o777)
        chmod(folder, 0o711)
        return home
    }

    /// - Parameter on: the name of another mount point of this scene.
    @discardableResult
    func mount(
        _ source: String, _ options: [String] = [], on name: String = "mount", through words: [String] = [],
        environment: [String: String] = [:]
    ) throws -> Mounted {
        let end = try tryMount(source, options, on: name, through: words, environment: environment)
        guard end.status == 0 else { throw Unmounted(sentence: end.errors) }
        let path = folder + "/" + name
        let pid = try #require(daemon(of: path), "no daemon serves \(path)")
        daemons.withLock { $0[pid] = path }
        return Mounted(path: path, pid: pid)
    }

    /// Replaces the daemon of a mount.
    /// - Parameter mayWarn: the origin has trouble, of which the new daemon warns on the same stderr.
    /// - Returns: the mount with the new one.
    func restart(_ mount: Mounted, mayWarn: Bool = false, environment: [String: String] = [:]) throws -> Mounted {
        let words = [program, "restart", mount.path]
        let end = try ChildProcess.run(words, environment: environment, within: .seconds(60))
        guard end.status == 0, mayWarn || end.errors.isEmpty else { throw Unmounted(sentence: end.errors) }
        // The old one closes its files last.
        eventually { !isRunning(mount.pid) }
        let pid = try #require(daemon(of: mount.path), "no daemon serves \(mount.path)")
        daemons.withLock { $0[pid] = mount.path }
        return Mounted(path: mount.path, pid: pid)
    }

    /// What a user sees: exit status and sentence.
    /// - Parameter through: words before the program's own, such as those that run it in another network.
    func tryMount(
        _ source: String, _ options: [String] = [], on name: String = "mount", through prefix: [String] = [],
        environment: [String: String] = [:]
    ) throws -> ChildProcess.End {
        let path = folder + "/" + name
        mkdir(path, 0o755)
        // What is fetched for nobody would blur what other tests count; a later option overrides it.
        let words =
            prefix + [program, "mount", source, path, "--cache-dir", cache, "--prebuffer", "0"] + keyOptions + options
        // Where the test's own proxies would stand between.
        return try ChildProcess.run(
            words, environment: ["no_proxy": "127.0.0.1,localhost"].merging(environment) { $1 }, within: .seconds(30))
    }

    /// Mounts what is remembered. Two seconds are the origin's to answer, and where a busy machine takes them it is
    /// asked in one mount more.
    func mountAnswered(_ source: String, _ options: [String]) throws -> ChildProcess.End {
        for _ in 0..<10 {
            let end = try tryMount(source, options)
            guard end.status == 0, end.errors.contains("did not answer in time") else { return end }
            _ = try ChildProcess.run([program, "umount", mountpoint])
        }
        return try tryMount(source, options)
    }

    /// Ends everything, however it stands. Never waits for the daemons' good will.
    fileprivate func end() {
        endMounts()
        abandonMounts()
        _ = try? ChildProcess.run(["rm", "-rf", "--one-file-system", folder])
    }

    /// Ends the mounts of the program under test and their daemons, before the disks that they stand on.
    func endMounts() {
        for path in mounts(of: " fuse.reelfs ") where umount2(path, 0) != 0 {
            umount2(path, Int32(MNT_FORCE | MNT_DETACH))
        }
        eventually(within: .seconds(5)) { running.isEmpty }
        let left = running
        for pid in left { kill(pid, SIGKILL) }
        eventually(within: .seconds(5)) { !left.contains { isRunning($0) } }
    }

    fileprivate func cutShort() {
        for pid in running { kill(pid, SIGKILL) }
        abandonMounts()
    }

    /// The daemons that are left; the number of one that has gone may be somebody else's by now.
    private var running: [pid_t] {
        daemons.withLock { $0 }.filter { isRunning($0.key) && isDaemon($0.key, of: $0.value) }.map(\.key)
    }

    private func abandonMounts() {
        for path in mounts() { umount2(path, Int32(MNT_FORCE | MNT_DETACH)) }
    }

    /// - Parameter kind: what its line of mountinfo has to hold.
    private func mounts(of kind: String = "") -> [String] {
        mountTable().filter { kind.isEmpty || $0.line.contains(kind) }.map { $0.mountpoint }
            .filter { $0.hasPrefix(folder + "/") }
    }
}

struct Unmounted: Error, CustomStringConvertible {
    var sentence: String
    var description: String { "not mounted: \(sentence)" }
}

/// Runs `body` with a scene of its own and clears away whatever it leaves. A test that hangs loses its daemons and
/// mounts after `limit`, so that its calls fail.
func withScene(limit: Duration = .seconds(180), _ body: (Scene) throws -> Void) throws {
    let scene = try Scene()
    let watchdog = Watchdog(after: limit) { scene.cutShort() }
    defer {
        scene.end()
        if watchdog.callOff() { Issue.record("the test was cut short: something hung for \(limit)") }
    }
    try body(scene)
}

/// A scene with a mount of a scripted server, whose listing has the one file `film.mkv`.
func withMount(
    of film: FileOrigin, _ options: [String] = [], limit: Duration = .seconds(180),
    _ body: (Scene, ScriptedServer, Mounted) throws -> Void
) throws {
    let server = try filmServer(film)
    defer { server.stop() }
    try withScene(limit: limit) { scene in try body(scene, server, try scene.mount(server.address, options)) }
}

/// A running mount.
struct Mounted {
    var path: String
    /// The daemon's pid.
    var pid: pid_t

    func file(_ name: String) -> String { path + "/" + name }

    /// Like `reelfs umount`, which waits until the cache is written.
    func unmount() throws {
        let end = try ChildProcess.run([program, "umount", path])
        // It waits for a busy disk, though not forever.
        #expect(end.status == 0 || end.errors.contains("is still writing the cache"), "\(end.errors)")
        #expect(eventually(within: .seconds(60)) { !isRunning(pid) }, "the daemon stays")
    }

    /// Stops all threads of the daemon: each goes on until it has seen the signal. `kill(pid, SIGCONT)` ends it.
    func freeze() {
        kill(pid, SIGSTOP)
        let threads = "/proc/\(pid)/task"
        let isFrozen = eventually {
            let states = ((try? names(in: threads)) ?? []).compactMap { contents("\(threads)/\($0)/stat") }
            return states.allSatisfy { $0.contains(") T ") }
        }
        #expect(isFrozen)
    }

    /// Ends like a crash: the mount stays behind.
    func crash() {
        kill(pid, SIGKILL)
        eventually { !isRunning(pid) }
    }

    /// Throws away what the kernel keeps of a file.
    func dropPages(_ name: String) {
        let descriptor = open(file(name), O_RDONLY | O_CLOEXEC)
        posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED)
        close(descriptor)
    }
}
