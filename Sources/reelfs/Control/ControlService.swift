import Glibc
import ReelCore
import ReelFuse
import ReelThreads
import ReelVolume

/// The requests that a daemon performs for clients of its control socket.
struct ControlService: Sendable {
    let volume: any MountedVolume
    /// Reads the catalogue again, and returns a mistake in it, nil if the source is none.
    let reload: (@Sendable () -> Failure?)?
    /// Remembers for later mounts whether a command has made this one offline.
    let setOffline: @Sendable (Bool) -> Void
    /// nil: it is a server without mounts.
    let mounts: MountTable?
    let configuration: FilesystemConfiguration
    /// The address of its HTTP server, nil if there is none.
    var listening: String?
    /// Hears which process is the service.
    var manager = ServiceManager(socketName: nil)
    /// Requests that take a while, of the control socket's clients and of HTTP clients: the disk is for the readers of
    /// the mount.
    let jobs = Slots(4)

    /// Answers a request for known facts at once, and refuses an invalid one, nil if `perform` handles it.
    func answer(_ request: ControlRequest) -> ControlAnswer? {
        let needsPath = ["pin", "unpin", "evict", "refresh", "explain", "cancel-prefetch"].contains(request.command)
        if request.version != 1 || !Self.commands.contains(request.command) {
            return ControlAnswer(error: "this daemon knows only version 1 and \(Self.commands.joined(separator: ", "))")
        }
        let paths = (request.paths ?? []) + (request.path.map { [$0] } ?? [])
        if paths.contains(where: { !ControlRequest.isNameable($0) }) {
            return ControlAnswer(error: ControlRequest.tooLong)
        }
        let isWithoutBytes = request.command == "prune" && (request.freeing ?? request.bytes ?? -1) < 0
        if needsPath && request.path == nil || isWithoutBytes {
            return ControlAnswer(error: "the request lacks a path, or a number of bytes that is not negative")
        }
        if request.command == "prefetch", request.paths?.isEmpty ?? true {
            return ControlAnswer(error: "the request lacks paths")
        }
        let needsRate = request.command == "limit-rate" || request.command == "prefetch" && request.schedule != nil
        if needsRate, request.schedule.flatMap({ RateSchedule($0) }) == nil {
            return ControlAnswer(error: "the request has no rate that can be read")
        }
        if request.command == "offline", request.isOffline == nil {
            return ControlAnswer(error: "the request does not tell whether to be offline")
        }
        if request.command == "attach", request.handover == nil || mounts == nil {
            return ControlAnswer(error: mounts == nil ? "a server takes no mounts" : "the request lacks the mount")
        }
        if request.command == "leave", request.format != LeftMount.format || mounts == nil {
            return ControlAnswer(error: "the daemon's mounts cannot be left to another version of reelfs")
        }
        if ["await-unmount", "detach"].contains(request.command), request.device == nil {
            return ControlAnswer(error: "the request lacks the mount")
        }
        if request.command == "cancel-prefetch" {
            return ControlAnswer(cancelled: volume.prefetches.cancel(below: request.path ?? ""))
        }
        return request.command == "status" ? ControlAnswer(mount: status) : nil
    }

    /// What the next daemon has to know; an error where it could not take the place of this one.
    private func description(for client: ControlConnection) -> ControlAnswer {
        if manager.socketName != nil {
            // The new daemon is one of the client's control group, and not of the service's.
            guard ServiceManager.isOfOurService(client.process) else {
                return ControlAnswer(error: "the daemon is a service: `systemctl reload` restarts it")
            }
        } else if mount.options.foreground {
            return ControlAnswer(error: "the daemon runs in the foreground, and its caller has to restart it")
        }
        guard let mountpoint = mounts?.mountpoints.first else {
            return ControlAnswer(error: "the daemon has no mount")
        }
        var first = mount
        first.mountpoint = mountpoint
        var handover = Handover(configuration, device: nil, first)
        handover.manager = manager.socketName
        return ControlAnswer(handover: handover)
    }

