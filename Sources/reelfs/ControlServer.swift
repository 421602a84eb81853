import Glibc
import ReelFuse
import ReelThreads
import ReelVolume

/// Answers `status` on a Unix socket, 0600, from one thread of its own.
///
/// A connection stays open as long as its client likes; `stop` closes all of them after the cache has been committed, so
/// its end tells `reelfs umount` that the daemon has done its work.
///
/// `@unchecked Sendable`: everything is set in `init`; the clients belong to the thread alone.
final class ControlServer: @unchecked Sendable {
    private let path: String
    private let mount: MountRequest
    private let status: @Sendable () -> VolumeStatus
    private let listener: Int32
    /// Closing the writing end wakes the thread for the last time.
    private let wake: Pipe
    private var thread: Thread?
    private var clients: [Client] = []

    private struct Client {
        var descriptor: Int32
        var input: [UInt8] = []
    }

    /// So many commands at once; a further one waits in the kernel.
    private static let clientLimit = 16
    private static let lineLimit = 4096

    init(path: String, mount: MountRequest, status: @escaping @Sendable () -> VolumeStatus) throws(Failure) {
        self.path = path
        self.mount = mount
        self.status = status
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        // A socket that a crash left: this daemon is the cache's only owner now.
        unlink(path)
        // The directory is 0700, so nobody gets in between bind(2) and chmod(2).
        let isBound = UnixAddress.reaching(path) { $0.bind(listener) == 0 } ?? false
        guard isBound, chmod(path, 0o600) == 0, listen(listener, 16) == 0, let wake = Pipe() else {
            let text = reason()
            close(listener)
            throw .mount("cannot open the control socket in the cache directory: \(text)")
        }
        self.listener = listener
        self.wake = wake
        thread = Thread("control") { [self] in serve() }
    }

    func stop() {
        close(wake.writing)
        thread?.join()
        close(wake.reading)
        close(listener)
        unlink(path)
        for client in clients { close(client.descriptor) }
    }

    private func serve() {
        while true {
            var polled = [pollfd(fd: wake.reading, events: 0, revents: 0)]
            polled.append(
                pollfd(fd: clients.count < Self.clientLimit ? listener : -1, events: Int16(POLLIN), revents: 0))
            polled += clients.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
            guard poll(&polled, nfds_t(polled.count), -1) >= 0 || errno == EINTR else { return }
            if polled[0].revents != 0 { return }
            for index in clients.indices.reversed() where polled[index + 2].revents != 0 {
                if !receive(&clients[index]) {
                    close(clients[index].descriptor)
                    clients.remove(at: index)
                }
            }
            if polled[1].revents != 0 {
                let descriptor = accept(listener, nil, nil)
                if descriptor >= 0 {
                    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
                    _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
                    clients.append(Client(descriptor: descriptor))
                }
            }
        }
    }

    /// false: this client is done with.
    private func receive(_ client: inout Client) -> Bool {
        var chunk = [UInt8](repeating: 0, count: 4096)
        let count = read(client.descriptor, &chunk, chunk.count)
        if count < 0 { return errno == EAGAIN || errno == EINTR }
        guard count > 0 else { return false }
        client.input += chunk[..<count]
        while let end = client.input.firstIndex(of: 0x0A) {
            let line = encodeLine(answer(client.input[..<end]))
            client.input.removeSubrange(...end)
            if !deliver(line, to: client.descriptor) { return false }
        }
        return client.input.count <= Self.lineLimit
    }

    /// A client that does not read must not hold up the others: a second, then it is let go.
    private func deliver(_ line: [UInt8], to descriptor: Int32) -> Bool {
        var rest = line[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count > 0 {
                rest = rest.dropFirst(count)
                continue
            }
            var poller = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            guard errno == EAGAIN || errno == EINTR, poll(&poller, 1, 1000) == 1 else { return false }
        }
        return true
    }

    private func answer(_ line: some Sequence<UInt8>) -> ControlAnswer {
        guard let request = decodeLine(ControlRequest.self, line) else {
            return ControlAnswer(error: "that is no request")
        }
        guard request.version == 1, request.command == "status" else {
            return ControlAnswer(error: "this daemon knows only version 1 and the command status")
        }
        return ControlAnswer(
            mount: MountStatus(
                source: withoutQuery(mount.source), mountpoint: mount.mountpoint, pid: getpid(), volume: status()))
    }
}
