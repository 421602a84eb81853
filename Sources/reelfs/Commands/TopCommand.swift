import ArgumentParser
import Glibc
import ReelCore
import ReelFuse
import ReelThreads
import ReelVolume

struct TopCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "top", abstract: "Show what mounts do, updated each second.",
        discussion: """
            Keys: j, k and the arrows choose a file; p prefetches it, P pins or unpins it, e evicts it, r lists its \
            directory again; o makes its mount offline or ends that; q ends. Without a terminal, shows one screen and ends.
            """)

    @Argument(help: "Mount point (default: all mounts).", completion: .mountpoints) var mountpoint: String?

    func perform() throws -> Int32 {
        let mounts = try StatusCommand.mounts(mountpoint)
        guard let terminal = Terminal() else {
            let columns = environment("COLUMNS").flatMap { Int($0) } ?? 80
            let all = mounts.map { StatusCommand.status(of: $0) }
            let screen = TopScreen(mounts: all, chosen: -1, columns: max(20, columns), now: Int64(time(nil)))
            say(screen.lines.joined(separator: "\n"))
            return all.contains { $0.volume == nil && $0.mounter == nil } ? Failure.Status.mount.rawValue : 0
        }
        return Top(terminal, mountpoint).run()
    }
}

/// `reelfs top` on a terminal.
private final class Top {
    private static let pause = Duration.seconds(1)

    private let terminal: Terminal
    private let mountpoint: String?
    private var screen: TopScreen
    private var choice: TopScreen.Choice?
    /// The outcome of the work that a key has begun, once it is done.
    private let outcome = Monitor<String?>(nil)

    init(_ terminal: Terminal, _ mountpoint: String?) {
        self.terminal = terminal
        self.mountpoint = mountpoint
        let colour = environment("NO_COLOR") ?? ""
        screen = TopScreen(mounts: [], columns: 80, hasColour: colour.isEmpty, now: 0)
    }

    /// - Returns: the exit status.
    func run() -> Int32 {
        terminal.enter()
        defer { terminal.leave() }
        var due = now()
        while true {
            if now() >= due {
                look()
                due = now() + Self.pause
            }
            draw()
            switch terminal.next(within: due - now()) {
            case .pause: break
            case .end: return 0
            case .signal(SIGWINCH): break
            case .signal(SIGTSTP): terminal.stop()
            case .signal(let number): return 128 + number
            case .key(let key):
                if key == UInt8(ascii: "q") { return 0 }
                take(key)
            }
        }
    }

    /// Asks the daemons.
    private func look() {
        let mounts = (try? StatusCommand.mounts(mountpoint)) ?? []
        screen.mounts = mounts.map { StatusCommand.status(of: $0) }
        // The chosen file stays chosen where others come before it.
        if let choice, let place = screen.choices.firstIndex(where: { $0.isSame(as: choice) }) { screen.chosen = place }
        choose(screen.chosen)
    }

    private func draw() {
        let size = terminal.size
        (screen.columns, screen.rows, screen.now) = (size.columns, size.rows, Int64(time(nil)))
        if let news = outcome.withLock({ $0.take() }) { screen.message = news }
        terminal.draw(screen.lines)
    }

    private func choose(_ place: Int) {
        let choices = screen.choices
        screen.chosen = min(max(0, place), max(0, choices.count - 1))
        choice = choices.isEmpty ? nil : choices[screen.chosen]
    }

    private func take(_ key: UInt8) {
        let question = screen.message
        screen.message = nil
        switch key {
        case 0x1B: takeArrow()
        case UInt8(ascii: "j"): choose(screen.chosen + 1)
        case UInt8(ascii: "k"): choose(screen.chosen - 1)
        case UInt8(ascii: "p"):
            // It goes on when its connection has ended.
            perform("prefetch") { .prefetch(PrefetchRequest(paths: [$0.path], isBackground: true)) }
        case UInt8(ascii: "P") where choice?.isPinned == true: perform("unpin") { .unpin($0.path) }
        case UInt8(ascii: "P"): perform("pin") { .pin($0.path) }
        case UInt8(ascii: "e"):
            guard let choice, choice.isOpen, case let asked = Self.question(choice), question != asked else {
                return perform("evict") { .evict($0.path) }
            }
            screen.message = asked
        case UInt8(ascii: "?"):
            screen.message = "j k choose; p prefetches, P pins, e evicts, r lists again, o offline, q quits"
        case UInt8(ascii: "r"): perform("refresh") { .refresh($0.path, isRecursive: false) }
        case UInt8(ascii: "o"):
            perform("offline") { [screen] choice in
                let shown = screen.mounts.first { ExactText($0.mountpoint) == ExactText(choice.mountpoint) }
                return .offline(shown?.volume?.isOffline != true)
            }
        default: break
        }
    }

    private static func question(_ choice: TopScreen.Choice) -> String {
        "a program has \(printable(choice.path)) open: e again evicts it"
    }

    /// ESC [ A and ESC [ B, or with O in the middle.
    private func takeArrow() {
        guard case .key(let middle) = terminal.next(within: .milliseconds(50)), [0x5B, 0x4F].contains(middle),
            case .key(let last) = terminal.next(within: .milliseconds(50))
        else { return }
        if last == UInt8(ascii: "A") { choose(screen.chosen - 1) }
        if last == UInt8(ascii: "B") { choose(screen.chosen + 1) }
    }

    /// Has the daemon do something with the chosen file. The screen goes on meanwhile.
    private func perform(_ command: String, _ make: (TopScreen.Choice) -> ControlRequest) {
        guard let choice, let mount = Mount.on(choice.mountpoint) else { return }
        let name = printable(command == "offline" ? choice.mountpoint : choice.path)
        let request = make(choice)
        screen.message = "\(command) \(name) …"
        let thread = Thread("work") { [outcome] in
            let text = Self.outcome(of: request, on: mount)
            outcome.withLock { $0 = text.map { printable($0) } ?? "\(command) \(name): done." }
        }
        thread?.detach()
    }

    /// - Returns: a sentence, nil if it is done.
    private static func outcome(of request: ControlRequest, on mount: Mount) -> String? {
        do throws(Failure) {
            guard let answer = try ControlClient(of: mount).ask(request) else { return ControlClient.silence }
            return answer.error ?? answer.value().map { prefetchText($0) }
        } catch {
            return error.sentence
        }
    }
}

extension TopScreen.Choice {
    fileprivate func isSame(as other: Self) -> Bool {
        ExactText(mountpoint) == ExactText(other.mountpoint) && ExactText(path) == ExactText(other.path)
    }
}
