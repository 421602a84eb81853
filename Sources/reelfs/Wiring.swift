import Glibc
import Logging
import ReelCache
import ReelCore
import ReelFuse
import ReelHTTP
import ReelSources
import ReelVolume

/// The parts that a volume is made from, checked and absolute.
struct FilesystemConfiguration {
    var request: MountRequest
    /// A URL as given, or the absolute path of a list.
    var source: String
    /// With user and password of `credentials=FILE`: only for the volume, never to be shown.
    var sourceWithCredentials: String
    /// This source's own directory inside the cache.
    var directory: String
    var transport: TransportConfiguration
    var logger: Logger

    /// Reads the files that options name, and creates the cache directory.
    init(_ request: MountRequest, logger: Logger) throws(Failure) {
        try requireReadable(request.source)
        let address = request.options.address(of: request.source)
        let url = SourceKinds.url(of: address)
        let isBucket = S3Address(address) != nil
        source = url != nil ? address : absolute(address)
        let credentials = try Self.credentials(request.options.credentialsFile, for: url)
        if let url, let credentials, !isBucket {
            sourceWithCredentials = credentials.source(url, givenAs: request.source)
        } else {
            sourceWithCredentials = source
        }
        directory = try SourceDirectory.prepare(source, request.options)
        transport = try TransportConfiguration(url, request.options, credentials, isBucket: isBucket)
        self.request = request
        self.logger = logger
    }

    /// The credentials file, which needs a URL as source.
    static func credentials(_ path: String?, for url: ResourceURL?) throws(Failure) -> CredentialFile? {
        guard let path else { return nil }
        // A local list names many hosts, and only the list can say which of them a secret is for.
        guard url != nil else {
            throw .usage(
                "option credentials needs a URL as source; in a local list, write user and password into the URLs")
        }
        return try CredentialFile.load(path)
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
    init(
        _ source: ResourceURL?, _ options: MountOptions, _ credentials: CredentialFile?, isBucket: Bool
    ) throws(Failure) {
        self.init(version: Program.version)
        var secrets = credentials?.headers ?? []
        if isBucket {
            let access = try S3Access(options, credentials)
            (signingKey, region) = (access.key, access.region)
            // It is the token of the keys.
            if let token = credentials?.token { secrets.removeAll { $0.value == "Bearer " + token } }
        }
        headers = (try HeaderOption.load(options.headers) + secrets).map { ($0.name, $0.value) }
        // A list from the network names hosts that the user has not chosen; one from the disk is the user's own.
        trustedOrigins = source.map { [$0.origin] }
        connectTimeout = min(.seconds(10), .seconds(options.timeout))
        if let agent = options.userAgent { userAgent = agent }
    }
}

/// The place of the control socket; also the value of the root's xattr `user.reelfs.socket`. In the cache, or, if that
/// cannot be written, in a directory of its own, mode 0700, which is removed with the socket.
struct SocketPlace {
    let path: String
    private let ownDirectory: String?

    init(cache directory: String, isWritable: Bool) {
        ownDirectory = isWritable ? nil : Self.makeDirectory()
        path = (ownDirectory ?? directory) + "/control"
    }

    /// Removes the directory, after the socket.
    func remove() {
        if let ownDirectory { rmdir(ownDirectory) }
    }

    private static func makeDirectory() -> String? {
        // In root's environment it may belong to another user, and that user could put another socket there.
        let runtime = geteuid() == 0 ? nil : environment("XDG_RUNTIME_DIR")
        for place in [runtime, "/run", "/tmp"] {
            guard let place, place.hasPrefix("/") else { continue }
            var template = Array("\(place)/reelfs-XXXXXX".utf8CString)
            if let made = mkdtemp(&template) { return String(cString: made) }
        }
        return nil
    }
}

/// Joins tree, cache and origin.
struct Wiring {
    let volume: Volume
    private let socket: SocketPlace
    private let store: Store
    private let origin: CurlOrigin

    /// Opens the cache and the source; asks the origin for the kind of the source.
    init(_ configuration: FilesystemConfiguration) throws(Failure) {
        let options = configuration.request.options
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
                    timeout: .seconds(options.timeout), refresh: .seconds(options.refresh),
                    prebuffer: options.prebuffer, cacheKey: options.cacheKey),
                logger: configuration.logger, finder: options.resolver.map { ResolverCommand($0) })
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

    /// Opens the cache. A daemon whose mount has just ended still writes it: a mount that follows at once (autofs)
    /// waits.
    private static func store(_ configuration: FilesystemConfiguration) throws(Failure) -> Store {
        // As long as `reelfs umount` waits for the same.
        let end = ContinuousClock.now + .seconds(10)
        let logger = configuration.logger
        while true {
            do throws(CacheError) {
                return try Store(
                    directory: configuration.directory,
                    // The index keeps the name of the source without credentials, which the store can tell from
                    // an http(s) URL alone.
                    source: SourceDirectory.name(of: configuration.source, configuration.request.options),
                    limits: CacheLimits(configuration.request.options), owner: configuration.request.mountpoint
                ) { failure in
                    if let failure {
                        logger.error("the cache cannot be written, so downloads stay in memory: \(failure)")
                    } else {
                        logger.notice("the cache can be written again")
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

    /// Ends everything and writes the cache, after the last request and the socket.
    func stop() {
        socket.remove()
        volume.shutdown()
        origin.shutdown()
        store.close()
    }
}
