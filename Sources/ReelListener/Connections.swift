import NIOCore
import ReelThreads

/// The open connections, and the requests under way on them.
///
/// Anybody who reaches the address may open connections. So those without an admitted request are counted apart: they
/// make room for each other, and never end the connection of a client whose request was admitted.
final class Connections: Sendable {
    /// Of clients with an admitted request. A film is read over a few, a browser opens six.
    static let mostMembers = 192
    /// Of all others.
    static let mostStrangers = 64

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

        /// Takes out a connection that has to make room: an idle one if there is one, and of these the one unused for
        /// longest. nil if there are no more than `most`.
        mutating func takeSurplus(_ most: Int, areMembers: Bool) -> (any Channel)? {
            let rows = open.filter { $0.value.isMember == areMembers }
            guard rows.count > most else { return nil }
            let first = rows.min {
                ($0.value.underWay > 0 ? 1 : 0, $0.value.lastUse) < ($1.value.underWay > 0 ? 1 : 0, $1.value.lastUse)
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
            return state.takeSurplus(Self.mostStrangers, areMembers: false)
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

    /// A request of the connection was admitted; a surplus one of the others ends.
    func admit(_ channel: any Channel) {
        let surplus = state.withLock(notifying: false) { state -> (any Channel)? in
            guard state.open[ObjectIdentifier(channel)]?.isMember == false else { return nil }
            state.open[ObjectIdentifier(channel)]?.isMember = true
            return state.takeSurplus(Self.mostMembers, areMembers: true)
        }
        surplus?.close(promise: nil)
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
