import Glibc
import ReelThreads

/// A terminal that a program draws on: its other screen, without echo, and all of it as before at the end.
///
/// A thread takes the signals: in a handler next to nothing could be done.
final class Terminal: Sendable {
    /// What may happen while the program waits.
    enum Event: Hashable {
        case key(UInt8)
        case signal(Int32)
        case pause
        /// The terminal has gone.
        case end
    }

    private static let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP]

    private let before: termios
    private let news: Pipe

    /// nil where stdin and stdout are no terminal that can be drawn on. Called before any other thread is started.
    init?() {
        var before = termios()
        guard isatty(0) != 0, isatty(1) != 0, environment("TERM") != "dumb", tcgetattr(0, &before) == 0,
            let news = Pipe()
        else { return nil }
        self.before = before
        self.news = news
        var set = sigset_t()
        sigemptyset(&set)
        for number in Self.signals { sigaddset(&set, number) }
        pthread_sigmask(SIG_BLOCK, &set, nil)
        let (signals, end) = (set, news.writing)
        // Never joined: it waits until the process ends.
        _ = Thread("signals") {
            var (set, number) = (signals, Int32(0))
            while sigwait(&set, &number) == 0 { writeAll(end, [UInt8(truncatingIfNeeded: number)]) }
        }
    }

    /// Takes the screen. Signals of keys still come: Ctrl-C ends the program.
    func enter() {
        var raw = before
        raw.c_lflag &= ~tcflag_t(ICANON | ECHO)
        tcsetattr(0, TCSADRAIN, &raw)
        // xterm's control sequences: the other screen, no cursor.
        writeAll(1, Array("\u{1B}[?1049h\u{1B}[?25l".utf8))
    }

    /// Gives it back.
    func leave() {
        writeAll(1, Array("\u{1B}[0m\u{1B}[?25h\u{1B}[?1049l".utf8))
        var before = before
        tcsetattr(0, TCSADRAIN, &before)
    }

    /// Stops the program as Ctrl-Z does, with the screen given back meanwhile.
    func stop() {
        leave()
        kill(getpid(), SIGSTOP)
        enter()
    }

    /// Columns and rows.
    var size: (columns: Int, rows: Int) { terminalSize(1) }

    /// Replaces what the screen shows, at once and without a flicker.
    func draw(_ lines: [String]) {
        // From the upper left corner on, with the rest of each line and of the screen emptied.
        let text = lines.map { $0 + "\u{1B}[K" }.joined(separator: "\r\n")
        writeAll(1, Array("\u{1B}[H\(text)\u{1B}[J".utf8))
    }

    /// Waits for a key or a signal, at most `limit`.
    func next(within limit: Duration) -> Event {
        var waiting = [
            pollfd(fd: 0, events: Int16(POLLIN), revents: 0),
            pollfd(fd: news.reading, events: Int16(POLLIN), revents: 0),
        ]
        guard poll(&waiting, 2, Int32(max(.zero, limit) / .milliseconds(1))) > 0 else { return .pause }
        var byte: UInt8 = 0
        if waiting[1].revents != 0 { return read(news.reading, &byte, 1) == 1 ? .signal(Int32(byte)) : .end }
        return read(0, &byte, 1) == 1 ? .key(byte) : .end
    }
}

/// Columns and rows of the terminal behind a descriptor, those of old where there is none.
func terminalSize(_ descriptor: Int32) -> (columns: Int, rows: Int) {
    var size = winsize()
    guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return (80, 24) }
    return (Int(size.ws_col), Int(size.ws_row))
}
