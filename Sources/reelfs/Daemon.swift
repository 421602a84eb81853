import Glibc
import Logging
import ReelFuse
import ReelThreads
import ReelVolume

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
        do {
            try serve(request, ready: ready)
            return 0
        } catch {
            if let ready { ready.say("\(error.status.rawValue) \(error.sentence)") }
            return ready == nil ? error.printed() : error.status.rawValue
        }
    }

    private static func serve(_ request: MountRequest, ready: ReadyPipe?) throws(Failure) {
        // Started through /proc/self/exe, the process would be called "exe".
        Thread.nameCurrent("reelfs")
        signal(SIGPIPE, SIG_IGN)
        // Whoever opens a data file while the cache asks whether it is open elsewhere (a lease, fcntl(2)).
        signal(SIGIO, SIG_IGN)
        let signals = EndSignals()
        let logger = LogSink.start(level: request.options.logLevel, toStandardError: ready == nil)
        // Relative paths are resolved; from here on the daemon keeps no directory busy.
        let configuration = try FilesystemConfiguration(request, logger: logger)
        chdir("/")
        let wiring = try Wiring(configuration)
        let session: FuseSession
        let control: ControlServer
        do {
            control = try ControlServer(
                path: wiring.socketPath, service: ControlService(mount: request, volume: wiring.volume))
        } catch {
            wiring.stop()
            throw error
        }
        do {
            session = try FuseSession(
                wiring.volume, options: sessionOptions(request, backing: configuration.directory), logger: logger)
            wiring.volume.connect(session.kernelCache)
            try session.start()
        } catch {
            control.stop()
            wiring.stop()
            throw .mount(error.message)
        }
        signals.onEnd { session.stop() }
        logger.notice(
            "mounted", metadata: ["source": "\(withoutQuery(request.source))", "on": "\(request.mountpoint)"])
        if let ready {
            ready.say("ready")
            let null = open("/dev/null", O_RDWR | O_CLOEXEC)
            for descriptor: Int32 in 0...2 { dup2(null, descriptor) }
            close(null)
        }
        session.wait()
        control.endJobs()
        wiring.stop()
        // Last: whoever holds a connection learns from its end that everything is written.
        control.stop()
        // Only a directory that was made for the socket is empty now.
        if !wiring.socketPath.hasPrefix(configuration.directory + "/") {
            rmdir(String(wiring.socketPath.dropLast("/control".utf8.count)))
        }
        logger.notice("unmounted", metadata: ["on": "\(request.mountpoint)"])
    }

    private static func sessionOptions(_ request: MountRequest, backing: String) -> FuseSession.Options {
        let options = request.options
        return FuseSession.Options(
            source: redacted(request.source), mountpoint: request.mountpoint,
            ownership: Ownership(
                user: options.user ?? getuid(), group: options.group ?? getgid(), umask: options.umask),
            allowOther: options.allowOther, backingDirectory: backing)
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
struct EndSignals {
    private var set = sigset_t()

    /// Before any other thread exists, so that all of them inherit the mask.
    init() {
        sigemptyset(&set)
        for number in [SIGTERM, SIGINT, SIGHUP] { sigaddset(&set, number) }
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    func onEnd(_ body: @escaping @Sendable () -> Void) {
        let set = set
        // Never joined: it waits until the process ends.
        _ = Thread("signals") {
            var set = set
            var number: Int32 = 0
            while true {
                sigwait(&set, &number)
                body()
            }
        }
    }
}
