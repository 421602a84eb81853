import ReelCore
import ReelListener
import ReelThreads
import ReelVolume
import Synchronization

/// The calls that media managers make of `rclone mount --rc`, answered as rclone answers them.
///
/// Paths are inside the mount. Parameters that begin with `_` concern rclone's own jobs, of which `_async` alone has a
/// meaning here; `fs` names rclone's remote, and every name stands for this mount.
struct RcloneCalls {
    typealias Work = @Sendable (inout CallParameters, any RequestClient) throws(RequestFailure) -> JSONValue

    let service: ControlService
    private let lastJob = JobNumber()

    /// Directories of one call.
    private static let mostPaths = 1000

    init(service: ControlService) { self.service = service }

    /// By path.
    var calls: [String: ServedCall] {
        [
            "/vfs/refresh": call("vfs/refresh", waits: true) {
                [self] (parameters, client) throws(RequestFailure) in try refresh(&parameters, client)
            },
            "/vfs/forget": call("vfs/forget", waits: true) {
                [self] (parameters, client) throws(RequestFailure) in try forget(&parameters, client)
            },
            "/vfs/stats": call("vfs/stats") { [self] _, _ in statistics },
            "/core/version": call("core/version") { _, _ in Self.version },
            "/rc/noop": call("rc/noop") { parameters, _ in .object(parameters.values) },
        ]
    }

    /// - Parameter waits: for a disk or the network, and changes what the mount shows.
    private func call(_ name: String, waits: Bool = false, _ work: @escaping Work) -> ServedCall {
        ServedCall(isChanging: waits) { [jobs = service.jobs, lastJob] request in
            var parameters = CallParameters()
            do throws(RequestFailure) {
                parameters = try CallParameters(request)
                var given = parameters
                guard waits else { return jsonAnswer(200, try work(&given, CallClient())) }
                let parameters = parameters
                if try given.takeFlag("_async") == true {
                    try CallClient().start(jobs) { _ = Self.perform(work, parameters, $0) }
                    return jsonAnswer(200, ["jobid": JSONValue.whole(lastJob.next())])
                }
                let result = try await CallClient.run(jobs) { Self.perform(work, parameters, $0) }
                return jsonAnswer(200, try result.get())
            } catch {
                return Self.answer(error, parameters.values, name)
            }
        }
    }

    private static func perform(
        _ work: Work, _ given: CallParameters, _ client: any RequestClient
    ) -> Result<JSONValue, RequestFailure> {
        var parameters = given
        parameters.drop(where: { $0.hasPrefix("_") || $0 == "fs" })
        return Result { () throws(RequestFailure) in try work(&parameters, client) }
    }

    /// - Parameter input: as the client sent it.
    private static func answer(
        _ failure: RequestFailure, _ input: [String: JSONValue], _ name: String
    ) -> ServedAnswer {
        let told: JSONValue = [
            "error": .text(failure.sentence), "input": .object(input), "path": .text(name),
            "status": .whole(Int64(failure.status)),
        ]
        return jsonAnswer(failure.status, told)
    }

    // MARK: What they do

    private func refresh(
        _ parameters: inout CallParameters, _ client: any RequestClient
    ) throws(RequestFailure) -> JSONValue {
        let isRecursive = try parameters.takeFlag("recursive") ?? false
        let paths = try Self.paths(&parameters, ["dir"])
        var result: [String: JSONValue] = [:]
        for path in paths.isEmpty ? [""] : paths where !client.isOver {
            result[path] = .text(refreshed(Self.inside(path), isRecursive: isRecursive, client))
        }
        return ["result": .object(result)]
    }

