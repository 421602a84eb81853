import Glibc
import ReelCache
import ReelCore
import ReelFuse
import TestKit
import Testing

@testable import reelfs

/// The real program as a child, on a listing of one file.
@Suite("The command line", .serialized, .enabled(if: fuseIsUsable))
struct CommandTests {
    static let program = builtProgram("reelfs")

    /// Runs to the end of its output, so a daemon that kept stdout or stderr would hang here.
    static func run(_ arguments: [String]) throws -> (status: Int32, output: String) {
        let pipe = try #require(Pipe())
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, pipe.writing, 1)
        posix_spawn_file_actions_adddup2(&actions, pipe.writing, 2)
        let words = ([program] + arguments).map { strdup($0) }
        defer { for word in words { free(word) } }
        var pid = pid_t()
        let code = startingChild { posix_spawn(&pid, program, &actions, nil, words + [nil], environ) }
        close(pipe.writing)
        defer { close(pipe.reading) }
        try #require(code == 0)
        let output = String(decoding: readAll(pipe.reading), as: UTF8.self)
        var status: Int32 = 0
        waitpid(pid, &status, 0)
        return (status & 0x7F == 0 ? (status >> 8) & 0xFF : -1, output)
    }

    static let text = "Remote media as ordinary files.\n"

    struct Place {
        /// With a user, a password and a query that nobody else may see.
        var source: String
        var mountpoint: String
        var cache: String

        var control: String { cache + "/" + sourceDirectoryName(ResourceURL(source)!.text) + "/control" }
    }

    /// A listing with `hello.txt`, a mount point and a cache, all gone afterwards.
    static func withPlace<Value>(named name: String = "mnt", _ body: (Place) throws -> Value) throws -> Value {
        let page =
            "<html><title>Index of /</title><h1>Index of /</h1><pre><a href=\"hello.txt\">hello.txt</a></pre></html>"
        let server = try ScriptedServer { request in
            request.path.hasSuffix("/")
                ? ServerStep.answer(200, [("Content-Type", "text/html")], body: page) : ServerStep.answer(body: text)
        }
        defer { server.stop() }
        return try withTemporaryDirectory { root in
            let place = Place(
                source: "http://user:secret@127.0.0.1:\(server.port)/films, a/?sig=hidden",
                mountpoint: root + "/" + name, cache: root + "/cache")
            mkdir(place.mountpoint, 0o755)
            defer {
                umount2(place.mountpoint, Int32(MNT_FORCE | MNT_DETACH))
                removeTree(place.cache)
                rmdir(place.mountpoint)
            }
            return try body(place)
        }
    }

    static func daemon(of mountpoint: String) -> Int32? {
        let mount = Mount.on(mountpoint)
        return mount.map { StatusCommand.status(of: $0).pid }
    }

    @Test("A mount answers when the command returns, shows no secret, and is gone after umount")
    func life() throws {
        try Self.withPlace { place in
            let (mountpoint, cache) = (place.mountpoint, place.cache)
            let mounted = try Self.run([
                "mount", place.source, mountpoint, "--cache-dir", cache, "--header", "X-Key: topsecret",
            ])
            #expect(mounted.status == 0 && mounted.output == "")
            #expect(contents(of: mountpoint + "/hello.txt") == Self.text)
            let pid = try #require(Self.daemon(of: mountpoint))
            let words = contents(of: "/proc/\(pid)/cmdline")
            #expect(words.contains("daemon") && !words.contains("secret") && !words.contains("hidden"))
            let status = try Self.run(["status", mountpoint, "--json"])
            #expect(status.status == 0 && status.output.contains("\"path\":\"hello.txt\""))
            #expect(!status.output.contains("secret") && !status.output.contains("hidden"))
            let again = try Self.run(["mount", "http://other/", mountpoint, "--cache-dir", cache])
            #expect(again.status == 32 && again.output.contains("already mounted"))
            let unmounted = try Self.run(["umount", mountpoint])
            #expect(unmounted.status == 0, "\(unmounted)")
            #expect(!Mount.all().contains { $0.mountpoint == mountpoint })
            #expect(access(place.control, F_OK) != 0)
        }
    }

    @Test("SIGTERM ends a mount with a file open, and the directory is free")
    func terminated() throws {
        try Self.withPlace { place in
            let (mountpoint, cache) = (place.mountpoint, place.cache)
            #expect(try Self.run([place.source, mountpoint, "-o", "rw,noatime,cache_dir=\(cache)"]).status == 0)
            let descriptor = open(mountpoint + "/hello.txt", O_RDONLY | O_CLOEXEC)
            defer { close(descriptor) }
            kill(try #require(Self.daemon(of: mountpoint)), SIGTERM)
            #expect(eventually { !Mount.all().contains { $0.mountpoint == mountpoint } })
            #expect(eventually { access(place.control, F_OK) != 0 })
        }
    }

    /// The daemon's one child.
    static func watcher(of daemon: Int32) -> Int32? {
        Int32(contents(of: "/proc/\(daemon)/task/\(daemon)/children").split(separator: " ").first ?? "")
    }

    @Test("What kill -9 of daemon and watcher leaves is shown by status and healed by the next mount")
    func healed() throws {
        try Self.withPlace { place in
            let (mountpoint, cache) = (place.mountpoint, place.cache)
            let words = ["mount", place.source, mountpoint, "--cache-dir", cache]
            #expect(try Self.run(words).status == 0)
            let daemon = try #require(Self.daemon(of: mountpoint))
            let watcher = try #require(Self.watcher(of: daemon))
            kill(watcher, SIGKILL)
            // Gone before its pipe ends; the daemon does not bury it.
            #expect(eventually { contents(of: "/proc/\(watcher)/cmdline").isEmpty })
            kill(daemon, SIGKILL)
            #expect(eventually { Mountpoint.isDead(mountpoint) })
            let status = try Self.run(["status", mountpoint])
            #expect(status.status == 32 && status.output.contains("does not answer"))
            #expect(try Self.run(words).status == 0)
            #expect(contents(of: mountpoint + "/hello.txt") == Self.text)
            #expect(try Self.run(["umount", mountpoint]).status == 0)
        }
    }

    static let mistakes: [([String], Int32, String)] = [
        (["mount"], 1, "source"), (["mount", "http://h/"], 1, "mountpoint"),
        (["mount", "http://h/", "/tmp", "-o", "colour=red"], 1, "\"colour\""),
        (["mount", "http://h/", "/tmp", "--colour"], 1, "--colour"),
        (["mount", "http://h/", "/nonexistent/x"], 32, "/nonexistent/x"),
        (["http://h/", "/etc/passwd"], 32, "not a directory"), (["umount", "/tmp"], 32, "not a reelfs mount"),
        (["status", "/tmp"], 32, "not a reelfs mount"), (["daemon"], 1, "started by"),
        (["unmount", "/tmp"], 32, "not a reelfs mount"), (["statsu", "/tmp"], 1, "statsu"),
        (["mount", "-f", "http://h/", "/tmp"], 1, "--foreground"), (["mount", "-n", "/l", "/tmp"], 1, "mount.reelfs"),
        (["mount", "-t", "reelfs", "/l", "/tmp"], 1, "mount.reelfs"),
    ]

    static let secret = "https://joe:sec/ret?#x@127.0.0.1:1/?sig=sec"
    static let misplaced: [([String], Int32)] = [
        (["mount", secret, "/tmp"], 1), ([secret, "/tmp", "-f"], 1), (["mount", secret, "/tmp", "--foreground"], 1),
        (["mount", "gopher://joe:sec@h/", "/tmp"], 1), (["mount", "/list", secret], 32), (["status", secret], 32),
        (["umount", secret], 32), (["mount", "/list", "/tmp", secret], 1), (["status", "/tmp", secret], 1),
        (["mount", "/list", "/tmp", "--colour=" + secret], 1), (["mount", "/list", "/tmp", "-o", secret], 1),
    ]

    @Test("A URL that cannot be read, or stands where none belongs, is not repeated", arguments: misplaced.indices)
    func unrepeated(index: Int) throws {
        let (words, status) = Self.misplaced[index]
        let result = try Self.run(words)
        #expect(
            result.status == status && !result.output.contains("sec") && !result.output.contains("joe"), "\(result)")
        #expect(result.output.hasPrefix("reelfs: ") && result.output.split(separator: "\n").count == 1)
    }

    @Test("A mistake is one sentence and the status that mount(8) knows", arguments: mistakes.indices)
    func mistake(index: Int) throws {
        let (words, status, named) = Self.mistakes[index]
        let result = try Self.run(words)
        #expect(result.status == status && result.output.contains(named), "\(result)")
        #expect(result.output.hasPrefix("reelfs: ") && result.output.split(separator: "\n").count == 1)
    }
}
