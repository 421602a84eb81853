import ReelListener

/// The calls that do what commands of the control socket do.
struct CommandCalls {
    let service: ControlService
    let threads: CallThreads

    private static let path = RouteParameter(
        name: "path", kind: .string, help: "A file or folder inside the mount; empty or / for all of it.",
        isRequired: true)

    var routes: [Route] {
        [
            route("refresh", "Lists a folder again now.", ["path", "recursive"]),
            route("pin", "Keeps files in the cache until they are unpinned.", ["path"]),
            route("unpin", "Lets pinned files leave the cache again.", ["path"]),
            route("evict", "Frees the cached bytes of files.", ["path"]),
            route("prune", "Evicts the longest unused data.", ["bytes"]),
            route(
                "prefetch", "Fetches files in the background; answers once they are known to fit.",
                ["path", "pin", "rate"]),
            route("cancel-prefetch", "Ends the fetching of a path and of all below it.", ["path"]),
            route("offline", "Shows only what plays without the network, or all again.", ["on"]),
            route("limit-rate", "Limits the bytes a second from origins.", ["rate"]),
        ]
    }

    private static let parameters = [
        path,
        RouteParameter(name: "recursive", kind: .boolean, help: "All folders below it, too."),
        RouteParameter(name: "bytes", kind: .integer, help: "The size to reduce the cache to.", isRequired: true),
        RouteParameter(name: "pin", kind: .boolean, help: "Keep them in the cache until they are unpinned."),
        RouteParameter(name: "on", kind: .boolean, help: "Whether to be offline.", isRequired: true),
        RouteParameter(name: "rate", kind: .string, help: "As --limit-rate has it: 2M, off, or 08:00,2M 23:00,off."),
    ]

    private func route(_ command: String, _ summary: String, _ names: [String]) -> Route {
        let call = ServedCall(isChanging: true) { [self] request in
            do throws(CallFailure) {
                return try await perform(Self.request(command, names, request))
            } catch {
                return Self.answer(error)
            }
        }
        return Route(
            path: "/api/v1/" + command, summary: summary,
            parameters: Self.parameters.filter { names.contains($0.name) }, isChanging: true, answer: .call(call))
    }

    /// - Parameter names: of the parameters that the command takes.
    static func request(
        _ command: String, _ names: [String], _ request: ServedRequest
    ) throws(CallFailure) -> ControlRequest {
        var parameters = try CallParameters(request)
        var made = ControlRequest(command: command)
        if names.contains("path") {
            made.path = try parameters.takeText("path").map { String($0.drop { $0 == "/" }) }
        }
        if names.contains("recursive") { made.isRecursive = try parameters.takeFlag("recursive") }
        if names.contains("bytes") { made.bytes = try parameters.takeNumber("bytes") }
        if names.contains("on") { made.isOffline = try parameters.takeFlag("on") }
        if names.contains("rate") { made.schedule = try parameters.takeText("rate") }
        if command == "prefetch" {
            made.paths = made.path.map { [$0] }
            made.pins = try parameters.takeFlag("pin")
            made.isBackground = true
        }
        if let unknown = parameters.values.keys.min() {
            throw CallFailure(status: 400, sentence: "\(command) has no parameter \(shown(unknown))")
        }
        return made
    }

    private func perform(_ request: ControlRequest) async throws(CallFailure) -> ServedAnswer {
        if let answer = service.answer(request) {
            if let error = answer.error { throw CallFailure(status: 400, sentence: error) }
            return jsonAnswer(200, ["cancelled": answer.cancelled ?? 0])
        }
        let needsSlot = !ControlService.quick.contains(request.command)
        guard let answer = await threads.run(needsSlot: needsSlot, { service.perform(request, $0) }) else {
            throw CallFailure(status: 503, sentence: "the daemon is busy with other calls, or ending")
        }
        if let error = answer.error {
            throw CallFailure(status: answer.isUnlisted == true ? 404 : 409, sentence: error)
        }
        guard let prefetch = answer.prefetch else { return jsonAnswer(200, answer.report) }
        switch prefetch.phase {
        case .refused: throw CallFailure(status: 409, sentence: refusalText(prefetch))
        case .failed: throw CallFailure(status: 409, sentence: prefetch.error ?? "the prefetch failed")
        case .listing, .fetching, .waiting, .done, .cancelled: return jsonAnswer(200, prefetch)
        }
    }

    static func answer(_ failure: CallFailure) -> ServedAnswer {
        jsonAnswer(failure.status, ["error": failure.sentence])
    }
}

/// An answer that no client keeps.
func jsonAnswer(_ status: Int, _ value: some Encodable) -> ServedAnswer {
    ServedAnswer(
        status, [("Content-Type", "application/json"), ("Cache-Control", "no-store")], .text(encodeLine(value)))
}
