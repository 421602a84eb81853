import ReelCore
import ReelThreads

/// Commands of other threads, which run on the transport's thread; the loop that they get cannot leave it.
final class Mailbox: Sendable {
    typealias Command = @Sendable (TransferLoop) -> Void

    private struct State {
        var commands: [Command] = []
        var isShutDown = false
    }

    private let multi: MultiHandle
    private let state = Lock(State())

    init(_ multi: MultiHandle) {
        self.multi = multi
    }

    /// Hands over a command. - Returns: false after `shutDown`, when the command does not run.
    @discardableResult
    func put(_ command: @escaping Command) -> Bool {
        let (isTaken, wasEmpty) = state.withLock { state in
            if state.isShutDown { return (false, false) }
            state.commands.append(command)
            return (true, state.commands.count == 1)
        }
        // The first command wakes the thread, which takes all at once.
        if wasEmpty { multi.wakeUp() }
        return isTaken
    }

    /// Refuses further commands, and ends the loop. - Returns: true for the first caller.
    func shutDown() -> Bool {
        let isFirst = state.withLock { state in
            defer { state.isShutDown = true }
            return !state.isShutDown
        }
        if isFirst { multi.wakeUp() }
        return isFirst
    }

    /// All commands since the last call; the flag says that none will follow.
    func takeAll() -> (commands: [Command], isShutDown: Bool) {
        state.withLock { state in
            defer { state.commands = [] }
            return (state.commands, state.isShutDown)
        }
    }
}

extension Mailbox: RequestControl {
    func cancel(_ handle: RequestHandle) { put { $0.cancel(handle) } }
    func promote(_ handle: RequestHandle) { put { $0.promote(handle) } }
    func resume(_ handle: RequestHandle) { put { $0.resume(handle) } }
}
