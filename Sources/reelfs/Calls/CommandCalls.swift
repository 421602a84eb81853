import ReelListener
import ReelVolume

/// The calls that do what commands of the control socket do.
struct CommandCalls {
    let service: ControlService

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

    static let parameters = [
        RouteParameter(
            name: "path", key: "path", kind: .string,
            help: "A file or folder inside the mount; empty or / for all of it.", isRequired: true),
        RouteParameter(
            name: "recursive", key: "isRecursive", kind: .boolean, help: "All folders below it, too."),
        RouteParameter(
            name: "bytes", key: "bytes", kind: .integer, help: "The size to reduce the cache to.", isRequired: true),
        RouteParameter(
            name: "pin", key: "pins", kind: .boolean, help: "Keep them in the cache until they are unpinned."),
        RouteParameter(name: "on", key: "isOffline", kind: .boolean, help: "Whether to be offline.", isRequired: true),
        RouteParameter(
            name: "rate", key: "schedule", kind: .string,
            help: "As --limit-rate has it: 2M, off, or 08:00,2M 23:00,off."),
    ]

    private func route(_ command: String, _ summary: String, _ names: [String]) -> Route {
        let parameters = Self.parameters.filter { names.contains($0.name) }
        let call = ServedCall(isChanging: true) { [service] request in
            do throws(RequestFailure) {
                let request = try Self.request(command, parameters, request)
                let answer = try await CallClient.run(service.jobs, isLong: request.cost == .long) {
                    service.perform(request, for: $0)
                }
                return try Self.served(answer)
            } catch {
                return jsonAnswer(error.status, ["error": error.sentence])
            }
        }
        return Route(
            path: "/api/v1/" + command, summary: summary, parameters: parameters, isChanging: true, answer: .call(call))
    }

    /// The request of the control socket that has the parameters of a call.
    static func request(
        _ command: String, _ parameters: [RouteParameter], _ request: ServedRequest
    ) throws(RequestFailure) -> ControlRequest {
        var given = try CallParameters(request)
        // No connection waits for a prefetch.
        var line: [String: JSONValue] = ["version": 1, "command": .text(command), "isBackground": true]
        for parameter in parameters { line[parameter.key] = try given.take(parameter) }
        if case .text(let path) = line["path"] { line["path"] = .text(String(path.drop { $0 == "/" })) }
        if let unknown = given.values.keys.min() {
            throw RequestFailure(status: 400, sentence: "\(command) has no parameter \(shown(unknown))")
        }
        return try ControlRequest(line: encodeLine(line))
    }

    private static func served(_ answer: ControlAnswer?) throws(RequestFailure) -> ServedAnswer {
        switch answer {
        case .failure(let failure): throw failure
        case .cancelled(let count): return jsonAnswer(200, ["cancelled": count])
        case .prefetch(let prefetch) where prefetch.phase == .refused:
            throw RequestFailure(sentence: refusalText(prefetch))
        case .prefetch(let prefetch) where prefetch.phase == .failed:
            throw RequestFailure(sentence: prefetch.error ?? "the prefetch failed")
        case .prefetch(let prefetch): return jsonAnswer(200, prefetch)
        default: return jsonAnswer(200, answer?.value() as MaintenanceReport?)
        }
    }
}

/// An answer that no client keeps.
func jsonAnswer(_ status: Int, _ value: some Encodable) -> ServedAnswer {
    ServedAnswer(
        status, [("Content-Type", "application/json"), ("Cache-Control", "no-store")], .text(encodeLine(value)))
}
