import NIOCore
import ReelThreads

/// The open connections, and the requests under way on them.
final class Connections: Sendable {
    /// A film is read over a few, a browser opens six.
    static let limit = 256

    private struct State {
        var open: [ObjectIdentifier: (channel: any Channel, lastUse: Duration)] = [:]
        /// Requests being answered.
        var tasks = 0
        var isEnding = false
    }

    private let state = Monitor(State())

    /// Takes a new connection. Where there are too many, the one unused for longest ends.
    func add(_ channel: any Channel) {
        let surplus = state.withLock { state -> (any Channel)? in
            if state.isEnding { return channel }
            let oldest =
                state.open.count >= Self.limit ? state.open.values.min { $0.lastUse < $1.lastUse }?.channel : nil
            state.open[ObjectIdentifier(channel)] = (channel, now())
            return oldest
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
            state.tasks += 1
            return true
        }
    }

    func end(_ channel: any Channel) {
        state.withLock { state in
            state.open[ObjectIdentifier(channel)]?.lastUse = now()
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
