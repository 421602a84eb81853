import Glibc
import Logging
import ReelCache
import ReelCore
import ReelHTTP
import ReelVolume

/// Everything the volume is made from, checked and absolute.
struct FilesystemConfiguration {
    /// A URL as given, or the absolute path of a list.
    var source: String
    var mountpoint: String
    /// This source's own directory inside the cache.
    var directory: String
    var limits: CacheLimits
    var timeout: Duration
    var refresh: Duration
    var transport: TransportConfiguration
    var logger: Logger

    init(_ request: MountRequest, logger: Logger) throws(Failure) {
        let isURL = ResourceURL(request.source) != nil
        source = isURL ? request.source : absolute(request.source)
        mountpoint = request.mountpoint
        directory = try SourceDirectory.prepare(source, request.options)
        limits = CacheLimits(
            cap: request.options.cacheSize, minimumFree: request.options.minimumFree,
            age: request.options.cacheAge.map { .seconds($0) })
        timeout = .seconds(request.options.timeout)
        refresh = .seconds(request.options.refresh)
        transport = TransportConfiguration(version: Program.version)
        transport.headers = try loadHeaders(request.options.headers)
        // A list from the network names hosts that the user never did; one from the disk is the user's own.
        transport.headerOrigins = ResourceURL(request.source).map { [$0.origin] }
        transport.connectTimeout = min(.seconds(10), timeout)
        if let agent = request.options.userAgent { transport.userAgent = agent }
        self.logger = logger
    }

    /// Where the daemon listens; also the answer of the root's xattr `user.reelfs.socket`. In the cache, or where that
    /// cannot be written, in a directory of its own that goes with the socket.
    fileprivate func socketPath(isWritable: Bool) -> String {
        if isWritable { return directory + "/control" }
        let runtime = getenv("XDG_RUNTIME_DIR").map { String(cString: $0) }
        for place in [runtime, "/run", "/tmp"] {
            guard let place, place.hasPrefix("/") else { continue }
            var template = Array("\(place)/reelfs-XXXXXX".utf8CString)
            if let made = mkdtemp(&template) { return String(cString: made) + "/control" }
        }
        return directory + "/control"
    }
}

/// The one place where tree, cache and origin are joined.
struct Wiring {
    let volume: Volume
    let socketPath: String
    private let store: Store
    private let origin: CurlOrigin

    init(_ configuration: FilesystemConfiguration) throws(Failure) {
        let logger = configuration.logger
        do throws(CacheError) {
            store = try Store(
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
            throw .mount("\(error)")
        }
        socketPath = configuration.socketPath(isWritable: store.isWritable)
        do throws(TransportError) {
            origin = try CurlOrigin(configuration.transport)
        } catch {
            store.close()
            throw .mount("the transport cannot start: \(error)")
        }
        do throws(SourceError) {
            volume = try Volume.open(
                configuration.source, origin: origin, store: store,
                options: VolumeOptions(
                    timeout: configuration.timeout, refresh: configuration.refresh, socketPath: socketPath),
                logger: configuration.logger)
        } catch {
            origin.shutdown()
            store.close()
            throw .mount("\(error)")
        }
    }

    /// After the last request: what was read is written down.
    func stop() {
        volume.shutdown()
        origin.shutdown()
        store.close()
    }
}
