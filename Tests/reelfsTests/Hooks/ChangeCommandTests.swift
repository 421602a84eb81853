import Glibc
import Logging
import ReelThreads
import TestKit
import Testing

@testable import reelfs

/// The command of `--on-change`, apart from mounts.
@Suite("The command of on-change")
struct ChangeCommandTests {
    struct Sink: LogHandler {
        let lines: Monitor<[String]>
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { lines.withLock { $0.append(event.message.description) } }
    }

    @Test("The log has its last words, and its news are tried once more, as are those that come meanwhile")
    func failure() throws {
        try withTemporaryDirectory { folder in
            let (script, told, go) = (folder + "/script", folder + "/told", folder + "/go")
            defer { for path in [script, told, go] { unlink(path) } }
            let text = """
                cat >> \(told)
                while [ ! -e \(go) ]; do sleep 0.02; done
                echo first >&2; echo boom http://a:b@h/x?sig=c >&2
                exit 3

                """
            try write(text, to: script)
            let lines = Monitor<[String]>([])
            let logger = Logger(label: "test") { _ in Sink(lines: lines) }
            let command = ChangeCommand(Command(parsing: "/bin/sh " + script)!, logger, pause: .zero)
            defer { command.stop() }
            command.tell(["a", "b/"])
            #expect(eventually(within: .seconds(30)) { access(told, F_OK) == 0 && contents(of: told) == "a\nb/\n" })
            command.tell(["c"])
            try write("", to: go)
            let words = "the command of on-change, /bin/sh, ended with status 3: boom http://***@h/x?…; "
            let said = lines.wait(atMost: .seconds(30)) { $0.count < 3 ? nil : $0 }
            let (again, lost) = (
                "tried once more, with news that come meanwhile", "the news of its second try are lost"
            )
            #expect(said == [words + again, words + again + "; " + lost, words + lost])
            #expect(contents(of: told) == "a\nb/\na\nb/\nc\nc\n")
        }
    }

    @Test("It may write any number of bytes to its stdout, which nobody reads")
    func output() throws {
        try withTemporaryDirectory { folder in
            let (script, told) = (folder + "/script", folder + "/told")
            defer { for path in [script, told] { unlink(path) } }
            try write("head -c 3000000 /dev/zero && cat > \(told)\n", to: script)
            let lines = Monitor<[String]>([])
            let logger = Logger(label: "test") { _ in Sink(lines: lines) }
            let command = ChangeCommand(Command(parsing: "/bin/sh " + script)!, logger, pause: .zero)
            defer { command.stop() }
            command.tell(["a"])
            #expect(eventually(within: .seconds(30)) { access(told, F_OK) == 0 && contents(of: told) == "a\n" })
            let said = lines.withLock { $0 }
            #expect(said.isEmpty)
        }
    }

    @Test("Names whose letters are composed differently are two lines")
    func letters() throws {
        try withTemporaryDirectory { folder in
            let told = folder + "/told"
            defer { unlink(told) }
            let logger = Logger(label: "test") { _ in Sink(lines: Monitor([])) }
            let command = ChangeCommand(Command(parsing: "/usr/bin/tee \(told)")!, logger)
            defer { command.stop() }
            command.tell(["caf\u{E9}", "cafe\u{301}"])
            #expect(
                eventually(within: .seconds(30)) {
                    access(told, F_OK) == 0 && contents(of: told).split(separator: "\n").count == 2
                })
        }
    }
}

private func write(_ text: String, to path: String) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    try #require(descriptor >= 0)
    writeAll(descriptor, Array(text.utf8))
    close(descriptor)
}
