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
    typealias Work = @Sendable (inout CallParameters, MaintenanceWatch) throws(CallFailure) -> JSONValue

    let service: ControlService
    let threads: CallThreads
    private let lastJob = JobNumber()

    /// Directories of one call.
    private static let mostPaths = 1000

    init(_ service: ControlService, _ threads: CallThreads) {
        self.service = service
        self.threads = threads
    }

    var routes: [Route] {
        [
            route("vfs/refresh", "Lists the folders `dir`, `dir2`, … again now, or the root.", waits: true) {
                [self] (parameters, watch) throws(CallFailure) in try refresh(&parameters, watch)
            },
            route("vfs/forget", "Shows the folders `dir…` and the files `file…` as they are now.", waits: true) {
                [self] (parameters, watch) throws(CallFailure) in try forget(&parameters, watch)
            },
            route("vfs/stats", "Tells of the cache and the open files.") { [self] _, _ in statistics },
            route("core/version", "Tells the version of reelfs.") { _, _ in Self.version },
            route("rc/noop", "Answers with the parameters.") { parameters, _ in .object(parameters.values) },
        ]
    }

    /// - Parameter waits: for a disk or the network, and changes what the mount shows.
    private func route(_ name: String, _ summary: String, waits: Bool = false, _ work: @escaping Work) -> Route {
        let call = ServedCall(isChanging: waits) { [threads, lastJob] request in
            var parameters = CallParameters()
            do throws(CallFailure) {
                parameters = try CallParameters(request)
                var given = parameters
                guard waits else { return jsonAnswer(200, try work(&given, MaintenanceWatch())) }
                let parameters = parameters
                if try given.takeFlag("_async") == true {
                    guard threads.begin({ _ = Self.perform(work, parameters, $0) }) else { throw Self.busy }
                    return jsonAnswer(200, ["jobid": JSONValue.whole(lastJob.next())])
                }
                guard let result = await threads.run({ Self.perform(work, parameters, $0) }) else { throw Self.busy }
                return jsonAnswer(200, try result.get())
            } catch {
                return Self.answer(error, parameters.values, name)
            }
        }
        return Route(path: "/" + name, summary: summary, isChanging: waits, answer: .call(call))
    }

    private static let busy = CallFailure(status: 503, sentence: "too many calls are under way, or the mount is ending")

    private static func perform(
        _ work: Work, _ given: CallParameters, _ watch: MaintenanceWatch
    ) -> Result<JSONValue, CallFailure> {
        var parameters = given
        parameters.drop(where: { $0.hasPrefix("_") || $0 == "fs" })
        return Result { () throws(CallFailure) in try work(&parameters, watch) }
    }

    /// - Parameter input: as the client sent it.
    private static func answer(
        _ failure: CallFailure, _ input: [String: JSONValue], _ name: String
    ) -> ServedAnswer {
        let told: JSONValue = [
            "error": .text(failure.sentence), "input": .object(input), "path": .text(name),
            "status": .whole(Int64(failure.status)),
        ]
        return jsonAnswer(failure.status, told)
    }

    // MARK: What they do

    private func refresh(
        _ parameters: inout CallParameters, _ watch: MaintenanceWatch
    ) throws(CallFailure) -> JSONValue {
        let isRecursive = try parameters.takeFlag("recursive") ?? false
        let paths = try Self.paths(&parameters, ["dir"])
        var result: [String: JSONValue] = [:]
        for path in paths.isEmpty ? [""] : paths where !watch.isOver() {
            result[path] = .text(refreshed(Self.inside(path), isRecursive: isRecursive, watch))
        }
        return ["result": .object(result)]
    }

    private func forget(
        _ parameters: inout CallParameters, _ watch: MaintenanceWatch
    ) throws(CallFailure) -> JSONValue {
        let paths = try Self.paths(&parameters, ["dir", "file"]).map(Self.inside)
        // Of a path that has come or gone, the folder above tells.
        let above = Set(paths.map(Self.parent))
        for path in above.sorted() + paths.filter({ !above.contains($0) }) where !watch.isOver() {
            _ = refreshed(path, isRecursive: false, watch)
        }
        if paths.isEmpty {
            service.volume.maintenance.expireListings()
            _ = refreshed("", isRecursive: false, watch)
        }
        return ["forgotten": .list(paths.map { .text($0) })]
    }

    /// Lists a folder again; where it is not listed yet, first the lowest one above it that is, and from there down.
    /// - Returns: what rclone says of it.
    private func refreshed(_ path: String, isRecursive: Bool, _ watch: MaintenanceWatch) -> String {
        let refresh = { (folder: String) in
            let isRecursive = isRecursive && folder == path
            return service.perform(ControlRequest(command: "refresh", path: folder, isRecursive: isRecursive), watch)
        }
        var folders = [path]
        var answer = refresh(path)
        while answer.isUnlisted == true, let lowest = folders.last, !lowest.isEmpty, !watch.isOver() {
            folders.append(Self.parent(lowest))
            answer = refresh(folders[folders.count - 1])
        }
        folders.removeLast()
        while Self.text(answer) == Self.done, !watch.isOver(), let next = folders.popLast() { answer = refresh(next) }
        return folders.isEmpty ? Self.text(answer) : Self.missing
    }

    private static func text(_ answer: ControlAnswer) -> String {
        if answer.isUnlisted == true { return missing }
        return answer.error ?? answer.report?.failedDirectories.first?.reason ?? done
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
    ) throws(CallFailure) -> [String] {
        var paths: [String] = []
        for key in parameters.values.keys.sorted() {
            guard words.contains(where: { key.hasPrefix($0) }) else {
                throw CallFailure(status: 500, sentence: "unknown key \"\(shown(key))\"")
            }
            guard let path = try parameters.takeText(key) else { continue }
            guard ControlRequest.isNameable(path) else {
                throw CallFailure(status: 400, sentence: ControlRequest.tooLong)
            }
            paths.append(path)
        }
        guard paths.count <= mostPaths else { throw CallFailure(status: 400, sentence: "too many paths") }
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
