import CFuse
import Glibc
import Logging
import ReelFilesystem
import ReelThreads
import Synchronization

/// One mount, from mount(2) to its end.
///
/// `run` → requests are served → `umount` or `stop()` → every reply is given → unmounted, descriptor closed.
///
/// `@unchecked Sendable`: `session` is libfuse's, which lets any thread use it until fuse_session_destroy; that is
/// called once, by `wait`, after every thread that uses it was joined.
package final class FuseSession: @unchecked Sendable {
    /// The parameters of a mount.
    package struct Options: Sendable {
        /// The source as mountinfo shows it, byte for byte.
        package var source: String
        /// The absolute path of the directory to mount on.
        package var mountpoint: String
        /// The owner and the modes of all files.
        package var ownership: Ownership
        /// Whether other users have access.
        package var allowOther: Bool
        /// The number of threads that serve the kernel's requests.
        package var workers: Int
        /// The directory whose files the kernel may read itself (`FileHandle.passthroughFile`), on one filesystem, nil
        /// for no passthrough.
        package var backingDirectory: String?
        /// A mount that was made by another process, instead of one to be made; the session closes its descriptor.
        package var device: MountDevice?
        /// What an earlier process has left of the mount, whose `device` is given, nil if there was none.
        package var inheritance: Inheritance?
        /// The kernel's calls, which tests replace.
        package var backingCalls = BackingCalls.kernel
        /// The time that the kernel has for its handshake.
        package var patience = Duration.seconds(10)

        /// - Parameter workers: a worker blocks only on the cache's disk, never on the network: twice the processors
        ///   keep those busy while others wait for the disk; more than eight only add memory (256 KiB each, 1 MiB where
        ///   large directories are listed).
        package init(
            source: String, mountpoint: String, ownership: Ownership, allowOther: Bool = false,
            backingDirectory: String? = nil,
            workers: Int = min(8, max(4, 2 * sysconf(Int32(_SC_NPROCESSORS_ONLN))))
        ) {
            self.source = source
            self.mountpoint = mountpoint
            self.ownership = ownership
            self.allowOther = allowOther
            self.workers = workers
            self.backingDirectory = backingDirectory
        }
    }

    private struct State: Sendable {
        var running = 0
        var workers: [Thread] = []
        var isNotifying = false
        var hasBegunToStop = false
        /// Another process serves the mount from now on.
        var isLeft = false
        var isOver = false
        /// The kernel's INIT request.
        var handshake: [UInt8] = []

        /// - Returns: false where the session is stopping already.
        mutating func beginToStop(leaving: Bool = false) -> Bool {
            if hasBegunToStop { return false }
            (hasBegunToStop, isLeft) = (true, leaving)
            return true
        }
    }

    private let session: OpaquePointer
    private let adapter: Adapter
    private let options: Options
    /// `major:minor` of the mount, as in mountinfo; nil where mountinfo could not be read.
    package let device: String?
    private let notifier: KernelNotifier
    private let state = Monitor(State())
    /// Workers take no more requests. Each looks at it before each request, which takes no lock.
    private let isStopping = Atomic(false)

    /// Mounts; serves nothing before `start`. - Throws: a sentence for the user.
    package init(_ filesystem: any Filesystem, options: Options, logger: Logger) throws(MountError) {
        self.options = options
        let passthrough = Passthrough(
            depth: stackDepth(for: options.backingDirectory), calls: options.backingCalls, logger: logger)
        adapter = Adapter(
            filesystem: filesystem, ownership: options.ownership, passthrough: passthrough,
            inheritance: options.inheritance, logger: logger)
        notifier = KernelNotifier(passthrough)
        kernelCache = adapter.inherited.map { [notifier] in InheritedKernelCache(notifier, $0.nodes) } ?? notifier
        session = try makeSession(options, Unmanaged.passUnretained(adapter).toOpaque())
        // libfuse takes this path for a device that is mounted already.
        let place = options.device.map { "/dev/fd/\($0.descriptor)" } ?? options.mountpoint
        guard fuse_session_mount(session, place) == 0 else {
            fuse_session_destroy(session)
            throw MountError(message: LibraryLog.last() ?? "mounting on \(options.mountpoint) was refused")
        }
        _ = fcntl(fuse_session_fd(session), F_SETFD, FD_CLOEXEC)
        passthrough.connect(fuse_session_fd(session))
        if let inheritance = options.inheritance {
            passthrough.inherit(inheritance)
        } else if passthrough.depth > 0, !reel_has_native_passthrough(), !Handshake.intercept(session) {
            logger.info("no passthrough on this mount", metadata: ["reason": "libfuse"])
        }
        device = options.device.map(\.number) ?? Mount.on(options.mountpoint)?.device
        notifier.connect(device)
    }

    /// The absolute path of the directory that it is mounted on.
    package var mountpoint: String { options.mountpoint }

    /// Notifies the kernel of what changes in the filesystem.
    package let kernelCache: any KernelCache

    /// Waits until the kernel has heard what changed so far, a second at most.
    package func settleKernelCache() { notifier.settle() }

    /// Whether the kernel may read complete files itself: it agreed, and has not refused since.
    package var isPassthroughPossible: Bool { adapter.passthrough.isPossible }

    /// Starts the threads and returns when the mount answers, which is after the kernel's handshake. An error leaves
    /// nothing of the mount, and no call may follow it.
    package func start() throws(MountError) {
        installWakeUp()
        if let inheritance = options.inheritance {
            guard inheritance.handshake.withUnsafeBytes({ InitExchange.isRequest($0) }) else {
                throw MountError(message: "what was left of the mount on \(options.mountpoint) is not known")
            }
            take(inheritance)
        }
        let threads = (0..<max(1, options.workers)).compactMap { number in
            state.withLock { $0.running += 1 }
            let thread = Thread("fuse-\(number)") { [self] in serve() }
            if thread == nil { state.withLock { $0.running -= 1 } }
            return thread
        }
        state.withLock { $0.isNotifying = true }
        let helper = Thread("fuse-notify") { [self] in
            notifier.run(session)
            state.withLock { $0.isNotifying = false }
        }
        if helper == nil { state.withLock { $0.isNotifying = false } }
        state.withLock { $0.workers = threads + (helper.map { [$0] } ?? []) }
        let isReady = adapter.isReady.wait(atMost: options.patience) { $0 } ?? false
        guard isReady, !threads.isEmpty else {
            stop()
            wait()
            throw MountError(message: "the kernel did not answer on \(options.mountpoint)")
        }
        if let device { KernelReadahead.raise(device) }
    }

    /// Waits until the mount has ended, by `umount` or `stop`, and removes all that is left of it.
    /// - Returns: false where another process serves the mount now.
    @discardableResult
    package func wait() -> Bool {
        state.wait { $0.running == 0 ? () : nil }
        let isLeft = state.withLock(notifying: false) { state in
            // What ends now cannot be left, nor stopped, any more: libfuse's session goes.
            if !state.isLeft { state.hasBegunToStop = true }
            return state.isLeft
        }
        if isLeft { return false }
        adapter.pending.close()
        notifier.close()
        let threads = state.withLock { state in
            state.isOver = true
            return state.workers
        }
        for thread in threads { thread.join() }
        adapter.pending.waitUntilEmpty()
        // libfuse unmounts the filesystem that is at the path now (lazily, so open files do not matter); after a
        // `umount -l` that may be another one.
        if let device, Mount.on(options.mountpoint)?.device == device {
            fuse_session_unmount(session)
            // libfuse leaves the mount of an aborted connection where it is.
            if Mount.on(options.mountpoint)?.device == device {
                umount2(options.mountpoint, Int32(MNT_DETACH | UMOUNT_NOFOLLOW))
            }
        }
        fuse_session_destroy(session)
        return true
    }

    /// Gives the filesystem back what the kernel held of it, after `wait`. Without it that stays until the filesystem
    /// ends, which is as well where it ends now.
    package func giveBack() { adapter.holdings.giveBack(adapter) }

    /// Ends the mount at once, from any thread, open files or not: waiting requests fail, then `wait` returns.
    package func stop() {
        guard state.withLock({ $0.beginToStop() }) else { return }
        adapter.pending.close()
        notifier.close()
        // Inside the kernel it may wait for a page that a read holds; only while the workers serve does every read end.
        _ = state.wait(atMost: .seconds(5)) { $0.isNotifying && $0.running > 0 ? nil : () }
        stopWorkers()
    }

    private func stopWorkers() {
        isStopping.store(true, ordering: .sequentiallyConsistent)
        // A worker that looked at the flag just before sleeps again: wake it until it has seen the flag.
        while true {
            let isDone = state.withLock { state in
                if state.running == 0 || state.isOver { return true }
                for thread in state.workers.prefix(options.workers) { pthread_kill(thread.handle, wakeUpSignal) }
                return false
            }
            if isDone { return }
            _ = state.wait(atMost: .milliseconds(5)) { $0.running == 0 ? () : nil }
        }
    }

    /// The loop of one worker. Not fuse_session_loop_mt, which ends its threads by pthread_cancel: Swift code cannot be
    /// unwound.
    private func serve() {
        allowWakeUp()
        var buffer = fuse_buf()
        var hasShaken = false
        while !isStopping.load(ordering: .sequentiallyConsistent), fuse_session_exited(session) == 0 {
            let count = fuse_session_receive_buf(session, &buffer)
            if count == -EINTR || count == -EAGAIN { continue }
            if count <= 0 { break }
            if !hasShaken { keepHandshake(buffer) }
            fuse_session_process_buf(session, &buffer)
            if hasShaken { continue }
            // Only now: the kernel acts on the answer to INIT while libfuse writes it.
            hasShaken = adapter.hasAnsweredInit.load(ordering: .relaxed)
            if hasShaken { adapter.isReady.withLock { $0 = true } }
        }
        free(buffer.mem)
        let isLast = state.withLock { state in
            state.running -= 1
            return state.running == 0
        }
        if isLast { adapter.isReady.withLock { $0 = $0 ?? false } }
    }
}

