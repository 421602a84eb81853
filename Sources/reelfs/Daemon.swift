import CLinux
import Glibc
import Logging
import ReelFuse
import ReelThreads
import ReelVolume

/// The process that serves one mount.
enum Daemon {
    /// In the background: words from stdin, the outcome to the ready pipe.
    static func runFromPipe() -> Int32 {
        let text = String(decoding: readAll(0), as: UTF8.self)
        var words = text.split(separator: "\0", omittingEmptySubsequences: false).map { String($0) }
        let ready = ReadyPipe(descriptor: DaemonLaunch.readyDescriptor)
        guard words.count >= 2, fcntl(ready.descriptor, F_SETFD, FD_CLOEXEC) == 0,
            case let mountpoint = words.removeFirst(),
            let command = try? Program.parse(words) as? MountCommand, let options = try? command.mountOptions()
        else { return Failure.usage("`reelfs daemon` is started by `reelfs mount`").printed() }
        // Files that the caller had open are not held.
        closefrom(ready.descriptor + 1)
        return run(MountRequest(source: command.source, mountpoint: mountpoint, options: options), ready: ready)
    }

    /// Serves until `umount`, SIGTERM or SIGINT. - Parameter ready: nil in the foreground.
    static func run(_ request: MountRequest, ready: ReadyPipe?) -> Int32 {
        // In the background, the process that started it speaks to the service manager, if there is one.
        let manager = ready == nil ? ServiceManager.fromEnvironment() : ServiceManager(socketName: nil)
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
        keepAllocatorLimits()
        // Started through /proc/self/exe, the process would be called "exe".
        Thread.nameCurrent("reelfs")
        signal(SIGPIPE, SIG_IGN)
        let source = withoutQuery(request.source)
        manager.tell(.opening("opening \(source)", limit: request.patience))
        let signals = EndSignals(ready)
        // Before the key is read, so that no dump ever holds it.
        if request.options.encryption != nil { _ = reel_forbid_dumps() }
        let logger = LogSink.start(level: request.options.logLevel, toStandardError: ready == nil)
        // Relative paths are resolved; from here on the daemon keeps no directory busy.
        let configuration = try FilesystemConfiguration(request, logger: logger)
        chdir("/")
        let wiring = try Wiring(configuration)
        let mounted = Monitor<FuseSession?>(nil)
        var control: ControlServer?
        let session: FuseSession
        do {
            let service = ControlService(mount: request, volume: wiring.volume, session: mounted)
            control = try ControlServer(path: wiring.socketPath, service: service)
            session = try mount(configuration, wiring, signals)
        } catch {
            control?.withdraw()
            control?.stop()
            wiring.stop()
            throw error
        }
        mounted.withLock { $0 = session }
        let watcher = session.device.flatMap { Watcher(mountpoint: request.mountpoint, device: $0) }
        if watcher == nil {
            logger.warning("cannot start a process to watch the mount: after a crash it stays until mounted again")
        }
        logger.notice(
            "mounted", metadata: ["source": "\(source)", "on": "\(request.mountpoint)"])
        if let ready { leave(ready) }
        manager.tell(.ready("\(source) on \(request.mountpoint)"))
        session.wait()
        manager.tell(.stopping("writing the cache"))
        control?.endJobs()
        watcher?.callOff()
        control?.withdraw()
        wiring.stop()
        // Last: the end of a connection tells its client that everything is written.
        control?.stop()
        logger.notice("unmounted", metadata: ["on": "\(request.mountpoint)"])
    }

    /// Leaves the caller's session, terminal and descriptors. Only once mounted; see ``DaemonLaunch``.
    private static func leave(_ ready: ReadyPipe) {
        setsid()
        ready.say("ready")
        let null = open("/dev/null", O_RDWR | O_CLOEXEC)
        for descriptor: Int32 in 0...2 { dup2(null, descriptor) }
        close(null)
    }

    private static func mount(
        _ configuration: FilesystemConfiguration, _ wiring: Wiring, _ signals: EndSignals
    ) throws(Failure) -> FuseSession {
        let request = configuration.request
        // Again: another process may have mounted there while the origin was asked.
        guard case .free = try Mountpoint.prepare(request.mountpoint, for: request.source, isRemount: false) else {
            throw .mount("\(shown(request.mountpoint)) is already mounted")
        }
        signals.keep()
        let options = request.options
        let sessionOptions = FuseSession.Options(
            source: redacted(request.source), mountpoint: request.mountpoint,
            ownership: Ownership(
                user: options.user ?? getuid(), group: options.group ?? getgid(), umask: options.umask),
            allowOther: options.sharesWithOthers, backingDirectory: configuration.directory)
        let make = { () -> Result<FuseSession, MountError> in
            do throws(MountError) {
                return .success(try FuseSession(wiring.volume, options: sessionOptions, logger: configuration.logger))
            } catch {
                return .failure(error)
            }
        }
        // In the foreground stderr is the log's, and fusermount3 may speak for itself.
        let (result, said) = options.foreground ? (make(), nil) : capturingStandardError(make)
        do throws(MountError) {
            let session = try result.get()
            wiring.volume.connect(session.kernelCache)
            try session.start()
            signals.serve(reload: wiring.reload) { session.stop() }
            return session
        } catch {
            throw .mount(said.map { "mounting on \(shown(request.mountpoint)) was refused: \($0)" } ?? error.message)
        }
    }
}

/// Keeps glibc's first limits (mallopt(3)). It would raise both each time a large piece of memory is freed, up to 32
/// MiB. Then the second large listing would be read in the arena of the reading thread, and malloc_trim(3) does not
/// return the free end of such an arena. The memory of reads is kept for the next read.
private func keepAllocatorLimits() {
    mallopt(M_MMAP_THRESHOLD, 128 << 10)
    mallopt(M_TRIM_THRESHOLD, 128 << 10)
}
