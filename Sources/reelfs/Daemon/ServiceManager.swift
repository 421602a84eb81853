import Glibc

/// The service manager that started this program, and gets its state in datagrams (sd_notify(3)).
struct ServiceManager: Sendable {
    /// A path, or `@NAME` for a socket of the abstract namespace, nil if there is no service manager.
    let socketName: String?

    /// - Parameter socketName: as in `NOTIFY_SOCKET`, nil to report nothing.
    init(socketName: String?) { self.socketName = socketName }

    /// The manager of `NOTIFY_SOCKET`. Removes the variable, so that no child speaks for the daemon. Before another
    /// thread exists.
    static func fromEnvironment() -> ServiceManager {
        let name = environment(variable)
        unsetenv(variable)
        return ServiceManager(socketName: name)
    }

    private static let variable = "NOTIFY_SOCKET"

    /// Sets the variable for a process that takes the place of the daemon, as this one, which it reloads with, has none
    /// (`NotifyAccess=main`).
    static func pass(_ socketName: String?) {
        if let socketName { setenv(variable, socketName, 1) } else { unsetenv(variable) }
    }

    /// Whether a process is in this one's control group: it is one of the same service.
    static func isOfOurService(_ process: pid_t) -> Bool {
        guard let own = textOfFile("/proc/self/cgroup") else { return false }
        return own == textOfFile("/proc/\(process)/cgroup")
    }

    /// A change of state. The text is for people.
    enum Notice {
        /// The origin is being asked for the kind of the source. - Parameter limit: the longest time that this may
        /// take.
        case opening(String, limit: Duration)
        case ready(String)
        /// Another process is the service from here on (`MAINPID=`). Said before this one ends.
        case replaced(by: pid_t)
        case stopping(String)
        case failed(String)

        /// `STATUS` is the line `Status:` of `systemctl status`.
        var fields: [(name: String, value: String)] {
            switch self {
            case .opening(let status, let limit):
                // A `timeout` may be longer than the manager's own limit.
                [("EXTEND_TIMEOUT_USEC", "\(limit.components.seconds * 1_000_000)"), ("STATUS", status)]
            case .ready(let status): [("READY", "1"), ("STATUS", status)]
            case .replaced(let process): [("MAINPID", "\(process)")]
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
