import Glibc
import Logging
import ReelFuse
import ReelThreads
import ReelVolume
import Synchronization

/// The process that serves one mount.
enum Daemon {
    /// In the background: words from stdin, the answer to the ready pipe.
    static func runFromPipe() -> Int32 {
        let text = String(decoding: readAll(0), as: UTF8.self)
        var words = text.split(separator: "\0", omittingEmptySubsequences: false).map { String($0) }
        guard words.count >= 2, fcntl(DaemonLaunch.readyDescriptor, F_GETFD) >= 0 else {
            return Failure.usage("`reelfs daemon` is started by `reelfs mount`").printed()
        }
        _ = fcntl(DaemonLaunch.readyDescriptor, F_SETFD, FD_CLOEXEC)
        // What the caller had open is not ours to hold.
        closefrom(DaemonLaunch.readyDescriptor + 1)
        let mountpoint = words.removeFirst()
        do {
            let command = try Program.parse(words) as? MountCommand
            guard let command else { throw Failure.usage("`reelfs daemon` is started by `reelfs mount`") }
            let request = MountRequest(
                source: command.source, mountpoint: mountpoint, options: try command.mountOptions())
            return run(request, ready: ReadyPipe(descriptor: DaemonLaunch.readyDescriptor))
        } catch {
            return Failure.usage("`reelfs daemon` is started by `reelfs mount`").printed()
        }
    }

    /// Serves until `umount`, SIGTERM or SIGINT. - Parameter ready: nil in the foreground.
    static func run(_ request: MountRequest, ready: ReadyPipe?) -> Int32 {
        // In the background it is who started it that speaks to a service manager, if anybody.
        let manager = ready == nil ? ServiceManager.fromEnvironment() : ServiceManager(socketName: nil)
        do {
            try serve(request, ready: ready, manager)
            return 0
        } catch {
            manager.tell(.failed(error.sentence))
            if let ready { ready.say("\(error.status.rawValue) \(error.sentence)") }
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
        let logger = LogSink.start(level: request.options.logLevel, toStandardError: ready == nil)
        // Relative paths are resolved; from here on the daemon keeps no directory busy.
        let configuration = try FilesystemConfiguration(request, logger: logger)
        chdir("/")
        let wiring = try Wiring(configuration)
        let mounted = Monitor<FuseSession?>(nil)
        let control: ControlServer
        do {
            control = try ControlServer(
                path: wiring.socketPath,
                service: ControlService(mount: request, volume: wiring.volume, session: mounted))
        } catch {
            wiring.stop()
            throw error
        }
        let session: FuseSession
        do {
            session = try mount(request, configuration, wiring, signals, logger)
        } catch {
            control.withdraw()
            control.stop()
            wiring.stop()
            throw error
        }
        mounted.withLock { $0 = session }
        let watcher = session.device.flatMap { Watcher(mountpoint: request.mountpoint, device: $0) }
        if watcher == nil {
            logger.warning("no process to watch the mount: after a crash it stays until mounted again")
        }
        logger.notice(
            "mounted", metadata: ["source": "\(source)", "on": "\(request.mountpoint)"])
        if let ready {
            // Only now; see DaemonLaunch. From here on no terminal's signal reaches it.
            setsid()
            ready.say("ready")
            let null = open("/dev/null", O_RDWR | O_CLOEXEC)
            for descriptor: Int32 in 0...2 { dup2(null, descriptor) }
            close(null)
        }
        manager.tell(.ready("\(source) on \(request.mountpoint)"))
        session.wait()
        manager.tell(.stopping("writing the cache"))
        control.endJobs()
        watcher?.callOff()
        control.withdraw()
        wiring.stop()
        // Last: whoever holds a connection learns from its end that everything is written.
        control.stop()
        logger.notice("unmounted", metadata: ["on": "\(request.mountpoint)"])
    }

    private static func mount(
        _ request: MountRequest, _ configuration: FilesystemConfiguration, _ wiring: Wiring, _ signals: EndSignals,
        _ logger: Logger
    ) throws(Failure) -> FuseSession {
        // Again: somebody else may have mounted there while the origin was asked.
        guard case .free = try Mountpoint.prepare(request.mountpoint, for: request.source, isRemount: false) else {
            throw .mount("\(shown(request.mountpoint)) is already mounted")
        }
        signals.expectSession()
        let options = sessionOptions(request, backing: configuration.directory)
        let make = { () -> Result<FuseSession, MountError> in
            do throws(MountError) {
                return .success(try FuseSession(wiring.volume, options: options, logger: logger))
            } catch {
                return .failure(error)
            }
        }
        // In the foreground stderr is the log's, and fusermount3 may speak for itself.
        let (result, said) = request.options.foreground ? (make(), nil) : capturingStandardError(make)
        do throws(MountError) {
            let session = try result.get()
            wiring.volume.connect(session.kernelCache)
            try session.start()
            signals.end { session.stop() }
            return session
        } catch {
            throw .mount(said.map { "mounting on \(shown(request.mountpoint)) was refused: \($0)" } ?? error.message)
        }
    }

    private static func sessionOptions(_ request: MountRequest, backing: String) -> FuseSession.Options {
        let options = request.options
        return FuseSession.Options(
            source: redacted(request.source), mountpoint: request.mountpoint,
            ownership: Ownership(
                user: options.user ?? getuid(), group: options.group ?? getgid(), umask: options.umask),
            allowOther: options.sharesWithOthers, backingDirectory: backing)
    }
}

/// Where the parent waits for "ready", or for a status and a sentence.
struct ReadyPipe {
    var descriptor: Int32

    func say(_ line: String) {
        writeAll(descriptor, Array((line + "\n").utf8))
        close(descriptor)
    }
}

/// SIGTERM, SIGINT and SIGHUP, taken by a thread of their own: a handler could do next to nothing.
///
/// opening → mounting → serving. Before a mount is tried a signal ends the process at once: the origin may keep it waiting
/// for a minute, and the cache stands being left like that. While mounting it is kept; then it ends the session.
final class EndSignals: Sendable {
    private enum Phase: Sendable {
        case opening
        case mounting(isAsked: Bool)
        case serving(@Sendable () -> Void)
    }

    private let phase = Mutex(Phase.opening)

    /// Before any other thread exists, so that all of them inherit the mask.
    init(_ ready: ReadyPipe?) {
        var set = sigset_t()
        sigemptyset(&set)
        for number in [SIGTERM, SIGINT, SIGHUP] { sigaddset(&set, number) }
        pthread_sigmask(SIG_BLOCK, &set, nil)
        let signals = set
        // Never joined: it waits until the process ends.
        _ = Thread("signals") { [self] in
            var set = signals
            var number: Int32 = 0
            while true {
                sigwait(&set, &number)
                take(ready)
            }
        }
    }

    func expectSession() { phase.withLock { $0 = .mounting(isAsked: false) } }

    func end(_ stop: @escaping @Sendable () -> Void) {
        let isAsked = phase.withLock { phase in
            defer { phase = .serving(stop) }
            if case .mounting(true) = phase { return true }
            return false
        }
        if isAsked { stop() }
    }

    private func take(_ ready: ReadyPipe?) {
        let stop: (@Sendable () -> Void)? = phase.withLock { phase in
            switch phase {
            case .opening:
                ready?.say("\(Failure.Status.interrupted.rawValue) interrupted, and nothing is mounted")
                _exit(Failure.Status.interrupted.rawValue)
            case .mounting:
                phase = .mounting(isAsked: true)
                return nil
            case .serving(let stop): return stop
            }
        }
        stop?()
    }
}
