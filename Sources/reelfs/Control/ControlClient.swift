import Glibc
import ReelFuse
import ReelThreads
import ReelVolume

/// A connection to the daemon of a mount.
///
/// The socket's path comes from the mount, and any user can mount a file system that calls itself reelfs and names any
/// socket. This class trusts only a daemon of root or of the calling user, and of a mount of another user none; for
/// root only the daemon of the user who mounted.
final class ControlClient: Sendable {
    private let descriptor: Int32
    /// The path of the socket.
    let path: String

    /// Descriptors that came with answers, the first ones first.
    private let received = Lock<[Int32]>([])

    deinit {
        for descriptor in received.withLock({ $0 }) { close(descriptor) }
        close(descriptor)
    }

    /// The error about a daemon that does not answer.
    static let silence = "the daemon does not answer"

    /// A million directories fit, which a daemon hands over to the next one.
    private static let longestLine = 256 << 20
    /// Milliseconds for the first line of an answer that is known at once.
    private static let shortPatience: Int32 = 2000
    /// Milliseconds between two lines of an answer that takes a while: a daemon that works sends progress all the time,
    /// and only a disk that stands still keeps it from that.
    private static let longPatience: Int32 = 60_000

    /// The user whose daemon it is.
    var owner: uid_t { peer(of: descriptor).user }

    /// The daemon.
    var process: pid_t { peer(of: descriptor).process }

    /// Connects. - Throws: where no daemon listens, or another user's.
    convenience init(path: String) throws(Failure) {
        try self.init(path, Self.connected(path), mounter: nil)
    }

    /// - Parameters:
    ///   - descriptor: of a connected socket; nil if no daemon listens.
    ///   - mounter: the user who mounted, if known.
    private init(_ path: String, _ descriptor: Int32?, mounter: uid_t?) throws(Failure) {
        guard let descriptor else { throw .mount(Self.silence) }
        self.descriptor = descriptor
        self.path = path
        let owner = owner
        guard Self.isTrusted(owner, by: geteuid(), mounter: mounter) else {
            throw Self.distrust(of: owner)
        }
    }

    /// The daemon of a mount. The mount is asked for its socket, which means waiting for the daemon: at most two
    /// seconds.
    convenience init(of mount: Mount) throws(Failure) {
        let mounter = mount.user
        let user = geteuid()
        if let mounter, !Self.isTrusted(mounter, by: user, mounter: mounter) { throw Self.distrust(of: mounter) }
        // The socket may lie in another mount, which does not answer either.
        let socket = Mountpoint.answered {
            mount.attribute("user.reelfs.socket").flatMap { $0.hasSuffix("/control") ? ($0, Self.connected($0)) : nil }
        }
        guard let (path, descriptor) = socket ?? nil else { throw .mount(Self.silence) }
        try self.init(path, descriptor, mounter: mounter)
    }

    /// The other user for whom a mount was made, if that is why its daemon does not answer this one.
    /// - Parameter failure: of the attempt to ask.
    static func mounter(notAnswering mount: Mount, _ failure: Failure) -> uid_t? {
        let user = geteuid()
        guard let mounter = mount.user, mounter != user else { return nil }
        guard isTrusted(mounter, by: user, mounter: mounter) else { return mounter }
        // The kernel refuses the call for a private mount or folder, without asking the daemon.
        return failure.sentence == silence && Mountpoint.health(of: mount.mountpoint) == .alive ? mounter : nil
    }

