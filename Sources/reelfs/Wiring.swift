import Glibc
import Logging
import ReelCache
import ReelCore
import ReelFuse
import ReelHTTP
import ReelSources
import ReelThreads
import ReelVolume

/// One source and how to ask for it, checked and absolute.
struct SourceConfiguration {
    /// A URL as given, or the absolute path of a list.
    var source: String
    /// With user and password of `credentials=FILE`: only for the volume, never to be shown.
    var sourceWithCredentials: String
    var transport: TransportConfiguration

    /// Reads the files that options name.
    init(_ given: String, _ options: MountOptions) throws(Failure) {
        try requireReadable(given)
        try options.resolver?.requireProgram("resolver")
        try options.tokenCommand?.requireProgram("token-command")
        let address = options.address(of: given)
        let (url, own) = (SourceKinds.url(of: address), SourceKinds.own(address))
        let hasMirrors = own?.hasMirrors ?? (url != nil)
        let hasKeys = own?.credentials == .keys
        source = url != nil ? address : absolute(address)
        if url == nil, options.givesListsSecrets, access(source, F_OK) == 0 {
            close(try NamedFile(source, kind: "list", for: .list(getsSecrets: true)).descriptor)
        }
        if !options.mirrors.isEmpty, !hasMirrors {
            throw .usage("mirrors are for http and https, and the source is at none of them")
        }
        if options.via != nil, !hasMirrors {
            throw .usage("a shared cache is for http and https, and the source is at none of them")
        }
        if options.growing, !options.mirrors.isEmpty || options.via != nil {
            throw .usage("option growing goes neither with mirror nor with via, which know a file by its length")
        }
        if options.via == nil, options.viaCredentials { throw .usage("option via-credentials needs option via") }
        let credentials = try FilesystemConfiguration.credentials(options.credentialsFile, for: url)
        if let url, let credentials, !hasKeys {
            sourceWithCredentials = credentials.source(url, givenAs: given)
        } else {
            sourceWithCredentials = source
        }
        transport = try TransportConfiguration(url, options, credentials, hasKeys: hasKeys)
    }
}

/// The parts that a volume is made from, checked and absolute.
struct FilesystemConfiguration {
    enum Tree {
        case source(SourceConfiguration)
        case catalogue([CatalogueEntry])
    }

    var request: MountRequest
    /// A URL as given, or the absolute path of a list or a catalogue.
    var source: String
    var tree: Tree
    /// This source's own directory inside the cache.
    var directory: String
    /// nil: the cache is plain.
    var cipher: CacheCipher?
    /// nil: there is none.
    var tier: TierPlace?
    var logger: Logger
    let news: NewsDesk

