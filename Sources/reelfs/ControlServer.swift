import Glibc
import ReelCache
import ReelFuse
import ReelThreads
import Synchronization

/// Answers commands on a Unix socket, 0600: what is known at once from one thread of its own, the rest from a thread a
/// request, so that nobody waits for what another asked.
///
/// A connection stays open as long as its client likes, unless it is the one unused for longest when there are too many.
/// `stop` closes all of them after the cache has been committed, so its end tells `reelfs umount` that the daemon has done
/// its work.
///
/// `@unchecked Sendable`: everything but `jobs` is set in `init`; the clients and `isShort` belong to the thread alone.
final class ControlServer: @unchecked Sendable {
    /// Of the socket, which is named `control` in it.
    private let directory: Int32
    private let service: ControlService
    private let listener: Int32
    /// A byte says that a job has ended; closing the writing end wakes the thread for the last time.
    private let wake: Pipe
    private var thread: Thread?
    private var clients: [Client] = []
    /// There was no descriptor or memory for a client, who keeps waiting in the kernel.
    private var isShort = false
    private let jobs = Mutex(Jobs())

    private struct Client {
        var descriptor: Int32
        var input: [UInt8] = []
        /// Answers that the client has not taken yet; meanwhile nothing is read of it.
        var output: ArraySlice<UInt8> = []
        /// When it connected, or when its last request came.
        var lastUse = now()
        /// While it runs, what else the client asks waits in the kernel.
        var job: ControlJob?
        var isGone = false
    }

    private struct Jobs {
        var running: [ControlJob] = []
        /// No new ones.
        var isEnding = false
        var isWakeClosed = false
    }

    /// Connections at once; a further one takes the place of the one unused for longest.
    private static let clientLimit = 64
    /// Of them so many that take a while: each has a thread, and the disk is for the readers of the mount.
    private static let jobLimit = 4
    /// Milliseconds until a client is tried again for whom there was no descriptor: poll(2) would tell of it without end.
    private static let pause: Int32 = 100
    /// A path of PATH_MAX bytes, each of which JSON may write as six, and the rest of a request.
    private static let lineLimit = 6 * 4096 + 4096

    init(path: String, service: ControlService) throws(Failure) {
        self.service = service
        directory = try Self.directory(of: path)
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        // A socket that a crash left: this daemon is the cache's only owner now.
        unlinkat(directory, Self.name, 0)
        // bind(2) takes the mode of the socket itself, less the umask: nothing is to be changed by its path afterwards.
        let address = UnixAddress("/proc/self/fd/\(directory)/\(Self.name)")
        let isBound = fchmod(listener, 0o600) == 0 && address?.bind(listener) == 0
        guard isBound, listen(listener, 16) == 0, let wake = Pipe() else {
            let text = reason()
            close(listener)
            if isBound { unlinkat(directory, Self.name, 0) }
            close(directory)
            throw .mount("cannot open the control socket in the cache directory: \(text)")
        }
        self.listener = listener
        self.wake = wake
        thread = Thread("control") { [self] in serve() }
    }

    private static let name = "control"

    private static func directory(of path: String) throws(Failure) -> Int32 {
        do throws(PathError) {
            return try openTrusted(String(path.dropLast(name.count + 1)), O_RDONLY | O_DIRECTORY)
        } catch {
            throw .mount("cannot open the control socket in the cache directory: \(error)")
        }
    }

    /// Ends what takes a while and waits for its end: before the volume is shut down. `status` is answered on.
    func endJobs() {
        let running = jobs.withLock { jobs in
            jobs.isEnding = true
            for job in jobs.running {
                job.end()
                // Its client may be stopped, or take a byte now and then: nobody waits for that. In here, as the
                // descriptor is closed only after the job has left the list.
                shutdown(job.descriptor, Int32(SHUT_RDWR))
            }
            return jobs.running
        }
        for job in running { job.waitForEnd() }
    }

    /// Nobody finds it any more; who is connected stays so. While the cache is still held: once it is let go, another
    /// daemon's socket may stand there.
    func withdraw() { unlinkat(directory, Self.name, 0) }

    func stop() {
        endJobs()
        jobs.withLock { $0.isWakeClosed = true }
        close(wake.writing)
        thread?.join()
        close(wake.reading)
        close(listener)
        close(directory)
        for client in clients { close(client.descriptor) }
    }

