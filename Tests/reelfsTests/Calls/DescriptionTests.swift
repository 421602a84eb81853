import FoundationEssentials
import Glibc
import ReelCore
import TestKit
import Testing

@testable import ReelListener
@testable import ReelVolume
@testable import reelfs

/// `openapi.json` against the code: paths, parameters and answers, none missing on either side.
@Suite struct DescriptionTests {
    private static let document = decodeLine(
        JSONValue.self, contents(of: repository + "/Sources/reelfs/Calls/openapi.json").utf8)!

    private func responses(_ path: String, _ method: String) -> JSONValue? {
        Self.document["paths"]?[path]?[method]?["responses"]
    }

    private func schema(_ answer: JSONValue?, type: String = "application/json") throws -> Schema {
        let answer = Schema(try #require(answer), of: Self.document).json
        return Schema(try #require(answer["content"]?[type]?["schema"]), of: Self.document)
    }

    /// A server over a list, whose one film cannot be reached.
    private func withService(_ body: (ControlService) async throws -> Void) async throws {
        let root = try withTemporaryDirectory { $0 }
        mkdir(root, 0o700)
        defer { removeTree(root) }
        let list = open(root + "/list.m3u", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        writeAll(list, Array("#EXTM3U\nhttp://127.0.0.1:1/film.mkv\n".utf8))
        close(list)
        var options = MountOptions()
        options.cacheDirectory = root + "/cache"
        let request = MountRequest(source: root + "/list.m3u", mountpoint: "127.0.0.1:1", options: options)
        let logger = LogSink.start(level: "critical", toStandardError: true)
        let configuration = try FilesystemConfiguration(request, logger: logger)
        let wiring = try Wiring(configuration)
        defer { wiring.stop() }
        let service = ControlService(
            volume: wiring.volume, reload: nil, setOffline: { _ in }, mounts: nil, configuration: configuration)
        defer { service.jobs.stop() }
        try await body(service)
    }

    @Test("Each path of the server is described, and no other, with its method, its type and its lock")
    func paths() async throws {
        try await withService { service in
            let documents = Entrance.documents(service, LineHistory { service.volume.lineProgress() })
            let calls = Entrance.calls(service)
            let paths = try #require(Self.document["paths"])
            #expect(paths.names == Set(documents.keys).union(calls.keys).union(["/files/{path}"]))
            for (path, document) in documents {
                #expect(paths[path]?.names == ["get"])
                #expect(responses(path, "get")?["200"]?["content"]?.names == [document.type])
            }
            for (path, call) in calls {
                #expect(paths[path]?.names == ["post"])
                #expect((paths[path]?["post"]?["security"] != nil) == call.isChanging, "\(path)")
            }
        }
    }

    @Test("Each parameter of a command is described, and no other, and it is required where the call fails without")
    func parameters() throws {
        for (command, parameters) in CommandCalls.parameters {
            let call = try #require(Self.document["paths"]?["/api/v1/" + command]?["post"]?["requestBody"])
            let contents = try #require(Schema(call, of: Self.document).json["content"])
            #expect(contents.names == ["application/json", "application/x-www-form-urlencoded"])
            for type in contents.names {
                let schema = Schema(try #require(contents[type]?["schema"]), of: Self.document)
                #expect(
                    schema.properties.mapValues { $0.json["type"] }
                        == Dictionary(uniqueKeysWithValues: parameters.map { ($0.name, .text($0.kind.rawValue)) }))
                // A text that is a rate as well as a path.
                let whole = Dictionary(
                    uniqueKeysWithValues: parameters.map { parameter -> (String, JSONValue) in
                        (parameter.name, parameter.kind == .string ? "2M" : parameter.kind == .boolean ? true : 1)
                    })
                let isTaken = { (body: [String: JSONValue]) in
                    var request = ServedRequest(method: "POST", target: "/", headers: [])
                    request.body = encodeLine(body)
                    return (try? CommandCalls.request(command, request)) != nil
                }
                #expect(isTaken(whole))
                for name in whole.keys {
                    #expect(isTaken(whole.filter { $0.key != name }) != schema.required.contains(name), "\(name)")
                }
            }
        }
    }

    @Test("Each member of an answer is described, and no other, and it is required where it is always there")
    func members() throws {
        try expect("MountStatus", MountStatus.self)
        try expect("MaintenanceReport", MaintenanceReport.self)
        try expect("PrefetchStatus", PrefetchStatus.self)
        try expect("FolderContents", FolderContents.self)
        try expect("Explanation", Explanation.self)
        try expect("OtherMounts", OtherMounts.self)
        let phase = Schema(try #require(Self.document["components"]?["schemas"]?["PrefetchStatus"]), of: Self.document)
        #expect(phase.properties["phase"]?.values == Set(PrefetchStatus.Phase.allCases.map(\.rawValue)))
    }

    private func expect<Value: Codable>(_ name: String, _ type: Value.Type) throws {
        let schema = Schema(try #require(Self.document["components"]?["schemas"]?[name]), of: Self.document)
        /// What the type makes of a value; nil if it does not take it.
        func again(_ value: JSONValue) -> JSONValue? {
            decodeLine(type, encodeLine(value)).flatMap { decodeLine(JSONValue.self, encodeLine($0)) }
        }
        let sparse = schema.samples { schema, whole in [("", whole.filter { schema.required.contains($0.key) })] }
        for (path, value) in sparse + [("", schema.sample)] { #expect(again(value) == value, "\(name).\(path)") }
        let lacking = schema.samples { schema, whole in
            schema.required.map { name in (name, whole.filter { $0.key != name }) }
        }
        for (path, value) in lacking { #expect(again(value) != value, "\(name) is complete without \(path)") }
        let whole = try #require(decodeLine(type, encodeLine(schema.sample)))
        #expect(emptyMembers(whole, name) == [], "not described")
    }

    /// The members of a value that are nil. `VolumeNumbers` writes all that it has.
    private func emptyMembers(_ value: Any, _ path: String) -> [String] {
        let mirror = Mirror(reflecting: value)
        if mirror.displayStyle == .optional, mirror.children.isEmpty { return [path] }
        if value is VolumeNumbers { return [] }
        return mirror.children.flatMap { emptyMembers($0.value, path + "." + ($0.label ?? "")) }
    }

    @Test("What each call answers has the members that are described, and no other")
    func answers() async throws {
        let bodies = [
            ("/api/v1/offline", "on=true"), ("/api/v1/refresh", "path="), ("/api/v1/pin", "path=/"),
            ("/api/v1/unpin", "path="), ("/api/v1/evict", "path="), ("/api/v1/prune", "bytes=0"),
            ("/api/v1/prefetch", "path="), ("/api/v1/cancel-prefetch", "path="), ("/api/v1/limit-rate", "rate=off"),
            ("/vfs/refresh", "recursive=true"), ("/vfs/refresh", "_async=true"), ("/vfs/forget", "dir=a"),
            ("/vfs/stats", ""), ("/core/version", ""), ("/rc/noop", "a=b"),
        ]
        try await withService { service in
            let calls = Entrance.calls(service)
            #expect(Set(bodies.map(\.0)) == Set(calls.keys))
            for (path, body) in bodies {
                try await expect(path, body, calls[path], status: "200")
                try await expect(path, "{", calls[path], status: "default")
            }
        }
    }

    private func expect(_ path: String, _ body: String, _ call: ServedCall?, status: String) async throws {
        var request = ServedRequest(method: "POST", target: path, headers: [])
        request.body = Array(body.utf8)
        let answer = try #require(await call?.answer(request))
        guard case .text(let text) = answer.body else {
            Issue.record("\(path) answers no text")
            return
        }
        let value = try #require(decodeLine(JSONValue.self, text))
        #expect((answer.status == 200) == (status == "200"), "\(path): \(value)")
        #expect(try schema(responses(path, "post")?[status]).misfits(value, path) == [])
    }
}

extension JSONValue {
    fileprivate subscript(name: String) -> JSONValue? {
        if case .object(let members) = self { members[name] } else { nil }
    }
    fileprivate var names: Set<String> { if case .object(let members) = self { Set(members.keys) } else { [] } }
}

/// A schema of the description, as far as it uses JSON Schema.
private struct Schema {
    let json: JSONValue
    private let document: JSONValue

    init(_ json: JSONValue, of document: JSONValue) {
        self.document = document
        guard case .text(let reference)? = json["$ref"] else {
            self.json = json
            return
        }
        self.json = reference.split(separator: "/").dropFirst().reduce(document) { $0[String($1)] ?? .null }
    }

    private func schema(_ json: JSONValue) -> Schema { Schema(json, of: document) }

    var properties: [String: Schema] {
        guard case .object(let members)? = json["properties"] else { return [:] }
        return members.mapValues { schema($0) }
    }
    var required: Set<String> { texts("required") }
    /// The words that are allowed; empty if all are.
    var values: Set<String> { texts("enum") }

    private func texts(_ name: String) -> Set<String> {
        guard case .list(let list)? = json[name] else { return [] }
        return Set(list.compactMap { if case .text(let text) = $0 { text } else { nil } })
    }

    /// A value with all members.
    var sample: JSONValue {
        switch json["type"] {
        case "object": .object(properties.mapValues(\.sample))
        case "array": .list(json["items"].map { [schema($0).sample] } ?? [])
        case "string": .text(values.min() ?? "a text")
        case "boolean": true
        case "integer": 1
        case "number": .number(1.5)
        default: .null
        }
    }

    /// Samples in each of which one object, at any depth, is one of those that `change` makes of it.
    func samples(
        _ change: (Schema, [String: JSONValue]) -> [(String, [String: JSONValue])]
    ) -> [(path: String, value: JSONValue)] {
        if json["type"] == "array", let items = json["items"] {
            return schema(items).samples(change).map { ("[]." + $0, .list([$1])) }
        }
        guard case .object(let whole) = sample else { return [] }
        return change(self, whole).map { ($0, .object($1)) }
            + properties.flatMap { name, schema in
                schema.samples(change).map { ("\(name).\($0)", .object(whole.merging([name: $1]) { $1 })) }
            }
    }

    /// How a value is not as the schema says.
    func misfits(_ value: JSONValue, _ path: String) -> [String] {
        switch (json["type"], value) {
        case ("object"?, .object(let members)):
            let others = json["additionalProperties"].map { schema($0) }
            return required.subtracting(members.keys).map { "\(path).\($0) is missing" }
                + members.flatMap { name, value in
                    (properties[name] ?? others)?.misfits(value, "\(path).\(name)") ?? ["\(path).\(name) is unknown"]
                }
        case ("array"?, .list(let list)):
            return json["items"].map { items in
                list.flatMap { schema(items).misfits($0, path + "[]") }
            } ?? []
        case ("string"?, .text(let text)): return values.isEmpty || values.contains(text) ? [] : ["\(path): \(text)"]
        case ("boolean"?, .flag), ("integer"?, .whole), ("number"?, .whole), ("number"?, .number), (nil, _): return []
        default: return ["\(path) is \(value)"]
        }
    }
}
