import Logging
import ReelListener
import ReelVolume

/// The socket of the HTTP server, which listens before the source is opened, and the secrets of its clients.
struct Entrance {
    private let socket: ListenSocket
    private let credentials: (user: String, password: String)?
    /// The cache directory, absolute.
    private let root: String

    /// nil where no option asks for a server.
    init?(_ options: MountOptions) throws(Failure) {
        guard let address = options.listen else {
            guard options.listenCredentials == nil else { throw .usage("option listen-credentials needs listen") }
            return nil
        }
        root = try SourceDirectory.root(options)
        credentials = try options.listenCredentials.map(Self.credentials)
        do throws(ListenError) {
            socket = try ListenSocket(address)
        } catch {
            throw .mount(error.sentence)
        }
    }

    /// The same as ``ListenSocket/address``.
    var address: String { socket.address }

    /// Begins to answer.
    func open(_ service: ControlService, _ logger: Logger) throws(Failure) -> Listener {
        var token: String?
        if credentials == nil {
            token = try ListenToken.load(root)
            if token == nil {
                logger.warning("\(ListenToken.name) cannot be written: no HTTP client can change anything")
            }
        }
        let history = LineHistory { [volume = service.volume] in volume.lineProgress() }
        var (documents, calls) = ([String: ServedDocument](), [String: ServedCall]())
        for route in Self.routes(service, history) {
            switch route.answer {
            case .document(let document): documents[route.path] = document
            case .call(let call): calls[route.path] = call
            }
        }
        do throws(ListenError) {
            return try Listener(
                socket, service.volume, documents: documents, calls: calls, credentials: credentials, token: token,
                eachSecond: { history.add() }, onStop: { service.jobs.stop() })
        } catch {
            throw .mount(error.sentence)
        }
    }

    /// All that is served beside the tree.
    private static func routes(_ service: ControlService, _ history: LineHistory) -> [Route] {
        let volume = service.volume
        var routes = [
            document("/api/v1/status", "The state of the mount, as `reelfs status --json` tells it.") {
                encodeLine(service.status)
            },
            document("/metrics", "Numbers for Prometheus.", type: "text/plain; version=0.0.4; charset=utf-8") {
                Array(metricsText(volume.status()).utf8)
            },
        ]
        routes.append(
            Route(
                path: "/api/v1/events",
                summary:
                    "The same each second, as server-sent events; the first with the last minutes of the line (`past`).",
                type: "text/event-stream",
                answer: .document(
                    ServedDocument(first: { history.member() }, each: { encodeLine(service.news).dropLast() }))))
        routes += CommandCalls(service: service).routes
        routes += RcloneCalls(service: service).routes
        let path = "/api/v1/openapi.json"
        let summary = "This description."
        let described = encodeLine(OpenAPI.document(routes + [document(path, summary) { [] }]))
        return routes + [document(path, summary) { described }]
    }

    private static func document(
        _ path: String, _ summary: String, type: String = "application/json", _ make: @escaping @Sendable () -> [UInt8]
    ) -> Route {
        Route(path: path, summary: summary, type: type, answer: .document(ServedDocument(type: type, make)))
    }

    private static func credentials(_ path: String) throws(Failure) -> (user: String, password: String) {
        let file = try CredentialFile.load(path)
        guard let user = file.user, let password = file.password, !password.isEmpty else {
            throw .usage("option listen-credentials needs a file with username= and password=")
        }
        return (user, password)
    }
}
