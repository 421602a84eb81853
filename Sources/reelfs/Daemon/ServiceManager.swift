import Glibc

/// The service manager that started this program, and is told its state in datagrams (sd_notify(3)).
struct ServiceManager: Sendable {
    /// A path, or `@NAME` for a socket of the abstract namespace, nil if there is no service manager.
    private let socketName: String?
    /// How many descriptors it keeps for the next start (`FileDescriptorStoreMax=`, systemd.service(5)).
    let room: Int
    /// The name under which it knows this service, nil if it does not know.
    private let unit: String?

    /// - Parameter socketName: as in `NOTIFY_SOCKET`, nil to report nothing.
    init(socketName: String?, room: Int = 0, unit: String? = nil) {
        (self.socketName, self.room, self.unit) = (socketName, room, unit)
    }

    /// The manager of `NOTIFY_SOCKET`, `FDSTORE` and `REELFS_UNIT`, which the service templates set. Removes the
    /// variables, so that no child speaks for the daemon. Before another thread exists.
    static func fromEnvironment() -> ServiceManager {
        let (name, room) = (environment("NOTIFY_SOCKET"), environment("FDSTORE").flatMap { Int($0) })
        let unit = environment("REELFS_UNIT")
        for variable in ["NOTIFY_SOCKET", "FDSTORE", "REELFS_UNIT"] { unsetenv(variable) }
        return ServiceManager(socketName: name, room: name == nil ? 0 : room ?? 0, unit: unit)
    }

    /// Whether it stops this service only to start it again: what comes of SIGTERM depends on that.
    var isRestarting: Bool {
        let manager = geteuid() == 0 ? "" : "--user "
        guard room > 0, let unit,
            let command = Command(parsing: "systemctl \(manager)list-jobs --no-legend --no-pager --full '\(unit)'"),
            let output = Self.output(of: command)
        else { return false }
        // The number of the job, its unit, its type and its state (systemctl(1)).
        return String(decoding: output, as: UTF8.self).split(separator: "\n").contains { line in
            let words = line.split(separator: " ").map { String($0) }
            return words.count > 2 && words[1] == unit && words[2] == "restart"
        }
    }

    private static func output(of command: Command) -> [UInt8]? {
        for _ in 0..<10 {
            do throws(CommandFailure) {
                return try CommandRuns().run(command, limit: 64 << 10, within: .seconds(2))
            } catch {
                // The manager signals all processes of the service, those too that begin meanwhile.
                guard case .signal = error else { return nil }
                usleep(10_000)
            }
        }
        return nil
    }

    /// The descriptors that it has kept since the last start, by name (sd_listen_fds_with_names(3)); they are the
    /// caller's to close. Before another thread exists.
    static func kept() -> [String: Int32] {
        let (process, count) = (environment("LISTEN_PID"), environment("LISTEN_FDS").flatMap { Int32($0) })
        let names = environment("LISTEN_FDNAMES")?.split(separator: ":", omittingEmptySubsequences: false) ?? []
        for variable in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] { unsetenv(variable) }
        guard process == "\(getpid())", let count, Int(count) == names.count else { return [:] }
        let first: Int32 = 3
        for descriptor in first..<first + count { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        return Dictionary(zip(names.map { String($0) }, first...)) { one, _ in one }
    }

    /// Gives it a copy of a descriptor to keep. - Returns: whether the message was taken.
    func keep(_ descriptor: Int32, as name: String) -> Bool { send("FDSTORE=1\nFDNAME=\(name)", [descriptor]) }

    /// Has it close what it keeps.
    func drop(_ name: String) { _ = send("FDSTOREREMOVE=1\nFDNAME=\(name)", []) }

    private func send(_ text: String, _ descriptors: [Int32]) -> Bool {
        guard let socketName, let address = UnixAddress(socketName: socketName) else { return false }
        let socket = Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard socket >= 0 else { return false }
        defer { close(socket) }
        var limit = timeval(tv_sec: 5, tv_usec: 0)
        setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        let bytes = Array(text.utf8)
        return address.connect(socket) == 0
            && DescriptorMessage.send(bytes[...], descriptors, to: socket) == bytes.count
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
