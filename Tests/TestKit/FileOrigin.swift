import ReelCore
import Synchronization

/// A generated file on the scripted server, served as a good server would: ranges, entity tag, date, `If-Range`, 304.
/// A test makes it misbehave by setting `fault`, for good, or `fail(_:times:)`, for the next requests.
///
///     let film = FileOrigin(length: 10 << 20)
///     let server = try ScriptedServer(["/film.mkv": film])
///     defer { server.stop() }
///     film.fail(.resetAfter(100_000))          // the next request only
///     …
///     #expect(read == film.expectedBytes(ByteRange(0, 1000)))
package final class FileOrigin: Sendable {
    private let state: Mutex<State>

    struct State {
        var version: Version
        var fault: Fault?
        /// Faults of the requests to come, the next one first; nil is a good answer.
        var script: [Fault?] = []
        /// How many requests each place that a redirect named still answers.
        var usesLeft: [Int: Int] = [:]
        var redirects = 0
    }

    /// What one version of the file is; set as a whole with `change(to:)`.
    package struct Version: Sendable {
        package var bytes: GeneratedBytes
        package var length: Int64
        /// The tag as in the header, with quotes, nil if none is sent.
        package var entityTag: String?
        /// Seconds since 1970, nil if none is sent.
        package var lastModified: Int64?
        package var mediaType: String

        package init(
            seed: UInt64 = 1, length: Int64, entityTag: String? = "\"v1\"", lastModified: Int64? = 1_700_000_000,
            mediaType: String = "video/x-matroska"
        ) {
            bytes = GeneratedBytes(seed: seed)
            self.length = length
            self.entityTag = entityTag
            self.lastModified = lastModified
            self.mediaType = mediaType
        }
    }

    package init(_ version: Version) {
        state = Mutex(State(version: version))
    }

    package convenience init(length: Int64, seed: UInt64 = 1) {
        self.init(Version(seed: seed, length: length))
    }

    package var version: Version { state.withLock { $0.version } }

    /// From the next request on the file is another one.
    package func change(to version: Version) { state.withLock { $0.version = version } }

    /// What is wrong with every answer, nil if nothing.
    package var fault: Fault? {
        get { state.withLock { $0.fault } }
        set { state.withLock { $0.fault = newValue } }
    }

    /// Makes the next `times` requests fail, after those for which this was said before.
    package func fail(_ fault: Fault, times: Int = 1) {
        state.withLock { $0.script += Array(repeating: fault, count: times) }
    }

    /// Takes back what `fail(_:times:)` said and has not come to pass.
    package func forgetScript() { state.withLock { $0.script = [] } }

    package func expectedByte(at offset: Int64) -> UInt8 { version.bytes.byte(at: offset) }

    package func expectedBytes(_ range: ByteRange) -> [UInt8] {
        let version = version
        return version.bytes.bytes(range.clamped(to: ByteRange(0, version.length)))
    }

    /// The steps that answer `request`: what a script returns.
    package func answer(_ request: ServerRequest) -> [ServerStep] {
        let (version, fault) = state.withLock { state in
            (state.version, state.script.isEmpty ? state.fault : state.script.removeFirst())
        }
        if let fault { return answer(request, of: version, with: fault) }
        return goodAnswer(request, of: version)
    }

    func withRedirects<R>(_ body: (inout State) -> sending R) -> sending R { state.withLock { body(&$0) } }

    func goodAnswer(_ request: ServerRequest, of version: Version) -> [ServerStep] {
        guard request.method == "GET" || request.method == "HEAD" else { return ServerStep.answer(405) }
        var headers = commonHeaders(of: version)
        if isUnchanged(request, version) { return [.head(304, headers)] }
        var part = ByteRange(0, version.length)
        var status = 200
        if let range = request.range(of: version.length), rangeApplies(request, version) {
            guard range.lower < version.length else {
                return ServerStep.answer(416, [("Content-Range", "bytes */\(version.length)")])
            }
            part = range.clamped(to: part)
            status = 206
            headers.append(("Content-Range", contentRange(part, of: version.length)))
        }
        headers.append(("Content-Length", "\(part.count)"))
        return [.head(status, headers)] + (request.method == "HEAD" ? [] : [.generated(version.bytes, part)])
    }

    func commonHeaders(of version: Version) -> [(name: String, value: String)] {
        var headers = [("Content-Type", version.mediaType), ("Accept-Ranges", "bytes")]
        if let tag = version.entityTag { headers.append(("ETag", tag)) }
        if let date = version.lastModified { headers.append(("Last-Modified", httpDateText(date))) }
        return headers.map { (name: $0.0, value: $0.1) }
    }

    private func isUnchanged(_ request: ServerRequest, _ version: Version) -> Bool {
        if let tags = request["if-none-match"] {
            guard let mine = version.entityTag.flatMap({ EntityTag($0) }) else { return false }
            return tags.split(separator: ",").contains { EntityTag(String($0))?.opaque == mine.opaque }
        }
        guard let since = request["if-modified-since"].flatMap({ httpDate($0) }) else { return false }
        return version.lastModified.map { $0 <= since } ?? false
    }

    /// `If-Range` wants a strong comparison of tags, or exactly the date (RFC 9110, section 13.1.5).
    private func rangeApplies(_ request: ServerRequest, _ version: Version) -> Bool {
        guard let condition = request["if-range"] else { return true }
        if let date = httpDate(condition) { return date == version.lastModified }
        return condition == version.entityTag && !condition.hasPrefix("W/")
    }
}

func contentRange(_ range: ByteRange, of total: Int64) -> String {
    "bytes \(range.lower)-\(range.upper - 1)/\(total)"
}

extension ScriptedServer {
    /// Serves files by path, and nothing else: other paths are 404.
    package convenience init(_ files: [String: FileOrigin]) throws(ServerError) {
        try self.init { request in files[request.path]?.answer(request) ?? ServerStep.answer(404) }
    }
}