// From one process to the next.
extension FuseSession {
    /// Takes over from an earlier process: no worker has begun.
    private func take(_ inheritance: Inheritance) {
        state.withLock { $0.handshake = inheritance.handshake }
        // The kernel has had its answer; libfuse still needs it.
        var bytes = InitExchange.replay(inheritance.handshake)
        bytes.withUnsafeMutableBytes { bytes in
            var buffer = fuse_buf()
            buffer.mem = bytes.baseAddress
            buffer.size = bytes.count
            fuse_session_process_buf(session, &buffer)
        }
        // FUSE_NOTIFY_RESEND (linux/fuse.h): the requests that the earlier process has left unanswered.
        let notice: [UInt32] = [16, 7, 0, 0]
        _ = notice.withUnsafeBytes { write(fuse_session_fd(session), $0.baseAddress, $0.count) }
        adapter.isReady.withLock { $0 = true }
        adapter.inherited?.reopen { [adapter] file, handle in
            adapter.passthrough.reopened(file.inherited.node, handle)
        }
    }

    private func keepHandshake(_ buffer: fuse_buf) {
        let bytes = UnsafeRawBufferPointer(start: buffer.mem, count: buffer.size)
        if InitExchange.isRequest(bytes) { state.withLock { $0.handshake = Array(bytes) } }
    }

