import NIOCore
import ReelThreads

/// The open connections, and the requests under way on them.
///
/// Anybody who reaches the address may open connections. So those without an admitted request make room first: they end
/// no connection of a client whose request was admitted, unless there are only a few of them.
final class Connections: Sendable {
    /// A film is read over a few, a browser opens six.
    static let limit = 256
    /// Connections that are left to those without an admitted request: each client begins with one.
    static let strangers = 64

    private struct Row {
        let channel: any Channel
        /// When it was opened, a request of it began or ended, or its client took bytes.
        var lastUse = now()
        /// Requests being answered: one, and one more while the end of the first is not known here.
        var underWay = 0
        /// It had a request that was admitted.
        var isMember = false
    }

    private struct State {
        var open: [ObjectIdentifier: Row] = [:]
        /// Requests being answered.
        var tasks = 0
        var isEnding = false

        /// Takes out a connection that has to make room for a new one: the one unused for longest. Of those that had an
        /// admitted request it is an idle one, if there is one; of the others none is spared, as their requests under
        /// way wait for a refusal to be taken. nil if there are not too many.
        mutating func takeSurplus(for new: ObjectIdentifier) -> (any Channel)? {
            guard open.count > Connections.limit else { return nil }
            let areMembers = open.values.count { !$0.isMember } <= Connections.strangers
            let first = open.filter { $0.key != new && $0.value.isMember == areMembers }.min {
                let isFirstBusy = areMembers && $0.value.underWay > 0
                let isSecondBusy = areMembers && $1.value.underWay > 0
                return isFirstBusy == isSecondBusy ? $0.value.lastUse < $1.value.lastUse : isSecondBusy
            }
            return first.flatMap { open.removeValue(forKey: $0.key)?.channel }
        }
    }

    private let state = Monitor(State())

    /// Takes a new connection; a surplus one ends.
    func add(_ channel: any Channel) {
        let surplus = state.withLock { state -> (any Channel)? in
            if state.isEnding { return channel }
            state.open[ObjectIdentifier(channel)] = Row(channel: channel)
            return state.takeSurplus(for: ObjectIdentifier(channel))
        }
        surplus?.close(promise: nil)
    }

    func remove(_ channel: any Channel) {
        state.withLock { _ = $0.open.removeValue(forKey: ObjectIdentifier(channel)) }
    }

    /// A request begins. - Returns: false where the listener is ending.
    func begin(_ channel: any Channel) -> Bool {
        state.withLock { state in
            guard !state.isEnding else { return false }
            state.open[ObjectIdentifier(channel)]?.lastUse = now()
            state.open[ObjectIdentifier(channel)]?.underWay += 1
            state.tasks += 1
            return true
        }
    }

    /// A request of the connection was admitted.
    func admit(_ channel: any Channel) {
        state.withLock(notifying: false) { $0.open[ObjectIdentifier(channel)]?.isMember = true }
    }

    /// The client took bytes of an answer.
    func took(_ channel: any Channel) {
        state.withLock(notifying: false) { $0.open[ObjectIdentifier(channel)]?.lastUse = now() }
    }

    func end(_ channel: any Channel) {
        state.withLock { state in
            state.open[ObjectIdentifier(channel)]?.lastUse = now()
            state.open[ObjectIdentifier(channel)]?.underWay -= 1
            state.tasks -= 1
        }
    }

    /// Closes all connections, and waits until no request is being answered.
    func stop() {
        let open = state.withLock { state in
            state.isEnding = true
            return state.open.values.map(\.channel)
        }
        for channel in open { channel.close(promise: nil) }
        state.wait { $0.tasks == 0 ? () : nil }
    }
}
