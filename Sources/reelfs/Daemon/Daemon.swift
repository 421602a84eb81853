import CLinux
import Glibc
import Logging
import ReelFuse
import ReelListener
import ReelThreads
import ReelVolume

/// The process that serves one mount.
enum Daemon {
    /// In the background: what to mount from stdin, the outcome to the ready pipe.
    static func runFromPipe() -> Int32 {
        let ready = ReadyPipe(descriptor: DaemonLaunch.readyDescriptor)
        guard fcntl(ready.descriptor, F_SETFD, FD_CLOEXEC) == 0,
            let words = decodeLine(MountWords.self, readAll(0)), let options = try? words.options(),
            let request = try? words.request(
                at: words.mountpoint, options, handedDownTo: DaemonLaunch.deviceDescriptor)
        else { return Failure.usage("`reelfs daemon` is started by `reelfs mount`").printed() }
        return run(request, ready: ready)
    }

    /// Serves until `umount`, SIGTERM or SIGINT. - Parameter ready: nil in the foreground.
    static func run(_ request: MountRequest, ready: ReadyPipe?) -> Int32 {
        // In the background, the process that started it speaks to the service manager, if there is one.
        let speaks = ready == nil || request.predecessor != nil
        let manager = speaks ? ServiceManager.fromEnvironment() : ServiceManager(socketName: nil)
        do {
            try serve(request, ready: ready, manager)
            return 0
        } catch {
            manager.tell(.failed(error.sentence))
            ready?.say(error.line)
            return ready == nil ? error.printed() : error.status.rawValue
        }
    }

    private static func serve(
        _ request: MountRequest, ready: ReadyPipe?, _ manager: ServiceManager
    ) throws(Failure) {
        let source = withoutQuery(request.source)
        let isSuccessor = request.predecessor != nil
        // Before the directory is left to which a path may be relative; a daemon that is there may have the address.
        let opened = Result { () throws(Failure) in isSuccessor ? nil : try Entrance(request.options) }
        let (configuration, signals) = try prepare(request, ready: ready, manager)
        let logger = configuration.logger
        // Files in which something is wrong end the restart, and not the mounts.
        var plan = isSuccessor ? try EntrancePlan(request.options) : nil
        try plan?.readToken(logger)
        // From here on this process alone may have the mounts.
        if isSuccessor { signals.keep(isSuccessor: true) }
        let estate = try request.predecessor.map { path throws(Failure) in try Estate(ofDaemonAt: path) }
        if estate == nil, let attachment = try Attachment(configuration), try attachment.run(ready, manager, signals) {
            return
        }
        // The daemon before had the address.
        var entrance = estate == nil ? try opened.get() : plan.flatMap { successor($0, logger) }
        let wiring: Wiring
        do throws(Failure) {
            wiring = try Wiring(configuration, asks: estate == nil)
        } catch {
            // A daemon that began at the same time may have taken the cache.
            guard estate == nil, let attachment = try Attachment(configuration),
                try attachment.run(ready, manager, signals)
            else { throw error }
            return
        }
        let mounts = MountTable(configuration, wiring.volume, isOffline: wiring.isOffline)
        var control: ControlServer?
        var listener: Listener?
        do throws(Failure) {
            if estate == nil { try entrance?.readToken(logger) }
            var service = ControlService(
                volume: wiring.volume, reload: wiring.reload, setOffline: { wiring.setOffline($0) }, mounts: mounts,
                configuration: configuration, listening: entrance?.address, tokenFile: entrance?.tokenFile,
                manager: manager)
            do throws(Failure) {
                listener = try entrance?.open(service)
            } catch {
                guard estate != nil else { throw error }
                warn(error, logger)
                (service.listening, service.tokenFile) = (nil, nil)
            }
            control = try ControlServer(path: wiring.socketPath, service: service)
            signals.keep()
            if let estate {
                try estate.settle(mounts)
            } else {
                try mounting(configuration) { options throws(MountError) in
                    // Whoever made a mount removes it.
                    try mounts.add(options, isOnlyCached: request.options.onlyCached) {
                        request.device == nil ? watch($0, logger) : nil
                    }
                }
            }
            signals.serve(reload: wiring.hangUp) { mounts.stop() }
        } catch {
            mounts.stop()
            mounts.settle()
            mounts.waitForEnd()
            listener?.stop()
            control?.withdraw()
            control?.stop()
            wiring.stop()
            throw error
        }
        mounts.settle()
        logger.notice(
            "mounted", metadata: ["source": "\(source)", "on": "\(request.mountpoint)"])
        if let ready { leave(ready) }
        manager.tell(.ready("\(source) on \(request.mountpoint)"))
        mounts.waitForEnd()
        // Where another process is the service by now, that goes on.
        if !mounts.isLeft { manager.tell(.stopping("writing the cache")) }
        listener?.stop()
        control?.endJobs()
        control?.withdraw()
        wiring.stop()
        // Last: the end of a connection shows its client that everything is written.
        control?.stop()
        logger.notice("unmounted", metadata: ["on": "\(request.mountpoint)"])
    }

