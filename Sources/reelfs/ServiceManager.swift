import Glibc

/// The service manager that started this program, and is told its state in datagrams (sd_notify(3)).
struct ServiceManager: Sendable {
    /// A path, or `@NAME` for a socket of the abstract namespace; nil: there is no service manager.
    private let socketName: String?

    /// - Parameter socketName: as in `NOTIFY_SOCKET`; nil: tells nothing.
    init(socketName: String?) { self.socketName = socketName }

    /// The manager of `NOTIFY_SOCKET`. Removes the variable, so that no child speaks for the daemon. Before another
    /// thread exists.
    static func fromEnvironment() -> ServiceManager {
        let name = environment("NOTIFY_SOCKET")
        unsetenv("NOTIFY_SOCKET")
        return ServiceManager(socketName: name)
    }

    /// A change of state. The text is for people.
    enum Notice {
        /// The origin is being asked for the kind of the source. - Parameter limit: the longest time that this may
        /// take.
        case opening(String, limit: Duration)
        case ready(String)
        case stopping(String)
        case failed(String)

        /// `STATUS` is the line `Status:` of `systemctl status`.
        var fields: [(name: String, value: String)] {
            switch self {
            case .opening(let status, let limit):
                // A `timeout` may be longer than the manager's own limit.
                [("EXTEND_TIMEOUT_USEC", "\(limit.components.seconds * 1_000_000)"), ("STATUS", status)]
            case .ready(let status): [("READY", "1"), ("STATUS", status)]
            case .stopping(let status): [("STOPPING", "1"), ("STATUS", status)]
            case .failed(let status): [("STATUS", status)]
            }
        }
    }

    /// Ignores a manager that does not listen. Waits for a busy one: without "ready" it would end the service.
    func tell(_ notice: Notice) {
        guard let socketName, let address = UnixAddress(socketName: socketName) else { return }
        let text = notice.fields.map { "\($0.name)=\(printable($0.value))" }.joined(separator: "\n")
        address.send(Array(text.utf8), patience: 5)
    }
}
