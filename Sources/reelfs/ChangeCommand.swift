import Glibc
import Logging
import ReelThreads

/// The command of `--on-change`: told of the paths that a refresh found changed, one a line on its stdin. Runs one at a
/// time; news that come meanwhile wait for the next run. So do the news of a run that has failed, which is tried once
/// more.
final class ChangeCommand: Sendable {
    fileprivate struct State {
        var paths: Set<String> = []
        /// There are more changes than are told apart.
        var isAll = false
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
            state.add(Set(paths), now())
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
                _ = try runs.run(command, input: news.lines, limit: 1 << 20, within: Self.deadline)
            } catch {
                if error == .stopped { continue }
                let end = news.isRetry ? "its news are lost" : "tried once more, with news that come meanwhile"
                logger.warning("the command of on-change, \(shown(command.name)), \(error.fullWords); \(end)")
                if !news.isRetry { state.withLock { $0.takeBack(news, until: now() + pause) } }
            }
        }
    }

    /// Waits until the news are complete. - Returns: nil where there is none, which ends the thread.
    private func next() -> News? {
        while true {
            let rest = state.withLock { state -> Duration? in
                if state.isStopped || state.paths.isEmpty && !state.isAll {
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

/// What one run is told.
private struct News {
    /// Empty: all may have changed.
    let paths: Set<String>
    /// The run before failed.
    let isRetry: Bool

    var lines: [UInt8] { Array((paths.isEmpty ? ["/"] : paths.sorted()).map { $0 + "\n" }.joined().utf8) }
}

extension ChangeCommand.State {
    fileprivate mutating func add(_ more: Set<String>, _ moment: Duration) {
        if paths.isEmpty, !isAll { first = moment }
        last = moment
        if !isAll { paths.formUnion(more) }
        if paths.count > ChangeCommand.mostPaths { (paths, isAll) = ([], true) }
    }

    fileprivate mutating func take() -> News {
        defer { (paths, isAll, retry) = ([], false, nil) }
        return News(paths: paths, isRetry: retry != nil)
    }

    fileprivate mutating func takeBack(_ news: News, until moment: Duration) {
        (paths, isAll) = isAll || news.paths.isEmpty ? ([], true) : (paths.union(news.paths), false)
        retry = moment
    }
}