    private func serve() {
        while true {
            var polled = [pollfd(fd: wake.reading, events: Int16(POLLIN), revents: 0)]
            polled.append(pollfd(fd: isShort ? -1 : listener, events: Int16(POLLIN), revents: 0))
            polled += clients.map { client in
                // Of one whose job runs only its end counts (POLLHUP, which is always told), and that once.
                let wanted = client.job != nil ? 0 : client.output.isEmpty ? POLLIN : POLLOUT
                return pollfd(fd: client.isGone ? -1 : client.descriptor, events: Int16(wanted), revents: 0)
            }
            let count = poll(&polled, nfds_t(polled.count), isShort ? Self.pause : -1)
            isShort = false
            guard count >= 0 || errno == EINTR else { return }
            if polled[0].revents != 0 {
                var bytes = [UInt8](repeating: 0, count: 64)
                if read(wake.reading, &bytes, bytes.count) == 0 { return }
            }
            for index in clients.indices.reversed() {
                if !goOn(&clients[index], polled[index + 2].revents) {
                    close(clients[index].descriptor)
                    clients.remove(at: index)
                }
            }
            if polled[1].revents != 0 { accept() }
        }
    }

    private func accept() {
        let descriptor = Glibc.accept(listener, nil, nil)
        guard descriptor >= 0 else {
            isShort = [EMFILE, ENFILE, ENOMEM, ENOBUFS].contains(errno)
            return
        }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        if clients.count >= Self.clientLimit { closeUnused() }
        clients.append(Client(descriptor: descriptor))
    }

    /// Makes room for another client. At most `jobLimit` of them have a job, so there is one without.
    private func closeUnused() {
        let unused = clients.indices.filter { clients[$0].job == nil }.min { clients[$0].lastUse < clients[$1].lastUse }
        guard let unused else { return }
        close(clients[unused].descriptor)
        clients.remove(at: unused)
    }

    /// false: this client is done with.
    private func goOn(_ client: inout Client, _ events: Int16) -> Bool {
        guard let job = client.job else {
            if events == 0 { return true }
            return client.output.isEmpty ? receive(&client) : send(&client) && answerLines(&client)
        }
        if events != 0 {
            client.isGone = true
            job.end()
        }
        guard job.hasEnded else { return true }
        jobs.withLock { $0.running.removeAll { $0 === job } }
        client.job = nil
        // A job that was ended could not say its last word.
        return !job.isOver && answerLines(&client)
    }

    private func receive(_ client: inout Client) -> Bool {
        var chunk = [UInt8](repeating: 0, count: 4096)
        let count = read(client.descriptor, &chunk, chunk.count)
        if count < 0 { return errno == EAGAIN || errno == EINTR }
        guard count > 0 else { return false }
        client.input += chunk[..<count]
        return answerLines(&client) && client.input.count <= Self.lineLimit
    }

    private func answerLines(_ client: inout Client) -> Bool {
        while client.job == nil, client.output.isEmpty, let end = client.input.firstIndex(of: 0x0A) {
            let line = Array(client.input[..<end])
            client.input.removeSubrange(...end)
            client.lastUse = now()
            guard let answer = answer(line, &client) else { continue }
            client.output = encodeLine(answer)[...]
            if !send(&client) { return false }
        }
        return true
    }

    /// Sends what the client takes at once: one that does not read holds up nobody. - Returns: false where it has gone.
    private func send(_ client: inout Client) -> Bool {
        while !client.output.isEmpty {
            let count = client.output.withUnsafeBytes {
                Glibc.send(client.descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return errno == EAGAIN || errno == EINTR }
            client.output = client.output.dropFirst(count)
        }
        return true
    }

    /// nil: a job has begun that answers itself.
    private func answer(_ line: [UInt8], _ client: inout Client) -> ControlAnswer? {
        guard let request = decodeLine(ControlRequest.self, line) else {
            return ControlAnswer(error: "that is no request")
        }
        if let answer = service.answer(request) { return answer }
        let descriptor = client.descriptor
        let (job, refusal) = jobs.withLock { jobs -> (ControlJob?, String) in
            if jobs.isEnding { return (nil, "the mount is ending") }
            guard jobs.running.count < Self.jobLimit else {
                return (nil, "the daemon is busy with other commands; try again when they have ended")
            }
            let job = ControlJob.start(on: descriptor) { [service] in
                service.perform(request, $0)
            } whenDone: { [self] in
                jobEnded()
            }
            if let job { jobs.running.append(job) }
            return (job, "the system has no thread to spare; try again")
        }
        client.job = job
        return job == nil ? ControlAnswer(error: refusal) : nil
    }

    private func jobEnded() {
        jobs.withLock { jobs in
            var byte: UInt8 = 0
            if !jobs.isWakeClosed { _ = write(wake.writing, &byte, 1) }
        }
    }
}
