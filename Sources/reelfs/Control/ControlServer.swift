import CLinux
import Glibc
import ReelCache
import ReelThreads

/// The daemon's Unix socket, mode 0600: a thread a connection, so that no client waits for another.
///
/// A connection stays open as long as its client takes the answers, unless it is the one unused for longest when there
/// are too many. `stop` closes all of them after the cache has been committed, so that the end of a connection shows
/// `reelfs umount` that the daemon has done its work.
final class ControlServer: Sendable {
    /// The directory of the socket, which is named `control` in it.
    private let directory: Int32
    private let service: ControlService
    private let listener: Int32
    private let state = Monitor(State())

    private struct State {
        var acceptor: Thread?
        var clients: [Int32: Client] = [:]
    }

    /// By its descriptor, which is closed only after it has left the table.
    private struct Client {
        /// When it connected, or when its last request came.
        var lastUse = now()
        var use = Use.idle
    }

    private enum Use {
        case idle
        /// A request that takes a while is being performed.
        case working
        /// It waits for the end of a mount, of which the end of its connection may be the answer.
        case waiting
    }

    /// Connections at once; a further one replaces the one unused for longest.
    private static let clientLimit = 64
    /// Clients at once that wait for the end of a mount, and so make no room.
    private static let waitingLimit = 32
    /// Microseconds until a client is tried again for which there was no descriptor or memory; it waits in the kernel.
    private static let pause: UInt32 = 100_000
    /// Some hundred paths, as a shell makes them of a pattern; one has PATH_MAX bytes at most, each of which JSON may
    /// write as six.
    private static let lineLimit = 512 << 10
    private static let name = "control"

    /// - Parameter path: of the socket; ends in `/control`.
    init(path: String, service: ControlService) throws(Failure) {
        self.service = service
        directory = try Self.directory(of: path)
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        // A socket that a crash left: this daemon is the cache's only owner now.
        unlinkat(directory, Self.name, 0)
        // bind(2) takes the mode of the socket itself, less the umask, so that nothing is changed by its path
        // afterwards.
        let address = UnixAddress("/proc/self/fd/\(directory)/\(Self.name)")
        let isBound = fchmod(listener, 0o600) == 0 && address?.bind(listener) == 0
        guard isBound, listen(listener, 16) == 0 else {
            let text = reason()
            close(listener)
            if isBound { unlinkat(directory, Self.name, 0) }
            close(directory)
            throw .mount("cannot open the control socket in the cache directory: \(text)")
        }
        let acceptor = Thread("control") { [self] in accept() }
        state.withLock { $0.acceptor = acceptor }
    }

    private static func directory(of path: String) throws(Failure) -> Int32 {
        do throws(PathError) {
            return try openTrusted(String(path.dropLast(name.count + 1)), O_RDONLY | O_DIRECTORY)
        } catch {
            throw .mount("cannot open the control socket in the cache directory: \(error)")
        }
    }

    /// Ends the requests that take a while, and waits for them: before the volume is shut down. `status` is still
    /// answered.
    func endJobs() { service.jobs.stop() }

    /// Removes the socket; connections stay open. To be called while the cache is still held: afterwards another
    /// daemon's socket may stand there.
    func withdraw() { unlinkat(directory, Self.name, 0) }

    /// Ends the requests that are left and closes all connections. The last step of a daemon.
    func stop() {
        endJobs()
        // accept4(2) returns EINVAL from then on.
        shutdown(listener, Int32(SHUT_RDWR))
        state.withLock { $0.acceptor }?.join()
        state.withLock { state in for descriptor in state.clients.keys { shutdown(descriptor, Int32(SHUT_RDWR)) } }
        state.wait { $0.clients.isEmpty ? () : nil }
        close(listener)
        close(directory)
    }

    private func accept() {
        while true {
            let descriptor = accept4(listener, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
            if descriptor >= 0 {
                begin(descriptor)
            } else if [EMFILE, ENFILE, ENOMEM, ENOBUFS].contains(errno) {
                usleep(Self.pause)
            } else if errno != EINTR, errno != ECONNABORTED {
                return
            }
        }
    }

    private func begin(_ descriptor: Int32) {
        state.withLock { state in
            let idle = state.clients.filter { $0.value.use == .idle }
            if state.clients.count >= Self.clientLimit,
                let oldest = idle.min(by: { $0.value.lastUse < $1.value.lastUse })
            {
                shutdown(oldest.key, Int32(SHUT_RDWR))
            }
            state.clients[descriptor] = Client()
        }
        let thread = Thread("client") { [self] in
            serve(ControlConnection(descriptor))
            end(descriptor)
        }
        if let thread { thread.detach() } else { end(descriptor) }
    }

    private func end(_ descriptor: Int32) {
        state.withLock { state in
            state.clients[descriptor] = nil
            close(descriptor)
        }
    }

    /// Answers line by line until either side closes the connection.
    private func serve(_ client: ControlConnection) {
        var input: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while input.count <= Self.lineLimit {
            let count = client.receive(&chunk)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return }
            input += chunk[..<count]
            while let end = input.firstIndex(of: 0x0A) {
                let line = Array(input[..<end])
                input.removeSubrange(...end)
                if let answer = answer(line, client), !client.send(answer) { return }
            }
        }
    }

    /// - Returns: nil where the end of the connection is the answer.
    private func answer(_ line: [UInt8], _ client: ControlConnection) -> ControlAnswer? {
        note(client, .idle)
        let request: ControlRequest
        do throws(RequestFailure) { request = try ControlRequest(line: line) } catch { return .failure(error) }
        switch request {
        case .status, .describe: return service.answer(request, for: client)
        case .leave: note(client, .waiting)
        case .awaitUnmount:
            guard mayWait(client) else { return .error("too many other commands wait for the end of a mount") }
        default:
            note(client, .working)
            // For `ps -L`.
            Thread.nameCurrent("maintenance")
        }
        let answer = service.answer(request, for: client)
        // The end of the connection is what the client of a leaving daemon waits for.
        if case (.leave, .done?) = (request, answer) { return answer }
        if answer != nil { note(client, .idle) }
        Thread.nameCurrent("client")
        return answer
    }

    private func note(_ client: ControlConnection, _ use: Use) {
        state.withLock(notifying: false) { $0.clients[client.descriptor] = Client(use: use) }
    }

    /// Notes that a client waits for the end of a mount. - Returns: false where too many wait already.
    private func mayWait(_ client: ControlConnection) -> Bool {
        state.withLock(notifying: false) { state in
            guard state.clients.values.count(where: { $0.use == .waiting }) < Self.waitingLimit else { return false }
            state.clients[client.descriptor] = Client(use: .waiting)
            return true
        }
    }
}
