import Glibc
import ReelCore

/// An FTP server on loopback with a `film.mkv`, an `empty` file, and replies of the test's choice.
///
/// A child process, in Python. Any login is good.
package final class ScriptedFileServer: Sendable {
    /// Long enough that a web server would be asked for the film's end at once.
    package static let length = 5 << 20 + 7

    private let process: ChildProcess
    package let port: UInt16
    private let scheme: String
    private let isStopped = Shared(false)

    /// - Parameters:
    ///   - ending: the reply behind each body, which has come whole before; empty for none.
    ///   - opening: the reply before each body. The server then knows no SIZE; nil if it does.
    ///   - place: a directory with `cert.pem` and `key.pem`: all is inside of TLS, and data come in the session of
    ///     their control connection alone, nil if without TLS.
    ///   - pause: before it says that a type, or an offset, is set.
    ///   - script: the path of a file that is read at each command: what the server does (`names`; `cut`, `foreign`,
    ///     `busy` or `login` instead of a listing), and the names of its files in hexadecimal digits, a line each. It
    ///     then knows MLSD, and a file of any name is the film.
    package init(
        ending: String = "226 done", opening: String? = nil, secure place: String? = nil, pause: Duration = .zero,
        script: String? = nil
    ) throws {
        scheme = place == nil ? "ftp" : "ftps"
        let words = [ending, "\(Self.length)", place ?? "", opening ?? "", script ?? "", "\(pause / .seconds(1))"]
        let process = try ChildProcess(["python3", "-c", Self.program] + words)
        var port: UInt16?
        eventually {
            port = process.said.output.split(separator: "\n").first.flatMap { UInt16($0) }
            return port != nil
        }
        guard let port else {
            process.signal(SIGKILL)
            _ = try? process.wait()
            throw ChildError(words: ["python3"], reason: process.said.errors)
        }
        (self.process, self.port) = (process, port)
    }

    package func url(_ path: String) -> ResourceURL { ResourceURL(trusted: "\(scheme)://127.0.0.1:\(port)/\(path)")! }

    /// The bytes of `film.mkv`.
    package static let film = Array((0...length / 251).flatMap { _ in period }.prefix(length))
    private static let period = Array(UInt8(0)...250)

    /// The commands that have come, without their arguments.
    package var commands: [Substring] { lines.map { $0[0] } }

    /// The same for each connection, the first one first. One that logs in and asks for nothing is left out: a circuit
    /// looks for an origin that is silent for two seconds, as a busy machine makes it.
    package var sessions: [[Substring]] {
        let login: Set<Substring> = ["USER", "PASS", "PWD", "PBSZ", "PROT", "QUIT"]
        return Dictionary(grouping: lines) { Int($0[1]) ?? 0 }.sorted { $0.key < $1.key }
            .map { $0.value.map { $0[0] } }.filter { !login.isSuperset(of: $0) }
    }

    /// Each a command and the number of its connection.
    private var lines: [[Substring]] {
        process.said.output.split(separator: "\n").dropFirst().map { $0.split(separator: " ") }
            .filter { $0.count == 2 }
    }

    package func stop() {
        var mine = false
        isStopped.change { (mine, $0) = (!$0, true) }
        guard mine else { return }
        process.signal(SIGKILL)
        _ = try? process.wait()
    }

    private static let program = """
        import itertools, socket, ssl, sys, threading, time

        ending, opening = sys.argv[1].encode(), sys.argv[4].encode()
        film = (bytes(range(251)) * (int(sys.argv[2]) // 251 + 1))[:int(sys.argv[2])]

        def scene():
            if not sys.argv[5]: return "names", {"film.mkv": film, "empty": b""}
            mode, *names = open(sys.argv[5]).read().split("\\n")
            return mode, {bytes.fromhex(n).decode("latin-1"): film for n in names}

        def listener():
            server = socket.socket()
            server.bind(("127.0.0.1", 0))
            server.listen(16)
            return server

        def serve(control, number):
            data, start, context = None, 0, None
            if sys.argv[3]:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(sys.argv[3] + "/cert.pem", sys.argv[3] + "/key.pem")
                control = context.wrap_socket(control, server_side=True)
            def reply(text):
                control.sendall(text + b"\\r\\n")
            def send(body, last):
                reply(opening or b"150 here it comes")
                other, _ = data.accept()
                data.close()
                if context:
                    other = context.wrap_socket(other, server_side=True)
                    if not other.session_reused:
                        other.close()
                        return reply(b"522 no session")
                other.sendall(body)
                if context: other.unwrap()
                other.close()
                if last: reply(last)
            reply(b"220 ready")
            for line in control.makefile("rb"):
                word, _, rest = line.decode("latin-1").strip().partition(" ")
                sys.stdout.write(f"{word} {number}\\n")
                sys.stdout.flush()
                name = rest.lstrip("/")
                mode, files = scene()
                if word in ("TYPE", "REST"): time.sleep(float(sys.argv[6]))
                if mode == "login" and word != "QUIT": reply(b"530 log in")
                elif mode == "busy" and word != "QUIT": reply(b"421 later")
                elif word == "USER": reply(b"230 in")
                elif word == "PWD": reply(b'257 "/" here')
                elif word == "EPSV":
                    data = listener()
                    reply(b"229 (|||%d|)" % data.getsockname()[1])
                elif word == "LIST" or word == "MLSD" and sys.argv[5]:
                    form = "-rw-r--r-- 1 me us %d May  6 2024 %s" if word == "LIST" else "type=file;size=%d; %s"
                    lines = [form % (len(b), n) for n, b in files.items()] if mode != "foreign" else ["who are you?"]
                    body = "".join(line + "\\r\\n" for line in lines).encode("latin-1")
                    if mode == "cut": send(body[:len(body) // 2], b"426 broken off")
                    else: send(body, b"226 done")
                elif word == "REST":
                    start = int(rest)
                    reply(b"350 from there")
                elif word == "SIZE" and opening: reply(b"500 unknown")
                elif word in ("SIZE", "MDTM", "RETR") and not sys.argv[5] and name not in files: reply(b"550 none")
                elif word == "SIZE": reply(b"213 %d" % len(files.get(name, film)))
                elif word == "MDTM": reply(b"213 20240506070809")
                elif word == "RETR":
                    send(files.get(name, film)[start:], ending)
                    start = 0
                elif word == "CWD": reply(b"550 none" if name else b"250 there")
                elif word in ("TYPE", "PBSZ", "PROT"): reply(b"200 done")
                # As a server that has died.
                elif word != "QUIT": reply(b"500 unknown")

        server = listener()
        print(server.getsockname()[1], flush=True)
        for number in itertools.count():
            control, _ = server.accept()
            threading.Thread(target=serve, args=(control, number), daemon=True).start()
        """
}
