import ReelListener
import ReelVolume

/// The calls that do what commands of the control socket do.
enum CommandCalls {
    /// A parameter of a call, which becomes a member of a line of the control socket.
    struct Parameter: Sendable {
        /// The types as JSON Schema names them.
        enum Kind: String {
            case string
            case boolean
            case integer
        }

        var name: String
        /// The name on the control socket.
        var member: String
        var kind: Kind

        init(_ name: String, as member: String? = nil, _ kind: Kind = .string) {
            (self.name, self.member, self.kind) = (name, member ?? name, kind)
        }
    }

    /// By the name of the command.
    static let parameters = [
        "refresh": [Parameter("path"), Parameter("recursive", as: "isRecursive", .boolean)],
        "pin": [Parameter("path")],
        "unpin": [Parameter("path")],
        "evict": [Parameter("path")],
        "prune": [Parameter("bytes", .integer)],
        "prefetch": [Parameter("path"), Parameter("pin", as: "pins", .boolean), Parameter("rate", as: "schedule")],
        "cancel-prefetch": [Parameter("path"), Parameter("number", .integer)],
        "offline": [Parameter("on", as: "isOffline", .boolean)],
        "limit-rate": [Parameter("rate", as: "schedule")],
    ]

    /// By path.
    static func calls(_ service: ControlService) -> [String: ServedCall] {
        var calls: [String: ServedCall] = [:]
        for command in parameters.keys {
            calls["/api/v1/" + command] = ServedCall(isChanging: true) { request in
                do throws(RequestFailure) {
                    let request = try Self.request(command, request)
                    let answer = try await CallClient.run(service.jobs, isLong: request.cost == .long) {
                        service.perform(request, for: $0)
                    }
                    return try served(answer)
                } catch {
                    return jsonAnswer(error.status, ["error": error.sentence])
                }
            }
        }
        return calls
    }

    /// What a call asks for.
    static func request(_ command: String, _ request: ServedRequest) throws(RequestFailure) -> ControlRequest {
        var given = try CallParameters(request)
        // No connection waits for a prefetch.
        var line: [String: JSONValue] = ["version": 1, "command": .text(command), "isBackground": true]
        for parameter in parameters[command] ?? [] { line[parameter.member] = try given.take(parameter) }
        if case .text(let path)? = line["path"] { line["path"] = .text(String(path.drop { $0 == "/" })) }
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
