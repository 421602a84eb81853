import Glibc
import Logging
import ReelThreads

/// The command of `--on-change`: told of the paths that a refresh found changed, one a line on its stdin. Runs one at a
/// time; news that come meanwhile wait for the next run.
final class ChangeCommand: Sendable {
    fileprivate struct State {
        var paths: Set<String> = []
        /// There are more changes than are told apart.
        var isAll = false
        /// When the first and the last of them came, on the clock of `now()`.
        var first = Duration.zero
        var last = Duration.zero
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
    private static let mostPaths = 10_000

    private let command: Command
    private let logger: Logger
    private let runs = CommandRuns()
    private let state = Monitor(State())

    init(_ command: Command, _ logger: Logger) {
        self.command = command
        self.logger = logger
    }

    /// Takes news. - Parameter paths: inside the mount, without a leading `/`; a folder's ends in `/`.
    func tell(_ paths: [String]) {
        let begins = state.withLock { state -> Bool in
            guard !paths.isEmpty, !state.isStopped else { return false }
            state.last = now()
            if state.paths.isEmpty, !state.isAll { state.first = state.last }
            if !state.isAll { state.paths.formUnion(paths) }
            if state.paths.count > Self.mostPaths { (state.paths, state.isAll) = ([], true) }
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
        while let input = next() {
            do throws(CommandFailure) {
                _ = try runs.run(command, input: input, limit: 1 << 20, within: Self.deadline)
            } catch {
                if error != .stopped {
                    logger.warning("the command of on-change, \(shown(command.name)), \(error.words)")
                }
            }
        }
    }

    /// Waits until the news are complete. - Returns: nil where there is none, which ends the thread.
    private func next() -> [UInt8]? {
        while true {
            let rest = state.withLock { state -> Duration? in
                if state.isStopped || state.paths.isEmpty && !state.isAll {
                    state.hasThread = false
                    return nil
                }
                return min(state.last + Self.quiet, state.first + Self.patience) - now()
            }
            guard let rest else { return nil }
            if rest <= .zero { return state.withLock { $0.take() } }
            _ = state.wait(atMost: rest) { $0.isStopped ? () : nil }
        }
    }
}

extension ChangeCommand.State {
    fileprivate mutating func take() -> [UInt8] {
        defer { (paths, isAll) = ([], false) }
        return Array((isAll ? ["/"] : paths.sorted()).map { $0 + "\n" }.joined().utf8)
    }
}