    /// Stops serving, and says nothing to the kernel: its requests wait for the next process. The session is of no more
    /// use, and stays until this process ends.
    /// - Returns: nil where the mount is ending.
    package func leave() -> (device: Int32, inheritance: Inheritance)? {
        guard state.withLock({ $0.beginToStop(leaving: true) }) else { return nil }
        notifier.close()
        // As in `stop`; one that goes on to wait gets its page from the next process.
        _ = state.wait(atMost: .milliseconds(200)) { $0.isNotifying && $0.running > 0 ? nil : () }
        stopWorkers()
        let request = state.withLock { $0.handshake }
        // Older kernels do not ask again.
        let isAskedAgain = request.withUnsafeBytes { InitExchange.offersResend($0) }
        if !isAskedAgain, !adapter.pending.waitUntilEmpty(atMost: .seconds(5)) { adapter.pending.close() }
        adapter.pending.drop()
        adapter.pending.waitUntilEmpty()
        var inheritance = adapter.left()
        inheritance.handshake = request
        return (fuse_session_fd(session), inheritance)
    }
}

/// The system ignores it by default, so one that comes late does no harm; Go's runtime uses it for the same reason.
private let wakeUpSignal = SIGURG

/// A handler that does nothing, without SA_RESTART, so that read(2) of the device returns EINTR.
private func installWakeUp() {
    var action = sigaction()
    action.__sigaction_handler.sa_handler = { _ in }
    sigaction(wakeUpSignal, &action, nil)
}

/// A thread inherits its creator's mask, and some libraries' threads block everything.
private func allowWakeUp() {
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, wakeUpSignal)
    pthread_sigmask(SIG_UNBLOCK, &signals, nil)
}