    /// Tells the client, who is to take the place of this daemon, what it has to know, or leaves the mounts to it.
    func give(_ request: ControlRequest, to client: ControlConnection) -> ControlAnswer {
        if let refusal = refusal(of: client) { return ControlAnswer(error: refusal) }
        if request.command == "describe" { return description(for: client) }
        let isDone = mounts?.leave { left, descriptors in
            guard client.send(ControlAnswer(left: left, more: true), descriptors) else { return false }
            manager.tell(.replaced(by: client.process))
            return true
        }
        return isDone ?? false ? ControlAnswer() : ControlAnswer(error: MountTable.ending)
    }

    /// The state of the mount: what `reelfs status`, the page and its events show.
    var status: MountStatus {
        let mountpoints = mounts?.mountpoints ?? []
        let onlyCached = mounts?.onlyCached ?? (mount.options.onlyCached ? [mount.mountpoint] : [])
        var volume = volume.status()
        // The line is cut for the option alone, too.
        volume.isOffline = mounts?.isOffline ?? (volume.isOffline == true && onlyCached.isEmpty)
        return MountStatus(
            source: withoutQuery(mount.source), mountpoint: mountpoints.first ?? mount.mountpoint,
            mountpoints: mountpoints.count > 1 ? mountpoints : nil,
            onlyCached: onlyCached.isEmpty ? nil : onlyCached, pid: getpid(),
            passthrough: mounts?.isPassthroughPossible, listening: listening, volume: volume)
    }

    var mount: MountRequest { configuration.request }

    /// The same, short enough to be sent each second: open files, and the first of the others.
    var news: MountStatus {
        var status = status
        if let files = status.volume?.files { status.volume?.files = Array(files.prefix(Self.mostNews)) }
        return status
    }

    /// A few hundred bytes each.
    private static let mostNews = 100

    private static let commands = [
        "status", "list", "pin", "unpin", "evict", "refresh", "prune", "verify", "explain", "prefetch",
        "cancel-prefetch", "offline", "limit-rate", "attach", "await-unmount",
        "detach", "describe", "leave",
    ]

    /// Requests whose work is done elsewhere, while their connection only watches it.
    static let watched: Set<String> = ["prefetch", "attach"]
    /// Requests that wait for nothing long, so that long jobs do not hold them up.
    static let quick: Set<String> = ["offline", "limit-rate"]

    /// Waits for the end of a mount. - Returns: nil where none is left: the cache is still to be written.
    func awaitUnmount(_ request: ControlRequest, _ client: ControlConnection) -> ControlAnswer? {
        let areOthersLeft = mounts?.waitForEnd(of: request.device ?? "", until: { client.isOver })
        return areOthersLeft == true ? ControlAnswer() : nil
    }

    /// Why a client gives and gets no mount, nil if it may.
    private func refusal(of client: ControlConnection) -> String? {
        // The socket's mode admits no other user, except for one to whom it was opened.
        [0, geteuid()].contains(client.user) ? nil : "the daemon belongs to another user (uid \(geteuid()))"
    }

    private func attach(_ handover: Handover, _ mounts: MountTable, _ client: ControlConnection) -> ControlAnswer {
        if let refusal = refusal(of: client) { return ControlAnswer(refusal: refusal) }
        guard mounts.isOpen else { return ControlAnswer(error: MountTable.ending) }
        let refusal = handover.refusal(by: configuration, mounts.mountpoints)
        let descriptors = client.takeDescriptors()
        guard refusal == nil, !descriptors.isEmpty else {
            for descriptor in descriptors { close(descriptor) }
            return ControlAnswer(refusal: refusal)
        }
        return mounts.attach(handover, descriptors) ?? ControlAnswer()
    }

