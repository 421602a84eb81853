import Glibc
import ReelFuse
import ReelThreads
import ReelVolume

/// What a daemon does for those who ask over its socket.
struct ControlService: Sendable {
    let mount: MountRequest
    let volume: Volume
    /// nil until it is mounted.
    let session: Monitor<FuseSession?>

    /// What is known at once; nil: it takes a while, and is for `perform`.
    func answer(_ request: ControlRequest) -> ControlAnswer? {
        let needsPath = ["pin", "unpin", "evict"].contains(request.command)
        if request.version != 1 || !Self.commands.contains(request.command) {
            return ControlAnswer(error: "this daemon knows only version 1 and \(Self.commands.joined(separator: ", "))")
        }
        if needsPath && request.path == nil || request.command == "prune" && request.bytes ?? -1 < 0 {
            return ControlAnswer(error: "something is missing in that request, or below zero")
        }
        guard request.command == "status" else { return nil }
        return ControlAnswer(
            mount: MountStatus(
                source: withoutQuery(mount.source), mountpoint: mount.mountpoint, pid: getpid(),
                passthrough: session.withLock(notifying: false) { $0 }?.isPassthroughPossible,
                volume: volume.status()))
    }

    private static let commands = ["status", "list", "pin", "unpin", "evict", "prune", "verify"]

    /// On the job's own thread.
    func perform(_ request: ControlRequest, _ job: ControlJob) -> ControlAnswer {
        let watch = MaintenanceWatch(
            progress: { job.tell($0) }, isOver: { job.isOver })
        do throws(MaintenanceFailure) {
            let path = request.path ?? ""
            switch request.command {
            case "list": return list(job)
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

    /// Files by lines of some hundred, so that none of them grows with the cache.
    private func list(_ job: ControlJob) -> ControlAnswer {
        var rest = volume.maintenance.cachedFiles()[...]
        while !rest.isEmpty, !job.isOver {
            job.send(more: ControlAnswer(files: Array(rest.prefix(200))))
            rest = rest.dropFirst(200)
        }
        let capacity = volume.capacity()
        return ControlAnswer(
            cache: CacheStatus(
                source: withoutQuery(mount.source), mountpoint: mount.mountpoint, used: capacity.used,
                cap: capacity.total))
    }
}
