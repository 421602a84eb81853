import Glibc
import Logging
import ReelCache
import ReelCore
import ReelFuse
import ReelHTTP
import ReelVolume

/// Everything the volume is made from, checked and absolute.
struct FilesystemConfiguration {
    /// A URL as given, or the absolute path of a list.
    var source: String
    /// With what `credentials=FILE` says: for the volume alone, never to be shown.
    var sourceWithCredentials: String
    var mountpoint: String
    /// This source's own directory inside the cache.
    var directory: String
    var limits: CacheLimits
    var timeout: Duration
    var refresh: Duration
    var prebuffer: Int64
    var transport: TransportConfiguration
    var logger: Logger

    init(_ request: MountRequest, logger: Logger) throws(Failure) {
        try requireReadable(request.source)
        let url = ResourceURL(request.source)
        source = url != nil ? request.source : absolute(request.source)
        let credentials = try Self.credentials(request.options.credentialsFile, for: url)
        if let url, let credentials {
            sourceWithCredentials = credentials.source(url)
        } else {
            sourceWithCredentials = source
        }
        mountpoint = request.mountpoint
        directory = try SourceDirectory.prepare(source, request.options)
        limits = CacheLimits(request.options)
        timeout = .seconds(request.options.timeout)
        refresh = .seconds(request.options.refresh)
        prebuffer = request.options.prebuffer
        transport = try TransportConfiguration(url, request.options, credentials)
        self.logger = logger
    }

    static func credentials(_ path: String?, for url: ResourceURL?) throws(Failure) -> Credentials? {
        guard let path else { return nil }
        // The hosts that a local list names are many: which of them the secret is for, only the list can say.
        guard url != nil else {
            throw .usage(
                "option credentials needs a URL as source; in a local list the URLs can hold user and password")
        }
        return try Credentials.load(path)
    }
}

extension CacheLimits {
    init(_ options: MountOptions) {
        self.init(
            cap: options.cacheSize, minimumFree: options.minimumFree, age: options.cacheAge.map { .seconds($0) })
    }
}

extension TransportConfiguration {
    /// - Parameter source: nil for a local list.
    init(_ source: ResourceURL?, _ options: MountOptions, _ credentials: Credentials?) throws(Failure) {
        self.init(version: Program.version)
        headers = try loadHeaders(options.headers)
        headers += credentials?.headers.map { ($0.name, $0.value) } ?? []
        // A list from the network names hosts that the user never did; one from the disk is the user's own.
        trustedOrigins = source.map { [$0.origin] }
        connectTimeout = min(.seconds(10), .seconds(options.timeout))
        if let agent = options.userAgent { userAgent = agent }
    }
}

/// Where the daemon listens; also the answer of the root's xattr `user.reelfs.socket`. In the cache, or where that cannot
/// be written, in a directory of its own, 0700, that goes with the socket.
struct SocketPlace {
    let path: String
    private let ownDirectory: String?

    init(cache directory: String, isWritable: Bool) {
        ownDirectory = isWritable ? nil : Self.makeDirectory()
        path = (ownDirectory ?? directory) + "/control"
    }

    /// After the socket.
    func remove() {
        if let ownDirectory { rmdir(ownDirectory) }
    }

    private static func makeDirectory() -> String? {
        // In root's environment it may be that of another user, who could put another socket there.
        let runtime = geteuid() == 0 ? nil : getenv("XDG_RUNTIME_DIR").map { String(cString: $0) }
        for place in [runtime, "/run", "/tmp"] {
            guard let place, place.hasPrefix("/") else { continue }
            var template = Array("\(place)/reelfs-XXXXXX".utf8CString)
            if let made = mkdtemp(&template) { return String(cString: made) }
        }
        return nil
    }
}

/// The one place where tree, cache and origin are joined.
struct Wiring {
    let volume: Volume
    private let socket: SocketPlace
    private let store: Store
    private let origin: CurlOrigin

    init(_ configuration: FilesystemConfiguration) throws(Failure) {
        store = try Self.store(configuration)
        do throws(TransportError) {
            origin = try CurlOrigin(configuration.transport)
        } catch {
            store.close()
            throw .mount("the transport cannot start: \(error)")
        }
        do throws(SourceError) {
            volume = try Volume.open(
                configuration.sourceWithCredentials, origin: origin, store: store,
                options: VolumeOptions(
                    timeout: configuration.timeout, refresh: configuration.refresh, prebuffer: configuration.prebuffer),
                logger: configuration.logger)
        } catch {
            origin.shutdown()
            store.close()
            throw .mount("\(error)")
        }
        // Only now: until the origin has answered a signal ends the process as it stands.
        socket = SocketPlace(cache: configuration.directory, isWritable: store.isWritable)
        volume.announce(socketPath: socket.path)
    }

    var socketPath: String { socket.path }

    /// A daemon whose mount has just gone still writes its cache: whoever mounts again at once (autofs does) waits for it.
    private static func store(_ configuration: FilesystemConfiguration) throws(Failure) -> Store {
        // As long as `reelfs umount` waits for the same.
        let end = ContinuousClock.now + .seconds(10)
        let logger = configuration.logger
        while true {
            do throws(CacheError) {
                return try Store(
                    directory: configuration.directory, source: configuration.source, limits: configuration.limits,
                    owner: configuration.mountpoint
                ) { failure in
                    if let failure {
                        logger.error("the cache is not written to, what is fetched stays in memory: \(failure)")
                    } else {
                        logger.notice("the cache is written to again")
                    }
                }
            } catch {
                guard case .inUse(let owner) = error, ContinuousClock.now < end,
                    !Mount.all().contains(where: { $0.isOurs && $0.mountpoint == owner })
                else { throw .mount("\(error)") }
            }
            usleep(20_000)
        }
    }

    /// After the last request, and the socket: what was read is written down.
    func stop() {
        socket.remove()
        volume.shutdown()
        origin.shutdown()
        store.close()
    }
}
