import ReelListener
import ReelVolume

/// What a GET with parameters answers, from memory and the cache's index.
enum FileQueries {
    /// By path.
    static func documents(_ service: ControlService) -> [String: ServedDocument] {
        // A catalogue has others once it was read again.
        let commands = { @Sendable in service.volume.maintenance }
        return [
            "/api/v1/files": document { (given, isOver) throws(RequestFailure) in
                let path = try path(&given)
                let match = try given.takeText("match") ?? ""
                let limit = try given.takeNumber("limit") ?? 200
                guard (1...Int64(FolderQuery.mostEntries)).contains(limit) else {
                    throw RequestFailure(status: 400, sentence: "limit is from 1 to \(FolderQuery.mostEntries)")
                }
                let query = FolderQuery(path: path, match: match, limit: Int(limit))
                return try failing { () throws(MaintenanceFailure) in try commands().contents(query, until: isOver) }
            },
            "/api/v1/explain": document { (given, _) throws(RequestFailure) in
                let path = try path(&given)
                return try failing { () throws(MaintenanceFailure) in try commands().explain(path) }
            },
        ]
    }

    private static func document(
        _ answer: @escaping @Sendable (inout CallParameters, () -> Bool) throws(RequestFailure) -> any Encodable
    ) -> ServedDocument {
        ServedDocument(type: "application/json") { request, isOver in
            do throws(RequestFailure) {
                var given = try CallParameters(request)
                let told = try answer(&given, isOver)
                if let unknown = given.values.keys.min() {
                    throw RequestFailure(status: 400, sentence: "there is no parameter \(shown(unknown))")
                }
                return jsonAnswer(200, told)
            } catch {
                return jsonAnswer(error.status, ["error": error.sentence])
            }
        }
    }

    private static func path(_ given: inout CallParameters) throws(RequestFailure) -> String {
        let path = String((try given.takeText("path") ?? "").drop { $0 == "/" })
        guard ControlRequest.isNameable(path) else {
            throw RequestFailure(status: 400, sentence: ControlRequest.tooLong)
        }
        return path
    }

    private static func failing<Value>(
        _ body: () throws(MaintenanceFailure) -> Value
    ) throws(RequestFailure) -> Value {
        do throws(MaintenanceFailure) { return try body() } catch { throw RequestFailure(error) }
    }
}
