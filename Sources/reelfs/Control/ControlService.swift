import Glibc
import ReelCore
import ReelFuse
import ReelThreads
import ReelVolume

/// The requests that a daemon performs: for clients of its control socket, and for HTTP clients.
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
    /// The file with the token for it, nil if there is none.
    var tokenFile: String?
    /// Hears which process is the service.
    var manager = ServiceManager(socketName: nil)
    let jobs = Jobs()

    /// Performs a request, if there is room for it.
    /// - Returns: the last line, nil where the end of the connection is the answer.
    func answer(_ request: ControlRequest, for client: any RequestClient) -> ControlAnswer? {
        if request.cost == .none { return perform(request, for: client) }
        do throws(RequestFailure) {
            try jobs.begin(client, isLong: request.cost == .long)
        } catch {
            return .failure(error)
        }
        defer { jobs.end(client) }
        return perform(request, for: client)
    }

    /// Performs a request for which there is room. Ends early, with a failure, once the client has gone.
    func perform(_ request: ControlRequest, for client: any RequestClient) -> ControlAnswer? {
        let watch = MaintenanceWatch(progress: { client.send(.progress($0)) }, isOver: { client.isOver })
        do throws(MaintenanceFailure) {
            switch request {
            case .status: return .status(status)
            case .list: return list(client)
            case .pin(let path): return .report(try volume.maintenance.pin(path, true, watch))
            case .unpin(let path): return .report(try volume.maintenance.pin(path, false, watch))
            case .evict(let path): return .report(try volume.maintenance.evict(path, watch))
            case .explain(let path): return .explanation(try volume.maintenance.explain(path))
            case .refresh(let path, let isRecursive):
                if let mistake = reload?() { return .error(mistake.sentence) }
                // What a program looks at after the command is the new listing.
                defer { mounts?.settleKernelCaches() }
                return .report(try volume.maintenance.refresh(path, isRecursive: isRecursive, watch))
            case .prune(.to(let bytes)):
                return .report(try volume.maintenance.prune(freeing: max(0, volume.capacity().used - bytes), watch))
            case .prune(.freeing(let bytes)): return .report(try volume.maintenance.prune(freeing: bytes, watch))
            case .verify(let path, let repairs):
                return .report(try volume.maintenance.verify(path, repairs: repairs, watch))
            case .prefetch(let asked): return try prefetch(asked, client)
            case .cancelPrefetch(let path): return .cancelled(volume.prefetches.cancel(below: path))
            case .cancelNumber(let number): return .cancelled(volume.prefetches.cancel(number) ? 1 : 0)
            case .offline(let isOffline, let device): return makeOffline(isOffline, device)
            case .limitRate(let schedule):
                volume.line.limit.schedule = schedule
                return .report(MaintenanceReport())
            case .attach(let handover): return attach(handover, client)
            case .detach(let device):
                mounts?.stop(device)
                return .done
            case .awaitUnmount(let device):
                // Where none is left the cache is still to be written.
                return mounts?.waitForEnd(of: device, until: { client.isOver }) == true ? .done : nil
            case .describe: return refusal(of: client).map { .error($0) } ?? description(for: client)
            case .leave(let format): return leave(format, to: client)
            }
        } catch {
            return .failure(RequestFailure(error))
        }
    }

    /// What the next daemon has to know, and why it cannot be one of the client's making.
    private func description(for client: any RequestClient) -> ControlAnswer {
        guard let mountpoint = mounts?.mountpoints.first else {
            return .error("the daemon has no mount")
        }
        var first = mount
        first.mountpoint = mountpoint
        var handover = Handover(configuration, device: nil, first)
        // The standard one depends on the caller.
        if !handover.options.contains(where: { $0.first.map(hyphenated) == "cache-dir" }),
            let root = cutAtLastSlash(configuration.directory)?.above
        {
            handover.options.append(["cache-dir", root])
        }
        handover.manager = manager.socketName
        handover.environment = LeftEnvironment.own()
        if manager.socketName != nil {
            // The manager hears of it from its own processes alone.
            if !ServiceManager.isOfOurService(client.process) {
                handover.refusal = "the daemon is a service: `systemctl reload` restarts it"
            }
        } else if mount.options.foreground {
            handover.refusal = "the daemon runs in the foreground, and its caller has to restart it"
        }
        return .description(handover)
    }

    /// Leaves the mounts to the client, which takes the place of this daemon.
    private func leave(_ format: Int?, to client: any RequestClient) -> ControlAnswer {
        guard format == LeftMount.format, let mounts else {
            return .error("the daemon's mounts cannot be left to another version of reelfs")
        }
        if let refusal = refusal(of: client) { return .error(refusal) }
        let isDone = mounts.leave { left, descriptors in
            guard client.send(.left(left), descriptors) else { return false }
            manager.tell(.replaced(by: client.process))
            return true
        }
        return isDone ? .done : .error(MountTable.ending)
    }

    /// The state of the mount: what `reelfs status`, the page and its events show.
    var status: MountStatus {
        let mountpoints = mounts?.mountpoints ?? []
        let onlyCached = mounts?.onlyCached ?? (mount.options.onlyCached ? [mount.mountpoint] : [])
        let failures = volume.lastFailures
        var volume = volume.status()
        // The line is cut for the option alone, too.
        volume.isOffline = mounts?.isOffline ?? (volume.isOffline == true && onlyCached.isEmpty)
        return MountStatus(
            source: withoutQuery(mount.source), mountpoint: mountpoints.first ?? mount.mountpoint,
            mountpoints: mountpoints.count > 1 ? mountpoints : nil,
            onlyCached: onlyCached.isEmpty ? nil : onlyCached, pid: getpid(),
            passthrough: mounts?.isPassthroughPossible, listening: listening, tokenFile: tokenFile,
            failures: failures.isEmpty ? nil : failures, volume: volume)
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

    /// Why a client gives and gets no mount, nil if it may.
    private func refusal(of client: any RequestClient) -> String? {
        // The socket's mode admits no other user, except for one to whom it was opened.
        [0, geteuid()].contains(client.user) ? nil : "the daemon belongs to another user (uid \(geteuid()))"
    }

    private func attach(_ handover: Handover, _ client: any RequestClient) -> ControlAnswer {
        guard let mounts else { return .error("a server takes no mounts") }
        if let refusal = refusal(of: client) { return .refusal(refusal) }
        guard mounts.isOpen else { return .error(MountTable.ending) }
        let refusal = handover.refusal(by: configuration, mounts.mountpoints)
        let descriptors = client.takeDescriptors()
        guard refusal == nil, !descriptors.isEmpty else {
            for descriptor in descriptors { close(descriptor) }
            return refusal.map { .refusal($0) } ?? .done
        }
        return mounts.attach(handover, descriptors)
    }

    /// - Parameter device: the mount that the user names, as in mountinfo; nil if it is all.
    private func makeOffline(_ isOffline: Bool, _ device: String?) -> ControlAnswer {
        setOffline(isOffline)
        mounts?.setOffline(isOffline) ?? volume.setOffline(isOffline || mount.options.onlyCached)
        mounts?.settleKernelCaches()
        let place = mounts.map { $0.onlyCached(device) } ?? (mount.options.onlyCached ? mount.mountpoint : nil)
        guard !isOffline, let place else { return .report(MaintenanceReport()) }
        let verb = mounts == nil ? "serve" : "mount"
        return .error(
            "`offline off` does not end the option --only-cached of \(printable(place)): "
                + "\(verb) it again without")
    }

    /// Starts a prefetch, and reports it until it is over. In the background only until it is known whether the cache
    /// can hold it.
    private func prefetch(
        _ asked: PrefetchRequest, _ client: any RequestClient
    ) throws(MaintenanceFailure) -> ControlAnswer {
        let prefetches = volume.prefetches
        let number = try prefetches.start(asked, volume.maintenance)
        let status = prefetches.watch(
            number, until: { asked.isBackground && $0.phase != .listing }, isOver: { client.isOver },
            { client.send(.prefetching($0.brief)) })
        if !asked.isBackground, status?.isOver == false { prefetches.cancel(number) }
        return status.map { .prefetch($0) } ?? .done
    }

    /// Sends the files in lines of some hundred, so that no line grows with the cache.
    private func list(_ client: any RequestClient) -> ControlAnswer {
        var rest = volume.maintenance.cachedFiles()[...]
        while !rest.isEmpty, !client.isOver {
            client.send(.files(Array(rest.prefix(200))))
            rest = rest.dropFirst(200)
        }
        let capacity = volume.capacity()
        return .cache(
            CacheStatus(
                source: withoutQuery(mount.source), mountpoint: mounts?.mountpoints.first ?? mount.mountpoint,
                used: capacity.used, cap: capacity.total))
    }
}

/// The client of a request, at whichever door. It has one request at a time.
protocol RequestClient: AnyObject, Sendable {
    /// Whether it has gone, or its request is to end.
    var isOver: Bool { get }
    /// The user who asks, and the process.
    var user: uid_t { get }
    var process: pid_t { get }
    /// Sends a line that others follow, if the door takes several. - Parameter descriptors: go with it.
    /// - Returns: false where the client does not take it.
    @discardableResult func send(_ answer: ControlAnswer, _ descriptors: [Int32]) -> Bool
    /// The descriptors that have come, which are the caller's to close.
    func takeDescriptors() -> [Int32]
    /// Makes its request end.
    func end()
}

extension RequestClient {
    func send(_ answer: ControlAnswer) { send(answer, []) }
}
