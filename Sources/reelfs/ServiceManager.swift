import Glibc

/// The service manager that started this program and wants to hear how it is: sd_notify(3), which is a datagram.
package struct ServiceManager: Sendable {
    /// A path, or `@NAME` for a socket of the abstract namespace; nil: nobody wants to hear.
    private let socketName: String?

    package init(socketName: String?) { self.socketName = socketName }

    /// The one of `NOTIFY_SOCKET`, which is then taken out of the environment: what the daemon starts is not to speak for
    /// it. Before another thread exists.
    static func fromEnvironment() -> ServiceManager {
        let name = getenv("NOTIFY_SOCKET").map { String(cString: $0) }
        unsetenv("NOTIFY_SOCKET")
        return ServiceManager(socketName: name)
    }

    package enum Event {
        /// The origin is asked what the source is. - Parameter limit: how long that may take.
        case opening(String, limit: Duration)
        case ready(String)
        case stopping(String)
        case failed(String)

        /// The last word of each is for people: the line `Status:` of `systemctl status`.
        var fields: [(name: String, value: String)] {
            switch self {
            case .opening(let status, let limit):
                // A `timeout` longer than the manager's own patience is the user's will.
                [("EXTEND_TIMEOUT_USEC", "\(limit.components.seconds * 1_000_000)"), ("STATUS", status)]
            case .ready(let status): [("READY", "1"), ("STATUS", status)]
            case .stopping(let status): [("STOPPING", "1"), ("STATUS", status)]
            case .failed(let status): [("STATUS", status)]
            }
        }
    }

    /// Nothing comes of a manager that does not listen. A busy one is waited for: without "ready" it would end the service.
    package func tell(_ event: Event) {
        guard let socketName, let address = UnixAddress(socketName: socketName) else { return }
        let text = event.fields.map { "\($0.name)=\(printable($0.value))" }.joined(separator: "\n")
        address.send(Array(text.utf8), patience: 5)
    }
}
