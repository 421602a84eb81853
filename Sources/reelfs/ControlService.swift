import Glibc
import ReelFuse
import ReelThreads
import ReelVolume

/// The requests that a daemon performs for clients of its control socket.
struct ControlService: Sendable {
    let mount: MountRequest
    let volume: any MountedVolume
    /// nil until it is mounted.
    let session: Monitor<FuseSession?>

    /// Answers a request for known facts at once, and refuses an invalid one; nil: `perform` handles it.
    func answer(_ request: ControlRequest) -> ControlAnswer? {
        let needsPath = ["pin", "unpin", "evict", "explain"].contains(request.command)
        if request.version != 1 || !Self.commands.contains(request.command) {
            return ControlAnswer(error: "this daemon knows only version 1 and \(Self.commands.joined(separator: ", "))")
        }
        if needsPath && request.path == nil || request.command == "prune" && request.bytes ?? -1 < 0 {
            return ControlAnswer(error: "the request lacks a path, or a number of bytes that is not negative")
        }
        guard request.command == "status" else { return nil }
        return ControlAnswer(
            mount: MountStatus(
                source: withoutQuery(mount.source), mountpoint: mount.mountpoint, pid: getpid(),
                passthrough: session.withLock(notifying: false) { $0 }?.isPassthroughPossible,
                volume: volume.status()))
    }

    private static let commands = ["status", "list", "pin", "unpin", "evict", "prune", "verify", "explain"]

    /// Performs a request that takes a while. Ends early, with an error, once the client has gone.
    func perform(_ request: ControlRequest, _ client: ControlConnection) -> ControlAnswer {
        let watch = MaintenanceWatch(progress: { client.tell($0) }, isOver: { client.isOver })
        do throws(MaintenanceFailure) {
            let path = request.path ?? ""
            switch request.command {
            case "list": return list(client)
            case "explain": return ControlAnswer(explanation: try volume.maintenance.explain(path))
            case "pin": return ControlAnswer(report: try volume.maintenance.pin(path, true, watch))
            case "unpin": return ControlAnswer(report: try volume.maintenance.pin(path, false, watch))
            case "evict": return ControlAnswer(report: try volume.maintenance.evict(path, watch))
            case "prune": return ControlAnswer(report: try volume.maintenance.prune(to: request.bytes ?? 0, watch))
            default:
                let report = try volume.maintenance.verify(request.path, repairs: request.repairs ?? false, watch)
                return ControlAnswer(report: report)
            }
        } catch {
            return ControlAnswer(error: error.description)
        }
    }

    /// Sends the files in lines of some hundred, so that no line grows with the cache.
    private func list(_ client: ControlConnection) -> ControlAnswer {
        var rest = volume.maintenance.cachedFiles()[...]
        while !rest.isEmpty, !client.isOver {
            client.send(more: ControlAnswer(files: Array(rest.prefix(200))))
            rest = rest.dropFirst(200)
        }
        let capacity = volume.capacity()
        return ControlAnswer(
            cache: CacheStatus(
                source: withoutQuery(mount.source), mountpoint: mount.mountpoint, used: capacity.used,
                cap: capacity.total))
    }
}