    /// Performs a request that takes a while. Ends early, with an error, once the client has gone.
    func perform(_ request: ControlRequest, _ client: ControlConnection) -> ControlAnswer {
        if request.command == "list" { return list(client) }
        if request.command == "detach" {
            mounts?.stop(request.device ?? "")
            return ControlAnswer()
        }
        if request.command == "attach", let handover = request.handover, let mounts {
            return attach(handover, mounts, client)
        }
        if request.command == "prefetch" {
            return prefetch(request, isOver: { client.isOver }) { client.send(more: ControlAnswer(prefetch: $0.brief)) }
        }
        return perform(request, MaintenanceWatch(progress: { client.tell($0) }, isOver: { client.isOver }))
    }

    /// Performs any of them but `list`.
    func perform(_ request: ControlRequest, _ watch: MaintenanceWatch) -> ControlAnswer {
        do throws(MaintenanceFailure) {
            let path = request.path ?? ""
            switch request.command {
            case "prefetch": return prefetch(request, isOver: watch.isOver) { _ in }
            case "offline":
                return makeOffline(request.isOffline ?? false, request.device)
            case "limit-rate":
                if let schedule = rate(of: request) { volume.line.limit.schedule = schedule }
                return ControlAnswer(report: MaintenanceReport())
            case "explain": return ControlAnswer(explanation: try volume.maintenance.explain(path))
            case "pin": return ControlAnswer(report: try volume.maintenance.pin(path, true, watch))
            case "unpin": return ControlAnswer(report: try volume.maintenance.pin(path, false, watch))
            case "evict": return ControlAnswer(report: try volume.maintenance.evict(path, watch))
            case "refresh":
                if let mistake = reload?() { return ControlAnswer(error: mistake.sentence) }
                let report = try volume.maintenance.refresh(path, isRecursive: request.isRecursive ?? false, watch)
                return ControlAnswer(report: report)
            case "prune":
                let bytes = request.freeing ?? max(0, volume.capacity().used - (request.bytes ?? 0))
                return ControlAnswer(report: try volume.maintenance.prune(freeing: bytes, watch))
            default:
                let report = try volume.maintenance.verify(request.path, repairs: request.repairs ?? false, watch)
                return ControlAnswer(report: report)
            }
        } catch {
            return ControlAnswer(error: error.description, isUnlisted: error.isUnlisted ? true : nil)
        }
    }

    /// - Parameter device: the mount that the user names, as in mountinfo; nil if it is all.
    private func makeOffline(_ isOffline: Bool, _ device: String?) -> ControlAnswer {
        setOffline(isOffline)
        mounts?.setOffline(isOffline) ?? volume.setOffline(isOffline || mount.options.onlyCached)
        let place = mounts.map { $0.onlyCached(device) } ?? (mount.options.onlyCached ? mount.mountpoint : nil)
        guard !isOffline, let place else { return ControlAnswer(report: MaintenanceReport()) }
        let verb = mounts == nil ? "serve" : "mount"
        return ControlAnswer(
            error: "`offline off` does not end the option --only-cached of \(printable(place)): "
                + "\(verb) it again without")
    }

    private func rate(of request: ControlRequest) -> RateSchedule? { request.schedule.flatMap { RateSchedule($0) } }

    /// Starts a prefetch, and tells of it until it is over. In the background only until it is known whether the cache
    /// can hold it.
    private func prefetch(
        _ request: ControlRequest, isOver: () -> Bool, _ tell: (PrefetchStatus) -> Void
    ) -> ControlAnswer {
        let isBackground = request.isBackground ?? false
        let asked = PrefetchRequest(
            paths: request.paths ?? [], pins: request.pins ?? false, rate: rate(of: request), isBackground: isBackground
        )
        do throws(MaintenanceFailure) {
            let prefetches = volume.prefetches
            let number = try prefetches.start(asked, volume.maintenance)
            let status = prefetches.watch(
                number, until: { isBackground && $0.phase != .listing }, isOver: isOver, tell)
            if !isBackground, status?.isOver == false { prefetches.cancel(number) }
            return ControlAnswer(prefetch: status)
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
                source: withoutQuery(mount.source), mountpoint: mounts?.mountpoints.first ?? mount.mountpoint,
                used: capacity.used,
                cap: capacity.total))
    }
}