    private func forget(
        _ parameters: inout CallParameters, _ client: any RequestClient
    ) throws(RequestFailure) -> JSONValue {
        let paths = try Self.paths(&parameters, ["dir", "file"]).map(Self.inside)
        // The folder above shows whether a path has come or gone.
        let above = Set(paths.map(Self.parent))
        for path in above.sorted() + paths.filter({ !above.contains($0) }) where !client.isOver {
            _ = refreshed(path, isRecursive: false, client)
        }
        if paths.isEmpty {
            service.volume.maintenance.expireListings()
            _ = refreshed("", isRecursive: false, client)
        }
        return ["forgotten": .list(paths.map { .text($0) })]
    }

    /// Lists a folder again; where it is not listed yet, first one above it that is, and from there down. Upwards in
    /// steps that double, so that a path of very many names costs few looks.
    /// - Returns: what rclone says of it.
    private func refreshed(_ path: String, isRecursive: Bool, _ client: any RequestClient) -> String {
        let names = pathNames(path)
        var (depth, step) = (names.count, 1)
        func refresh() -> String {
            let folder = names[..<depth].joined(separator: "/")
            let isRecursive = isRecursive && depth == names.count
            return Self.text(service.perform(.refresh(folder, isRecursive: isRecursive), for: client))
        }
        var answer = refresh()
        while answer == Self.missing, depth > 0, !client.isOver {
            depth = max(0, depth - step)
            step *= 2
            answer = refresh()
        }
        while answer == Self.done, depth < names.count, !client.isOver {
            depth += 1
            answer = refresh()
        }
        return depth == names.count ? answer : Self.missing
    }

    private static func text(_ answer: ControlAnswer?) -> String {
        switch answer {
        case .failure(let failure)?: failure.isUnlisted ? missing : failure.sentence
        case .report(let report)?: report.failedDirectories.first?.reason ?? done
        default: done
        }
    }

    private static let missing = "file does not exist"
    private static let done = "OK"

    private var statistics: JSONValue {
        let status = service.volume.status()
        let cache: JSONValue = [
            "bytesUsed": .whole(status.cacheUsed), "erroredFiles": 0, "files": .whole(Int64(status.files.count)),
            "outOfSpace": .flag(status.cacheFailure != nil), "uploadsInProgress": 0, "uploadsQueued": 0,
        ]
        return [
            "diskCache": cache, "fs": .text(withoutQuery(service.mount.source)),
            "inUse": .whole(Int64(status.files.count { $0.openHandles > 0 })),
        ]
    }

    private static var version: JSONValue {
        let parts = Program.version.split(separator: ".").compactMap { Int64($0) }
        return [
            "version": .text("v" + Program.version), "decomposed": .list(parts.map { .whole($0) }),
            "isBeta": false, "isGit": false, "os": "linux", "goVersion": "", "goTags": "none", "linking": "dynamic",
        ]
    }

    // MARK: Parameters

    /// The values of all parameters, whose names begin with one of these words. - Throws: where another one is left.
    private static func paths(
        _ parameters: inout CallParameters, _ words: [String]
    ) throws(RequestFailure) -> [String] {
        var paths: [String] = []
        for key in parameters.values.keys.sorted() {
            guard words.contains(where: { key.hasPrefix($0) }) else {
                throw RequestFailure(status: 500, sentence: "unknown key \"\(shown(key))\"")
            }
            guard let path = try parameters.takeText(key) else { continue }
            guard ControlRequest.isNameable(path) else {
                throw RequestFailure(status: 400, sentence: ControlRequest.tooLong)
            }
            paths.append(path)
        }
        guard paths.count <= mostPaths else { throw RequestFailure(status: 400, sentence: "too many paths") }
        return paths
    }

    /// Without slashes at its ends.
    private static func inside(_ path: String) -> String {
        pathNames(path).joined(separator: "/")
    }

    private static func parent(_ path: String) -> String {
        pathNames(path).dropLast().joined(separator: "/")
    }
}

/// The numbers of jobs, from 1.
private final class JobNumber: Sendable {
    private let last = Atomic<Int64>(0)
    func next() -> Int64 { last.add(1, ordering: .relaxed).newValue }
}