    /// - Returns: a socket; nil if no daemon listens.
    private static func connected(_ path: String) -> Int32? {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var limit = timeval(tv_sec: 2, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        if UnixAddress.reaching(path, { $0.connect(descriptor) == 0 }) ?? false { return descriptor }
        close(descriptor)
        return nil
    }

    /// - Parameters:
    ///   - owner: of the daemon that listens.
    ///   - mounter: the user who mounted; nil if the socket was not found by a mount.
    static func isTrusted(_ owner: uid_t, by user: uid_t, mounter: uid_t? = nil) -> Bool {
        // Another daemon of root's is no daemon of a user's mount.
        if user == 0 { return owner == mounter ?? 0 }
        return [0, user].contains(owner) && (mounter.map { [0, user].contains($0) } ?? true)
    }

    private static func distrust(of user: uid_t) -> Failure {
        .mount("the daemon belongs to another user (uid \(user)), so its answer is not trusted")
    }

    /// The state of the mount; nil where no answer comes within two seconds.
    func status() -> MountStatus? { ask(.status)?.value() }

    /// Asks for one thing. - Parameter each: gets each line before the last.
    /// - Throws: the daemon's sentence, or that it does not answer.
    func result<Value>(
        of request: ControlRequest, _ each: (ControlAnswer) -> Void = { _ in }
    ) throws(Failure) -> Value {
        let answer = ask(request, [], each)
        if let value: Value = answer?.value() { return value }
        throw .mount(answer?.error ?? Self.silence)
    }

    /// Asks for work that ends with a report.
    func report(
        _ request: ControlRequest, _ progress: (MaintenanceProgress) -> Void = { _ in }
    ) throws(Failure) -> MaintenanceReport {
        try result(of: request) { if case .progress(let news) = $0 { progress(news) } }
    }

    /// Has the daemon leave its mounts to this process.
    /// - Parameter each: gets each mount.
    /// - Returns: the last line; nil where the daemon has gone.
    func leave(_ each: (LeftMount) -> Void) -> ControlAnswer? {
        ask(.leave(), []) { if case .left(let left) = $0 { each(left) } }
    }

    /// The next descriptors that came with answers, which are the caller's to close; fewer where there are fewer.
    func takeDescriptors(_ count: Int) -> [Int32] {
        received.withLock { received in
            defer { received.removeFirst(min(count, received.count)) }
            return Array(received.prefix(count))
        }
    }

    /// Has the daemon end a mount, open files or not.
    func detach(_ device: String) {
        _ = ask(.detach(device))
    }

    /// Has the daemon report when a mount has ended; see `waitForEnd`.
    func awaitUnmount(of device: String) {
        let line = encodeLine(ControlRequest.awaitUnmount(device))
        send(descriptor, line, line.count, Int32(MSG_NOSIGNAL))
    }

    /// - Parameters:
    ///   - descriptors: sent along; without them `attach` asks only whether the daemon would take the mount.
    ///   - each: gets each line before the last.
    /// - Returns: the last line; nil where the daemon has gone, or no line comes for two seconds where it knows the
    ///   answer, and for a minute where it works.
    func ask(
        _ request: ControlRequest, _ descriptors: [Int32] = [], _ each: (ControlAnswer) -> Void = { _ in }
    ) -> ControlAnswer? {
        let isKnown =
            switch request {
            case .status, .describe: true
            case .attach: descriptors.isEmpty
            default: false
            }
        let patience = isKnown ? Self.shortPatience : Self.longPatience
        let line = encodeLine(request)
        guard DescriptorMessage.send(line[...], descriptors, to: descriptor) == line.count else { return nil }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        var end = ContinuousClock.now + .milliseconds(patience)
        while bytes.count < Self.longestLine {
            var poller = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let isReady = poll(&poller, 1, Int32(max(.zero, end - .now) / .milliseconds(1)))
            if isReady < 0, errno == EINTR { continue }
            guard isReady == 1 else { return nil }
            let (count, files) = DescriptorMessage.receive(&chunk, from: descriptor)
            received.withLock { $0 += files }
            guard count > 0 else { return nil }
            var rest = chunk[..<count]
            while let newline = rest.firstIndex(of: 0x0A) {
                guard let answer = decodeLine(ControlAnswer.self, bytes + rest[..<newline]) else { return nil }
                if answer.isLast { return answer }
                each(answer)
                bytes = []
                rest = rest[(newline + 1)...]
                end = .now + .milliseconds(patience)
            }
            bytes += rest
        }
        return nil
    }

    /// Sleeps until the daemon has closed the connection, as its work is done, or has answered `awaitUnmount`.
    /// - Parameter seconds: nil: without end.
    /// - Returns: false when it has not within that time.
    /// - Throws: the daemon's refusal to wait.
    func waitForEnd(seconds: Int32?) throws(Failure) -> Bool {
        var poller = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        var count = poll(&poller, 1, seconds.map { $0 * 1000 } ?? -1)
        while count < 0, errno == EINTR, seconds == nil { count = poll(&poller, 1, -1) }
        var answer = [UInt8](repeating: 0, count: 4096)
        guard count == 1 else { return false }
        answer.removeSubrange(max(0, recv(descriptor, &answer, answer.count, 0))...)
        if let refusal = decodeLine(ControlAnswer.self, answer)?.error { throw .mount(refusal) }
        return true
    }
}
