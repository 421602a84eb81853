import Glibc
import ReelCore
import TestKit
import Testing

/// A program on a terminal of its own.
final class PseudoTerminal {
    let pid: pid_t
    private let master: Int32
    private let slave: Int32
    private(set) var shown: [UInt8] = []

    init(_ words: [String], columns: UInt16, rows: UInt16, environment variables: [String: String] = [:]) throws {
        var (master, slave): (Int32, Int32) = (-1, -1)
        var name = [CChar](repeating: 0, count: 128)
        var size = winsize(ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
        guard openpty(&master, &slave, &name, nil, &size) == 0 else { throw SystemFailure("openpty") }
        for descriptor in [master, slave] { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        (self.master, self.slave) = (master, slave)
        let path = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        // Opened by the leader of a new session, it becomes its terminal.
        posix_spawn_file_actions_addopen(&actions, 0, path, O_RDWR, 0)
        posix_spawn_file_actions_adddup2(&actions, 0, 1)
        posix_spawn_file_actions_adddup2(&actions, 0, 2)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        unblockSignals(of: &attributes, flags: 0x80)  // POSIX_SPAWN_SETSID, _GNU_SOURCE
        let arguments = words.map { strdup($0) } + [nil]
        let pairs =
            (["TERM": "xterm", "PATH": "/usr/bin:/bin"].merging(variables) { $1 })
            .map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for pointer in arguments + pairs { free(pointer) } }
        var pid = pid_t()
        let code = startingChild { posix_spawn(&pid, words[0], &actions, &attributes, arguments, pairs) }
        self.pid = pid
        guard code == 0 else { throw SystemFailure("posix_spawn", code) }
    }

    deinit {
        kill(pid, SIGKILL)
        waitpid(pid, nil, 0)
        close(slave)
        close(master)
    }

    func type(_ keys: String) { _ = write(master, keys, keys.utf8.count) }

    func resize(columns: UInt16, rows: UInt16) {
        var size = winsize(ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
        _ = ioctl(master, UInt(TIOCSWINSZ), &size)
    }

    /// Whether keys are echoed and wait for the end of their line, as in a shell.
    var isCooked: Bool {
        var settings = termios()
        tcgetattr(slave, &settings)
        return settings.c_lflag & tcflag_t(ICANON | ECHO) == tcflag_t(ICANON | ECHO)
    }

    /// Reads what is shown until it holds `text`, at most ten seconds. - Returns: all since the last call.
    func wait(for text: String) -> String? {
        shown = []
        let end = ContinuousClock.now + .seconds(10)
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        while ContinuousClock.now < end {
            if String(decoding: shown, as: UTF8.self).contains(text) { return String(decoding: shown, as: UTF8.self) }
            var poller = pollfd(fd: master, events: Int16(POLLIN), revents: 0)
            guard poll(&poller, 1, 100) == 1 else { continue }
            let count = read(master, &chunk, chunk.count)
            if count <= 0 { break }
            shown += chunk[..<count]
        }
        return nil
    }

    /// Its exit status; 128 and the signal's number where a signal ended it.
    func end() -> Int32? {
        var status: Int32 = 0
        guard eventually(within: .seconds(10), { waitpid(pid, &status, WNOHANG) == pid }) else { return nil }
        return status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + status & 0x7F
    }
}

extension EndToEnd {
    @Suite struct TopTests {
        private static let film = FileOrigin(length: 8 << 20)
        private static let lastWords = "\u{1B}[?1049l"

        private func withTop(
            _ options: [String: String] = [:], _ body: (Mounted, PseudoTerminal) throws -> Void
        ) throws {
            try withMount(of: Self.film) { _, _, mount in
                let file = try OpenDescriptor(mount.file("film.mkv"))
                #expect(try file.bytes(at: 0, count: 2 << 20).count == 2 << 20)
                let terminal = try PseudoTerminal(
                    [program, "top", mount.path], columns: 80, rows: 24, environment: options)
                try body(mount, terminal)
                _ = file
            }
        }

        @Test("top shows the open film with its map, steers it by keys, and gives the terminal back at q")
        func keys() throws {
            try withTop { mount, terminal in
                let first = try #require(terminal.wait(for: "q quit"))
                #expect(first.contains("\u{1B}[?1049h"))
                #expect(first.contains("> film.mkv") && first.contains("[####"), "\(first)")
                #expect(first.contains("\u{1B}[7m"))
                #expect(!terminal.isCooked)
                terminal.type("P")
                #expect(terminal.wait(for: "pin film.mkv: done.") != nil)
                #expect(terminal.wait(for: ", pinned") != nil)
                let status = try ChildProcess.run([program, "status", "--json", mount.path]).output
                #expect(status.contains("\"isPinned\":true"), "\(status)")
                // To its last word, in 80 columns.
                terminal.type("?")
                #expect(terminal.wait(for: "q quits") != nil)
                // In a narrow window, too.
                terminal.resize(columns: 30, rows: 8)
                terminal.type("k")
                var rows = 24
                for _ in 0..<20 where rows > 8 {
                    rows = terminal.wait(for: "\u{1B}[J")?.split(separator: "\r\n").count ?? 24
                }
                #expect(rows <= 8)
                terminal.type("q")
                #expect(terminal.wait(for: Self.lastWords) != nil)
                #expect(terminal.end() == 0 && terminal.isCooked)
            }
        }

        @Test("A signal ends top, and gives the terminal back", arguments: [SIGINT, SIGTERM, SIGHUP])
        func signals(number: Int32) throws {
            try withTop(["NO_COLOR": "1"]) { _, terminal in
                let first = try #require(terminal.wait(for: "q quit"))
                #expect(!first.contains("\u{1B}[7m") && !first.contains("\u{1B}[1m"))
                // As the terminal's own key.
                if number == SIGINT { terminal.type("\u{3}") } else { kill(terminal.pid, number) }
                #expect(terminal.wait(for: Self.lastWords) != nil)
                #expect(terminal.end() == 128 + number && terminal.isCooked)
            }
        }

        @Test("Without a terminal, top shows one screen, and status has the map and the same words")
        func once() throws {
            try withTop { mount, _ in
                for command in ["top", "status"] {
                    let end = try ChildProcess.run([program, command, mount.path])
                    #expect(end.status == 0 && !end.output.contains("\u{1B}"), "\(end.errors)")
                    #expect(end.output.contains("film.mkv") && end.output.contains("[####"), "\(end.output)")
                    #expect(end.output.contains(" ahead"), "\(end.output)")
                }
            }
        }
    }
}
