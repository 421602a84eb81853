import ReelCore
import TestKit

@testable import ReelVolume

/// A source with a film, and a mirror with the same one below another path.
struct MirrorPair: Sendable {
    static let length: Int64 = 6 << 20
    static let unwell = FileOrigin.Fault.status(503, retryAfter: nil)

    let film: FileOrigin
    let copy: FileOrigin
    let first: ScriptedServer
    let second: ScriptedServer
    let fixture: VolumeFixture
    let told = Shared<[RequestRecord]>([])

    init(
        _ copy: FileOrigin.Version? = nil, of version: FileOrigin.Version? = nil,
        length: Int64 = MirrorPair.length, listing: [String] = ["film.mkv"],
        timeout: Duration = .seconds(10), credentials: String? = nil, isDown: Bool = false, tier: TierPlace? = nil
    ) throws {
        let film = FileOrigin(version ?? FileOrigin.Version(length: length))
        let other = FileOrigin(copy ?? film.version)
        (self.film, self.copy) = (film, other)
        first = try Self.server("/films/", Self.page(listing), film)
        second = try Self.server("/pub/films/", Self.page(["film.mkv"]), other)
        if isDown { first.stop() }
        let source = first.url("/films/")
        let log = told
        let port = first.port
        fixture = try VolumeFixture(
            credentials.map { "http://\($0)@127.0.0.1:\(port)/films/" } ?? source.text, timeout: timeout,
            prebuffer: 0, mirrors: [second.url("/pub/films/")], tier: tier
        ) { record in log.change { $0 += [record] } }
    }

    func end() {
        fixture.remove()
        first.stop()
        second.stop()
    }

    /// Requests for the film.
    var asked: [ServerRequest] { second.requests.filter { $0.path.hasSuffix(".mkv") } }
    var mirror: VolumeStatus.Mirror { fixture.volume.status().mirrors![1] }

    /// Reads in order. - Returns: the longest wait.
    func play(pause: Duration = .zero, at place: Int64? = nil, _ event: () -> Void = {}) throws -> Duration {
        try fixture.play(film, pause: pause) { if $0 == place { event() } }
    }

    /// A server of one folder, whose listing is this page, and of the film in it.
    /// - Parameter marks: sent with each answer.
    static func server(
        _ folder: String, _ page: [ServerStep], _ film: FileOrigin,
        marks: Shared<[(name: String, value: String)]> = Shared([])
    ) throws -> ScriptedServer {
        try ScriptedServer { request in
            let steps =
                switch request.path {
                case folder: page
                case folder + "film.mkv": film.answer(request)
                default: ServerStep.answer(404)
                }
            return steps.map { step in
                guard case .head(let status, let headers) = step else { return step }
                return .head(status, headers + marks.value)
            }
        }
    }

    /// - Parameter length: of each file, nil if the listing has none.
    static func page(_ names: [String], _ length: Int64? = MirrorPair.length) -> [ServerStep] {
        let size = length.map { "\($0)" } ?? "-"
        let links = names.map { "<a href=\"\($0)\">\($0)</a> 01-Jan-2024 10:00 \(size)\n" }.joined()
        let body =
            "<html><head><title>Index of /films/</title></head><body><h1>Index of /films/</h1><pre>"
            + "<a href=\"../\">../</a>\n\(links)</pre></body></html>"
        return ServerStep.answer(200, [("Content-Type", "text/html")], body: body)
    }
}
