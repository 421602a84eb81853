import Logging
import ReelListener
import ReelVolume

/// Where the HTTP server is to listen, and the secrets of its clients.
struct EntrancePlan {
    fileprivate let address: ListenAddress
    fileprivate let credentials: (user: String, password: String)?
    fileprivate let origins: [ServedOrigin]
    /// The cache directory, absolute.
    private let root: String
    /// The token that calls want; nil until it was read, and where they want a login.
    fileprivate private(set) var token: String?

    /// nil where no option asks for a server.
    init?(_ options: MountOptions) throws(Failure) {
        guard let address = options.listen else {
            guard options.listenCredentials == nil else { throw .usage("option listen-credentials needs listen") }
            guard options.listenOrigins.isEmpty else { throw .usage("option listen-origin needs listen") }
            return nil
        }
        if case .network(let host, _) = address, options.listenCredentials == nil {
            throw .usage("option listen with \(host) needs listen-credentials, as other machines can connect")
        }
        self.address = address
        origins = options.listenOrigins
        root = try SourceDirectory.root(options)
        credentials = try options.listenCredentials.map(Self.credentials)
    }

    /// The file with the token, nil if calls want a login.
    fileprivate var tokenFile: String? { credentials == nil ? root + "/" + ListenToken.name : nil }

    /// Reads the token, or makes one. Called once, after the cache directory was made.
    mutating func readToken(_ logger: Logger) throws(Failure) {
        guard credentials == nil else { return }
        token = try ListenToken.load(root)
        if token == nil {
            logger.warning("\(ListenToken.name) cannot be written: no HTTP client can change anything")
        }
    }

    private static func credentials(_ path: String) throws(Failure) -> (user: String, password: String) {
        let file = try CredentialFile.load(path)
        guard let user = file.user, let password = file.password, !password.isEmpty else {
            throw .usage("option listen-credentials needs a file with username= and password=")
        }
        return (user, password)
    }
}

/// The socket of the HTTP server, which listens before the source is opened, and the secrets of its clients.
struct Entrance {
    private let socket: ListenSocket
    private var plan: EntrancePlan

    init(_ plan: EntrancePlan) throws(Failure) {
        self.plan = plan
        do throws(ListenError) {
            socket = try ListenSocket(plan.address)
        } catch {
            throw .mount(error.sentence)
        }
    }

    /// nil where no option asks for a server.
    init?(_ options: MountOptions) throws(Failure) {
        guard let plan = try EntrancePlan(options) else { return nil }
        try self.init(plan)
    }

    /// The same as ``ListenSocket/address``.
    var address: String { socket.address }

    /// The file with the token that calls want, nil if they want a login.
    var tokenFile: String? { plan.tokenFile }

    /// Does what ``EntrancePlan/readToken(_:)`` does.
    mutating func readToken(_ logger: Logger) throws(Failure) { try plan.readToken(logger) }

    /// Begins to answer.
    func open(_ service: ControlService) throws(Failure) -> Listener {
        let history = LineHistory { [volume = service.volume] in volume.lineProgress() }
        do throws(ListenError) {
            return try Listener(
                socket, service.volume, documents: Self.documents(service, history), calls: Self.calls(service),
                credentials: plan.credentials, token: plan.token, origins: plan.origins,
                eachSecond: { history.add() }, onStop: { service.jobs.stop() })
        } catch {
            throw .mount(error.sentence)
        }
    }

    /// The texts beside the tree, by path. `openapi.json` describes them, and the calls.
    static func documents(_ service: ControlService, _ history: LineHistory) -> [String: ServedDocument] {
        [
            "/api/v1/status": ServedDocument(type: "application/json") { encodeLine(service.status) },
            "/api/v1/events": ServedDocument(
                first: { history.member() }, each: { encodeLine(service.news).dropLast() }),
            "/api/v1/mounts": ServedDocument(type: "application/json") { _, isOver in
                jsonAnswer(200, OtherMounts(besides: service.mounts?.mountpoints ?? [], until: isOver))
            },
            "/api/v1/openapi.json": ServedDocument(type: "application/json") { description },
            "/metrics": ServedDocument(type: "text/plain; version=0.0.4; charset=utf-8") {
                Array(metricsText(service.volume.status()).utf8)
            },
        ].merging(FileQueries.documents(service)) { first, _ in first }
    }

    /// By path.
    static func calls(_ service: ControlService) -> [String: ServedCall] {
        CommandCalls.calls(service).merging(RcloneCalls(service: service).calls) { first, _ in first }
    }

    private static let description = Array(
        PackageResources.openapi_json.split(separator: Array("{version}".utf8)).joined(
            separator: Array(Program.version.utf8)))
}