    /// Reads the files that options name, and creates the cache directory.
    init(_ request: MountRequest, logger: Logger) throws(Failure) {
        try request.options.onChange?.requireProgram("on-change")
        news = try NewsDesk(request.options, logger)
        let key: SecretBytes?
        if Catalogue.isMeant(by: request.source) {
            source = absolute(request.source)
            let catalogue = try Catalogue.load(source, request.options)
            (directory, cipher, key) = try SourceDirectory.prepare(source, request.options)
            tier = try TierPlace.given(request.options, key: key)
            tree = .catalogue(try catalogue.entries(logger, news, tier))
        } else {
            let one = try SourceConfiguration(request.source, request.options)
            source = one.source
            tree = .source(one)
            (directory, cipher, key) = try SourceDirectory.prepare(source, request.options)
            tier = try TierPlace.given(request.options, key: key)
        }
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
    /// - Parameters:
    ///   - source: nil for a local list.
    ///   - hasKeys: see `Source.credentials`.
    init(
        _ source: ResourceURL?, _ options: MountOptions, _ credentials: CredentialFile?, hasKeys: Bool
    ) throws(Failure) {
        self.init(version: Program.version)
        var secrets = credentials?.headers ?? []
        if hasKeys {
            let access = try S3Access(options, credentials)
            (signingKey, region) = (access.key, access.region)
            keySource = access.key.map { S3Access.source(options, first: $0) }
            // It is the token of the keys.
            if let token = credentials?.token { secrets.removeAll { $0.value == "Bearer " + token } }
        }
        headers = (try HeaderOption.load(options.headers) + secrets).map { ($0.name, $0.value) }
        if let file = options.cookieFile { cookies = try cookieLines(file) }
        clientCertificate = try ClientCertificate(options, passphrase: credentials?.passphrase)
        certificateAuthorities = try options.authorityFile.map { (file) throws(Failure) in
            try PEMFile(file, kind: "authority file", mustHold: "CERTIFICATE", isSecret: false).path
        }
        // As with credentials: only a list itself can say which of its hosts a secret is for.
        if source == nil, clientCertificate != nil || options.tokenCommand != nil {
            throw .usage("options cert and token-command need a URL as source")
        }
        // A list from the network names hosts that the user has not chosen. One from the disk is the user's own: the
        // volume adds what it names.
        trustedOrigins = source.map { [$0.origin] } ?? []
        // The file of logins knows hosts alone: what it has for a host by https does not go there in the clear.
        let others = options.mirrors + (options.via.map { [$0] } ?? [])
        mirrorOrigins = Set(others.filter { $0.scheme == "https" || source?.scheme == "http" }.map(\.origin))
        if let via = options.via, options.viaCredentials { trustedOrigins?.insert(via.origin) }
        netrcFile = SourceDirectory.netrcFile
        if source?.fileProtocol == .sftp { ssh = try SSHAccess(options, host: source?.host ?? "") }
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

extension VolumeOptions {
    /// - Parameter folder: of the source in the mount.
    init(
        _ options: MountOptions, _ news: NewsDesk?, folder: [String] = [], tier: TierPlace?, _ trouble: LoginTrouble
    ) {
        let getsSecrets = options.givesListsSecrets
        let netrc = SourceDirectory.netrcFile
        self.init(
            timeout: .seconds(options.timeout), refresh: .seconds(options.refresh), prebuffer: options.prebuffer,
            keepNext: options.keepNext, keepNew: options.keepNew,
            probeLimit: options.probeLimit, cacheKey: options.cacheKey, mirrors: options.mirrors,
            via: options.via.map { SharedCache($0, getsCredentials: options.viaCredentials) },
            alignment: options.alignment, tier: options.growing ? nil : tier, warm: options.warm, links: options.links,
            growing: options.growing,
            requestLog: news?.requestLog, news: news?.news(of: folder),
            openList: { path in
                openList(path, getsSecrets: getsSecrets) { sentence in
                    if let netrc, access(netrc, F_OK) == 0 { news?.warn(ofList: sentence) }
                }
            })
        loginTrouble = { trouble.sentence }
    }
}

extension MountOptions {
    /// Whether all origins that a local list names get secrets of these options.
    fileprivate var givesListsSecrets: Bool { !headers.isEmpty || cookieFile != nil }
}

/// Joins tree, cache and origin.
struct Wiring {
    let volume: any MountedVolume
    /// Reads the catalogue again, and returns a mistake in it, nil if the source is none.
    let reload: (@Sendable () -> Failure?)?
    private let socket: SocketPlace
    private let store: Store
    /// nil: each source of a catalogue has its own.
    private let origin: CurlOrigin?
    private let commands = CommandRuns()
    private let news: NewsDesk

    /// Opens the cache and the source. - Parameter asks: the origin for the kind of a source that is known, too.
    init(_ configuration: FilesystemConfiguration, asks: Bool = true) throws(Failure) {
        let store = try Self.store(configuration)
        self.store = store
        news = configuration.news
        let options = configuration.request.options
        if store.usage.cap == 0 {
            configuration.logger.warning(
                "the cache has no room beside the free space that min-free keeps, so nothing stays that is read")
        } else if options.cacheSize < Self.smallCache {
            configuration.logger.warning(
                "the cache of \(humanSize(options.cacheSize)) has no room for what is read, which is fetched again")
        }
        let line = Line(options.limitRate) { minuteOfDay() }
        line.setOffline(options.onlyCached || store.setting(Self.offline) == "on")
        switch configuration.tree {
        case .source(let source):
            do throws(Failure) {
                let (one, origin) = try Self.open(source, store, line, configuration, commands, asks: asks)
                (volume, self.origin, reload) = (news.anchored(one), origin, nil)
            } catch {
                store.closeUnused()
                throw error
            }
        case .catalogue(let entries):
            let joined = CatalogueVolume(entries, store: store, line: line, logger: configuration.logger)
            (volume, origin, reload) = (news.anchored(joined), nil, Self.reload(joined, configuration))
        }
        // Only now: until the origin has answered a signal ends the process as it stands.
        socket = SocketPlace(cache: configuration.directory, isWritable: store.isWritable)
        volume.announce(socketPath: socket.path)
    }

    private static func open(
        _ source: SourceConfiguration, _ store: Store, _ line: Line, _ configuration: FilesystemConfiguration,
        _ commands: CommandRuns, asks: Bool
    ) throws(Failure) -> (Volume, CurlOrigin) {
        let logger = configuration.logger
        let trouble = LoginTrouble(logger)
        let options = VolumeOptions(
            configuration.request.options, configuration.news, tier: configuration.tier, trouble)
        let origin: CurlOrigin
        do throws(TransportError) {
            let options = configuration.request.options
            var transport = source.transport.running(options, with: commands) { trouble.note($0) }
            transport.line = line
            origin = try CurlOrigin(transport)
        } catch {
            throw .mount("the transport cannot start: \(error)")
        }
        do throws(SourceError) {
            let volume = try Volume.open(
                source.sourceWithCredentials, origin: origin, store: store,
                options: options, logger: logger,
                finder: configuration.request.options.resolver.map { ResolverCommand($0) }, asks: asks)
            return (volume, origin)
        } catch {
            origin.shutdown()
            commands.stop()
            let hint =
                switch error {
                case .origin(_, .away(.offline), _), .notFound: ""
                case .notUsable where SourceKinds.url(of: source.source) == nil: ""
                case .origin, .notUsable: "; `reelfs doctor` of the same URL looks into it"
                }
            throw .mount("\(error)\(hint)")
        }
    }

    /// A catalogue with a mistake changes nothing.
    private static func reload(
        _ volume: CatalogueVolume, _ configuration: FilesystemConfiguration
    ) -> @Sendable () -> Failure? {
        let (path, options, logger) = (configuration.source, configuration.request.options, configuration.logger)
        let (news, tier) = (configuration.news, configuration.tier)
        // A command and a signal may come at once: the newer text is to stay.
        let isBusy = Monitor(false)
        return {
            isBusy.wait { isBusy -> Void? in
                if isBusy { return nil }
                isBusy = true
                return ()
            }
            defer { isBusy.withLock { $0 = false } }
            do throws(Failure) {
                volume.replace(with: try Catalogue.load(path, options).entries(logger, news, tier))
                logger.notice("the catalogue was read again")
                return nil
            } catch {
                logger.error("the catalogue was read again, and nothing changes: \(error.sentence)")
                return error
            }
        }
    }

    var socketPath: String { socket.path }

    /// What SIGHUP does; nil if it ends the mount. The log has the mistakes.
    var hangUp: (@Sendable () -> Void)? {
        let (reload, reopen) = (reload, news.reopenLog)
        // A terminal sends it when it closes.
        if reload == nil, reopen == nil || isatty(0) == 1 { return nil }
        return {
            reopen?()
            _ = reload?()
        }
    }

    /// A cache of fewer bytes was most likely given another unit than was meant.
    private static let smallCache: Int64 = 1 << 20
    /// The setting of the cache that outlives the mount.
    private static let offline = "offline"

    /// Whether a command has made the mount offline, this one or an earlier one.
    var isOffline: Bool { store.setting(Self.offline) == "on" }

    /// Remembers for later mounts whether a command has made this one offline.
    func setOffline(_ isOffline: Bool) { store.set(Self.offline, isOffline ? "on" : "off") }

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
                    // The index keeps the name of the source without credentials, which the store can derive
                    // only from an http(s) URL.
                    source: SourceDirectory.name(of: configuration.source, configuration.request.options),
                    limits: CacheLimits(configuration.request.options), owner: configuration.request.mountpoint,
                    cipher: configuration.cipher
                ) { failure in
                    if let failure {
                        logger.error("the cache cannot be written, so downloads stay in memory: \(failure)")
                    } else {
                        logger.notice("the cache can be written again")
                    }
                }
            } catch {
                guard case .inUse(let owner) = error, ContinuousClock.now < end, owner.hasPrefix("/") || owner.isEmpty,
                    !Mount.all().contains(where: { $0.isOurs && $0.isOn(owner) })
                else { throw .mount("\(error)") }
            }
            usleep(20_000)
        }
    }

    /// Ends everything and writes the cache, after the last request and the socket.
    func stop() {
        socket.remove()
        news.stop()
        volume.shutdown()
        origin?.shutdown()
        commands.stop()
        store.close()
    }
}