    /// The entrance of a daemon that has mounts already: these are worth more than it.
    private static func successor(_ plan: EntrancePlan, _ logger: Logger) -> Entrance? {
        do throws(Failure) {
            return try Entrance(plan)
        } catch {
            warn(error, logger)
            return nil
        }
    }

    private static func warn(_ failure: Failure, _ logger: Logger) {
        logger.warning("\(failure.sentence): the mount goes on without its HTTP server")
    }

    private static func watch(_ session: FuseSession, _ logger: Logger) -> Watcher? {
        let watcher = session.device.flatMap { Watcher(mountpoint: session.mountpoint, device: $0) }
        if watcher == nil {
            logger.warning("cannot start a process to watch the mount: after a crash it stays until mounted again")
        }
        return watcher
    }

    /// Readies the process, and reads the files that the options name.
    static func prepare(
        _ request: MountRequest, ready: ReadyPipe?, _ manager: ServiceManager
    ) throws(Failure) -> (FilesystemConfiguration, EndSignals) {
        keepAllocatorLimits()
        raiseFileLimit()
        // Started through /proc/self/exe, the process would be called "exe".
        Thread.nameCurrent("reelfs")
        signal(SIGPIPE, SIG_IGN)
        manager.tell(.opening("opening \(withoutQuery(request.source))", limit: request.patience))
        let signals = EndSignals(ready)
        // Before the key is read, so that no dump ever holds it.
        if request.options.encryption != nil { _ = reel_forbid_dumps() }
        let logger = LogSink.start(level: request.options.logLevel, toStandardError: ready == nil)
        // Relative paths are resolved; from here on the daemon keeps no directory busy.
        let configuration = try FilesystemConfiguration(request, logger: logger)
        chdir("/")
        return (configuration, signals)
    }

    /// Leaves the caller's session, terminal and descriptors. Only once mounted; see ``DaemonLaunch``.
    private static func leave(_ ready: ReadyPipe) {
        setsid()
        LogSink.mounted()
        ready.say("ready")
        let null = open("/dev/null", O_RDWR | O_CLOEXEC)
        for descriptor: Int32 in 0...2 { dup2(null, descriptor) }
        close(null)
    }

    /// Mounts by `make`, after a last look at the mount point.
    static func mounting<Made: Sendable>(
        _ configuration: FilesystemConfiguration, _ make: (FuseSession.Options) throws(MountError) -> Made
    ) throws(Failure) -> Made {
        let request = configuration.request
        // Again: another process may have mounted there while the origin was asked.
        if request.device == nil,
            case .mounted = try Mountpoint.prepare(request.mountpoint, for: request.source, isRemount: false)
        {
            throw .mount("\(shown(request.mountpoint)) is already mounted")
        }
        let options = FuseSession.Options(configuration)
        func outcome() -> Result<Made, MountError> {
            Result { () throws(MountError) in try make(options) }
        }
        // In the foreground stderr is the log's, and fusermount3 may speak for itself.
        let (result, said) = request.options.foreground ? (outcome(), nil) : capturingStandardError(outcome)
        do throws(MountError) {
            return try result.get()
        } catch {
            throw .mount(said.map { "mounting on \(shown(request.mountpoint)) was refused: \($0)" } ?? error.message)
        }
    }
}

/// Raises the soft limit of open files (setrlimit(2)), 1024 at most logins: each file in use has a descriptor, and each
/// connection. Not beyond 65,536, as programs that are started have the same limit, and some close every number below.
func raiseFileLimit() {
    var limit = rlimit()
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    guard getrlimit(resource, &limit) == 0 else { return }
    limit.rlim_cur = max(limit.rlim_cur, min(limit.rlim_max, 1 << 16))
    setrlimit(resource, &limit)
}

/// Keeps glibc's first limits (mallopt(3)). It would raise both each time a large piece of memory is freed, up to 32
/// MiB. Then the second large listing would be read in the arena of the reading thread, and malloc_trim(3) does not
/// return the free end of such an arena. The memory of reads is kept for the next read.
private func keepAllocatorLimits() {
    mallopt(M_MMAP_THRESHOLD, 128 << 10)
    mallopt(M_TRIM_THRESHOLD, 128 << 10)
}
