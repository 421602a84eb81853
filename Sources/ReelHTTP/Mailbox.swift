import CCurl
import ReelCore
import Synchronization

/// What other threads ask of the transport's one, and the multi handle by which they wake it.
final class Mailbox: Sendable {
    enum Command: Sendable {
        case start(OriginRequestID, OriginRequest, any OriginReceiver)
        case cancel(OriginRequestID)
        case resume(OriginRequestID)
        case promote(OriginRequestID)
        case perform(@Sendable () -> Void)
    }

    private struct State {
        var commands: [Command] = []
        var isShutDown = false
    }

    /// Used by the transport's thread alone, but for `curl_multi_wakeup`: "This function can be called from any thread"
    /// (curl_multi_wakeup(3)). Freed with the mailbox, so that nobody wakes a handle that is gone.
    nonisolated(unsafe) let multi: UnsafeMutableRawPointer
    private let state = Mutex(State())

    init() throws(TransportError) {
        guard isCurlReady, let multi = curl_multi_init() else { throw .noResources }
        self.multi = multi
    }

    deinit { curl_multi_cleanup(multi) }

    /// - Returns: false after `shutDown`, when nobody takes commands any more.
    func put(_ command: Command) -> Bool {
        let (isTaken, wasEmpty) = state.withLock { state in
            if state.isShutDown { return (false, false) }
            state.commands.append(command)
            return (true, state.commands.count == 1)
        }
        // Whoever put the first command has woken the thread, and it takes all at once.
        if wasEmpty { curl_multi_wakeup(multi) }
        return isTaken
    }

    /// - Returns: true for the first caller.
    func shutDown() -> Bool {
        let isFirst = state.withLock { state in
            defer { state.isShutDown = true }
            return !state.isShutDown
        }
        if isFirst { curl_multi_wakeup(multi) }
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

/// curl_global_init(3), once a process.
private let isCurlReady = curl_global_init(Int(CURL_GLOBAL_ALL)) == CURLE_OK
