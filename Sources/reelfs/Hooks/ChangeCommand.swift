import Glibc
import Logging
import ReelCore
import ReelThreads

/// The command of `--on-change`, which gets the paths that a refresh found changed, one a line on its stdin. There is
/// one run at a time; paths that come meanwhile wait for the next one. Those of a run that has failed are tried once
/// more with them.
final class ChangeCommand: Sendable {
    fileprivate struct State {
        /// Paths that no run has had; `["/"]` if all may have changed.
        var paths: Set<ExactText> = []
        /// The paths of the last run, if it has failed and they were new to it.
        var failed: Set<ExactText> = []
        /// When the first and the last of them came, on the clock of `now()`.
        var first = Duration.zero
        var last = Duration.zero
        /// The last run has failed: the next one waits until then.
        var retry: Duration?
        var hasThread = false
        var isStopped = false
    }

    /// A walk of many folders brings its news together.
    private static let quiet = Duration.seconds(1)
    /// The first of them waits no longer than this.
    private static let patience = Duration.seconds(10)
    /// Longer than a media server takes to accept a scan.
    private static let deadline = Duration.seconds(600)
    /// Beyond this many paths the one line is `/`.
    fileprivate static let mostPaths = 10_000

    private let command: Command
    private let logger: Logger
    private let pause: Duration
    private let runs = CommandRuns()
    private let state = Monitor(State())

    /// - Parameter pause: before a second try: a media server that starts again is there by then.
    init(_ command: Command, _ logger: Logger, pause: Duration = .seconds(30)) {
        self.command = command
        self.logger = logger
        self.pause = pause
    }

    /// Takes news. - Parameter paths: inside the mount, without a leading `/`; a folder's ends in `/`.
    func tell(_ paths: [String]) {
        let begins = state.withLock { state -> Bool in
            guard !paths.isEmpty, !state.isStopped else { return false }
            state.add(Set(paths.map { ExactText($0) }), now())
            defer { state.hasThread = true }
            return !state.hasThread
        }
        guard begins else { return }
        if let thread = Thread("on-change", { [self] in work() }) {
            thread.detach()
        } else {
            state.withLock { $0.hasThread = false }
        }
    }

    /// Ends a command that runs; no further one starts.
    func stop() {
        state.withLock { $0.isStopped = true }
        runs.stop()
        state.wait { $0.hasThread ? nil : () }
    }

    /// Runs the command until there is no news.
    private func work() {
        while let news = next() {
            do throws(CommandFailure) {
                _ = try runs.run(command, input: news.lines, limit: nil, within: Self.deadline)
            } catch {
                if error == .stopped { continue }
                let again = news.fresh.isEmpty ? "" : "tried once more, with news that come meanwhile"
                let lost = news.retried.isEmpty ? "" : "the news of its second try are lost"
                let end = [again, lost].filter { !$0.isEmpty }.joined(separator: "; ")
                logger.warning("the command of on-change, \(shown(command.name)), \(error.fullWords); \(end)")
                if !news.fresh.isEmpty {
                    state.withLock { ($0.failed, $0.retry) = (news.fresh, now() + pause) }
                }
            }
        }
    }

    /// Waits until the news are complete. - Returns: nil where there is none, which ends the thread.
    private func next() -> News? {
        while true {
            let rest = state.withLock { state -> Duration? in
                if state.isStopped || state.paths.isEmpty && state.failed.isEmpty {
                    state.hasThread = false
                    return nil
                }
                return (state.retry ?? min(state.last + Self.quiet, state.first + Self.patience)) - now()
            }
            guard let rest else { return nil }
            if rest <= .zero { return state.withLock { $0.take() } }
            _ = state.wait(atMost: rest) { $0.isStopped ? () : nil }
        }
    }
}

/// The paths that one run gets.
private struct News {
    /// `["/"]` if all may have changed.
    let fresh: Set<ExactText>
    /// The run before had them, and failed.
    let retried: Set<ExactText>

    var lines: [UInt8] {
        let paths = fresh.union(retried)
        let all = paths.contains(.all) ? ["/"] : paths.map(\.text).sorted()
        return Array(all.map { $0 + "\n" }.joined().utf8)
    }
}

extension ExactText {
    /// All may have changed.
    fileprivate static let all = ExactText("/")
}

extension ChangeCommand.State {
    fileprivate mutating func add(_ more: Set<ExactText>, _ moment: Duration) {
        if paths.isEmpty { first = moment }
        last = moment
        paths.formUnion(more)
        if paths.count > ChangeCommand.mostPaths || paths.contains(.all) { paths = [.all] }
    }

    fileprivate mutating func take() -> News {
        defer { (paths, failed, retry) = ([], [], nil) }
        return News(fresh: paths, retried: failed)
    }
}
