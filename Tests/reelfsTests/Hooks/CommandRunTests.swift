import CLinux
import Glibc
import ReelThreads
import TestKit
import Testing

@testable import reelfs

/// Commands of the user: words without a shell, a deadline, a bounded output, one end.
@Suite("Commands of the user")
struct CommandRunTests {
    @Test(
        "A text is words, and nothing else",
        arguments: [
            ("pass show films", ["pass", "show", "films"]), ("  a\t b ", ["a", "b"]),
            (#"/a\ b "c d" 'e "f"' g"h i"'j'"#, ["/a b", "c d", #"e "f""#, "gh ij"]),
            (#""a\"b" '\' "" $HOME * ; | > `x`"#, [#"a"b"#, #"\"#, "", "$HOME", "*", ";", "|", ">", "`x`"]),
        ])
    func words(text: String, words: [String]) {
        #expect(Command(parsing: text)?.words == words)
    }

    @Test("A text that is no command is refused", arguments: ["", "  ", "'a", "\"a", "a\\", "a\nb", "a \u{1}", "'' a"])
    func refused(text: String) {
        #expect(Command(parsing: text) == nil)
    }

    /// On a thread of the program's, which no SIGPIPE ends.
    private static func run(
        _ command: Command, of runs: CommandRuns = CommandRuns(), input: [UInt8] = [], limit: Int = 1000,
        within time: Duration = .seconds(10)
    ) throws(CommandFailure) -> String {
        let result = Monitor<Result<[UInt8], CommandFailure>?>(nil)
        startThread {
            do throws(CommandFailure) {
                let output = try runs.run(command, input: input, limit: limit, within: time)
                result.withLock { $0 = .success(output) }
            } catch { result.withLock { $0 = .failure(error) } }
        }.join()
        return String(decoding: try result.withLock { $0! }.get(), as: UTF8.self)
    }

    private static func run(
        _ script: String, input: [UInt8] = [], limit: Int = 1000, within time: Duration = .seconds(10)
    ) throws(CommandFailure) -> String {
        try run(Command(parsing: "sh -c '\(script)'")!, input: input, limit: limit, within: time)
    }

    @Test("It gets its input, and its output is the answer")
    func answer() throws {
        #expect(try Self.run("read a; echo got $a; echo noise >&2", input: Array("it\n".utf8)) == "got it\n")
        // More than a pipe holds, both ways.
        let many = [UInt8](repeating: 0x61, count: 300_000)
        #expect(try Self.run("cat", input: many, limit: 300_000).utf8.elementsEqual(many))
        #expect(try Self.run("echo unread", input: many) == "unread\n")
    }

    @Test("It starts without a signal blocked")
    func inheritance() throws {
        #expect(try Self.run("grep SigBlk /proc/self/status").contains("0000000000000000"))
    }

    @Test("It gets the standard descriptors and no other, whatever a library has left open")
    func descriptors() throws {
        var pair: [Int32] = [-1, -1]
        try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0)
        defer { for end in pair { close(end) } }
        // The last one is that of the listing itself.
        #expect(try Self.run(Command(parsing: "ls /proc/self/fd")!) == "0\n1\n2\n3\n")
    }

    @Test("Where descriptors are short, a command fails without taking any")
    func fewDescriptors() async {
        // In a process of its own, whose limit it lowers.
        await #expect(processExitsWith: .success) {
            var limit = rlimit(rlim_cur: 100, rlim_max: 100)
            try #require(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
            var taken: [Int32] = []
            while case let copy = dup(2), copy >= 0 { taken.append(copy) }
            try #require(errno == EMFILE && taken.count > 5)
            for free in taken.suffix(5) { close(free) }
            // Descriptors of other kinds are the runtime's, which may open some at any moment.
            func pipes() -> Int {
                (0..<100).count { number in
                    var status = stat()
                    return fstat(Int32(number), &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
                }
            }
            let before = pipes()
            for _ in 0..<2 {
                #expect(throws: CommandFailure.notStarted(errno: EMFILE)) {
                    try CommandRuns().run(Command(parsing: "true")!, limit: 0, within: .seconds(10))
                }
            }
            #expect(pipes() == before)
        }
    }

    @Test("Each way to fail has an error of its own, and the command's last words are kept")
    func failures() {
        #expect(throws: CommandFailure.status(3, reason: "why")) { try Self.run("echo x >&2; echo why >&2; exit 3") }
        #expect(throws: CommandFailure.signal(SIGSEGV)) { try Self.run("kill -SEGV $$") }
        #expect(throws: CommandFailure.tooLong) { try Self.run("while :; do echo xxxxxxxx; done") }
        #expect(throws: CommandFailure.timedOut) { try Self.run("sleep 1000", within: .milliseconds(100)) }
        #expect(throws: CommandFailure.timedOut) {
            try Self.run("while :; do echo xxxxxxxx >&2; done", within: .milliseconds(100))
        }
        #expect(throws: CommandFailure.notStarted(errno: ENOENT)) {
            try Self.run(Command(parsing: "/none/such")!)
        }
    }

    @Test("What a command has started and left behind ends with it, and it holds nobody up")
    func leftBehind() throws {
        let pid = try #require(pid_t(trimmed(try Self.run("sleep 1000 & echo $!"))))
        #expect(hasEnded(pid))
    }

    /// Each starts a process in a group or a session of its own, and names it.
    private static let escapes = [
        "set -m; sleep 1000 & a=$!", #"a=$(setsid sh -c "sleep 1000 > /dev/null 2>&1 & echo \$!")"#,
    ]

    @Test("After a failure, so does what it has put into a process group or a session of its own", arguments: escapes)
    func escaped(script: String) throws {
        let error = #expect(throws: CommandFailure.self) { try Self.run(script + "; echo $a >&2; exit 1") }
        guard case .status(1, let reason) = error else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(hasEnded(try #require(pid_t(reason))))
    }

    @Test("After a good end, what is in a session of its own lives on: other programs use an agent")
    func agent() throws {
        let pid = try #require(pid_t(trimmed(try Self.run(Self.escapes[1] + "; echo $a"))))
        #expect(kill(pid, 0) == 0 && !contents(of: "/proc/\(pid)/stat").contains(" Z "))
        kill(pid, SIGKILL)
        #expect(hasEnded(pid))
    }

    @Test("The end of the mount ends a command that runs, and starts no further one")
    func stopped() throws {
        let runs = CommandRuns()
        let command = Command(parsing: "sleep 1000")!
        let thread = startThread {
            #expect(throws: CommandFailure.stopped) { try Self.run(command, of: runs, within: .seconds(100)) }
        }
        runs.stop()
        thread.join()
        #expect(throws: CommandFailure.stopped) { try Self.run(command, of: runs) }
    }
}

private func trimmed(_ text: String) -> Substring { text.split(whereSeparator: \.isWhitespace).first ?? "" }

/// Whether a process ends. It may be a child of this process once its own parent has gone, and a zombie that is left
/// here would hide all others from the runner, which waits for children of its own.
private func hasEnded(_ pid: pid_t) -> Bool {
    eventually {
        let waited = waitpid(pid, nil, WNOHANG)
        if waited == pid || kill(pid, 0) == -1 && errno == ESRCH { return true }
        // Somebody else's zombie.
        return waited == -1 && contents(of: "/proc/\(pid)/stat").contains(" Z ")
    }
}
