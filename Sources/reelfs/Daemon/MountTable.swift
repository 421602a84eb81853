import Glibc
import Logging
import ReelCore
import ReelFilesystem
import ReelFuse
import ReelThreads
import ReelVolume

/// The mounts of one daemon: the one that it was started for, and those that later commands have handed over. Each is
/// a session of its own on the one volume; the daemon ends with the last.
final class MountTable: Sendable {
    private struct Row: Sendable {
        let options: FuseSession.Options
        let session: FuseSession
        let watcher: Watcher?
        /// It shows only what is cached.
        let isOnlyCached: Bool

        var mountpoint: String { options.mountpoint }
    }

    private struct State: Sendable {
        var rows: [Row] = []
        /// Mounts that are being made; at first the daemon's own.
        var coming = 1
        var isStopping = false
        var isLeft = false
        /// A command has made all mounts offline.
        var isOffline: Bool

        /// Stays true.
        var isOver: Bool { rows.isEmpty && coming == 0 }
    }

    private let configuration: FilesystemConfiguration
    private let volume: any MountedVolume
    private let caches = KernelCaches()
    private let state: Monitor<State>

    /// - Parameter isOffline: as the last command left it.
    init(_ configuration: FilesystemConfiguration, _ volume: any MountedVolume, isOffline: Bool) {
        state = Monitor(State(isOffline: isOffline))
        self.configuration = configuration
        self.volume = volume
        volume.connect(caches)
    }

    private var logger: Logger { configuration.logger }

    /// The mount points, the oldest first.
    var mountpoints: [String] { state.withLock(notifying: false) { $0.rows.map(\.mountpoint) } }

    /// The mount points that show only what is cached.
    var onlyCached: [String] {
        state.withLock(notifying: false) { $0.rows.filter(\.isOnlyCached).map(\.mountpoint) }
    }

    /// Whether a command has made all mounts offline.
    var isOffline: Bool { state.withLock(notifying: false) { $0.isOffline } }

    /// A command makes all mounts offline, or ends that.
    func setOffline(_ isOffline: Bool) {
        state.withLock { $0.isOffline = isOffline }
        settleLine()
    }

    /// The mount point of a mount that shows only what is cached; nil if it shows all.
    /// - Parameter device: as in mountinfo; nil for the first one, if all are such mounts.
    func onlyCached(_ device: String?) -> String? {
        state.withLock(notifying: false) { state in
            let rows = state.rows.filter { device == nil || $0.session.device == device }
            return rows.allSatisfy(\.isOnlyCached) ? rows.first?.mountpoint : nil
        }
    }

    /// Where no mount is left that may ask for something, the volume asks for nothing.
    private func settleLine() {
        while true {
            let isOffline = state.withLock(notifying: false) { state in
                state.rows.isEmpty ? nil : state.isOffline || state.rows.allSatisfy(\.isOnlyCached)
            }
            guard let isOffline, volume.line.isOffline != isOffline else { return }
            volume.setOffline(isOffline)
        }
    }

    /// Whether the kernel reads complete files itself, in one of the mounts, nil if there is none.
    var isPassthroughPossible: Bool? {
        let sessions = state.withLock(notifying: false) { $0.rows.map(\.session) }
        return sessions.isEmpty ? nil : sessions.contains { $0.isPassthroughPossible }
    }

    /// Waits until the kernel shows what changed so far, a second a mount at most.
    func settleKernelCaches() {
        for row in state.withLock(notifying: false, { $0.rows }) { row.session.settleKernelCache() }
    }

    /// Mounts, and returns when the mount answers.
    /// - Parameters:
    ///   - isOnlyCached: the mount shows only what is cached.
    ///   - watcher: starts one, once the mount has its number.
    func add(
        _ options: FuseSession.Options, isOnlyCached: Bool, _ watcher: (FuseSession) -> Watcher?
    ) throws(MountError) {
        let filesystem: any Filesystem = isOnlyCached ? CachedView(volume) : volume
        let session = try FuseSession(filesystem, options: options, logger: logger)
        caches.add(session.kernelCache)
        do throws(MountError) {
            try session.start()
        } catch {
            caches.remove(session.kernelCache)
            throw error
        }
        let watcher = watcher(session)
        let isStopping = state.withLock { state in
            state.rows.append(
                Row(options: options, session: session, watcher: watcher, isOnlyCached: isOnlyCached))
            return state.isStopping
        }
        settleLine()
        if isStopping { session.stop() }
        let isHandedOver = options.device != nil
        if let thread = Thread("mount", { [self] in end(session, watcher, isHandedOver) }) { return thread.detach() }
        session.stop()
        end(session, watcher, isHandedOver)
    }

    /// The outcome of a mount that was coming is known: it was added, or it failed.
    func settle() { state.withLock { $0.coming -= 1 } }

    /// Takes a mount from another process. - Parameter descriptors: of `/dev/fuse` and the watcher's pipe; they are
    /// closed with the mount.
    func attach(_ handover: Handover, _ descriptors: [Int32]) -> ControlAnswer {
        // The number becomes a part of a path in /sys.
        let isNumber = handover.device?.allSatisfy { $0.isNumber || $0 == ":" } ?? true
        guard let device = descriptors.first, MountDevice.isFuse(device), isNumber else {
            for descriptor in descriptors { close(descriptor) }
            return .error("the request lacks the descriptor of a mount")
        }
        let watcher = descriptors.dropFirst().first.map { Watcher(pipe: $0) }
        guard begin() else {
            close(device)
            watcher?.close()
            return .error(Self.ending)
        }
        defer { settle() }
        let ownership = Ownership(user: handover.user, group: handover.group, umask: handover.umask)
        let options = options(
            handover.mountpoint, ownership, MountDevice(descriptor: device, number: handover.device))
        do throws(MountError) {
            try add(options, isOnlyCached: handover.isOnlyCached) { _ in watcher }
        } catch {
            watcher?.close()
            return .error(error.message)
        }
        logger.notice("mounted", metadata: ["on": "\(handover.mountpoint)"])
        return .done
    }

    /// The options of a mount that another process has made.
    private func options(
        _ mountpoint: String, _ ownership: Ownership, _ device: MountDevice
    ) -> FuseSession.Options {
        var options = FuseSession.Options(configuration)
        (options.mountpoint, options.ownership, options.device) = (mountpoint, ownership, device)
        return options
    }

    /// The error of a daemon that takes no more mounts.
    static let ending = "the mount is ending"

    /// Whether another process has taken the mounts.
    var isLeft: Bool { state.withLock(notifying: false) { $0.isLeft } }

    /// Whether a mount may come.
    var isOpen: Bool { state.withLock(notifying: false) { !$0.isOver && !$0.isStopping } }

    private func begin() -> Bool {
        state.withLock { state in
            guard !state.isOver, !state.isStopping else { return false }
            state.coming += 1
            return true
        }
    }

    private func end(_ session: FuseSession, _ watcher: Watcher?, _ isHandedOver: Bool) {
        guard session.wait() else { return }
        caches.remove(session.kernelCache)
        let isLast = state.withLock { $0.rows.count + $0.coming == 1 }
        if !isLast { session.giveBack() }
        // Where it is mounted may be another mount namespace, and only its watcher be there.
        if isHandedOver { watcher?.removeMount() } else { watcher?.callOff() }
        state.withLock { $0.rows.removeAll { $0.session === session } }
        settleLine()
    }

    /// Ends all mounts, open files or not.
    func stop() {
        let rows = state.withLock { state in
            state.isStopping = true
            return state.rows
        }
        for row in rows { row.session.stop() }
    }

    /// Ends one mount. - Parameter device: as in mountinfo.
    func stop(_ device: String) {
        state.withLock { $0.rows.first { $0.session.device == device } }?.session.stop()
    }

    /// Leaves all mounts to another process, which then holds their descriptors; their callers wait for it.
    /// - Parameter give: returns false where the other process has gone; the mounts end then, with this process.
    /// - Returns: false where the mounts are ending, and none was left.
    func leave(_ give: (LeftMount, _ descriptors: [Int32]) -> Bool) -> Bool {
        let rows: [Row]? = state.withLock { state in
            guard !state.isOver, !state.isStopping, state.coming == 0 else { return nil }
            (state.isStopping, state.isLeft) = (true, true)
            return state.rows
        }
        guard let rows else { return false }
        for row in rows {
            guard let (device, inheritance) = row.session.leave() else { continue }
            let owner = row.options.ownership
            let left = LeftMount(
                directory: configuration.directory, mountpoint: row.mountpoint, device: row.session.device,
                user: owner.user, group: owner.group, umask: owner.umask, isOnlyCached: row.isOnlyCached,
                hasWatcher: row.watcher != nil, limitRate: volume.line.limit.schedule.text, inheritance: inheritance)
            let isTaken = give(left, [device] + (row.watcher.map { [$0.pipe] } ?? []))
            logger.notice(
                isTaken ? "left to another process" : "ended, as no other process took the mount",
                metadata: ["on": "\(row.mountpoint)"])
            state.withLock { $0.rows.removeAll { $0.session === row.session } }
        }
        return true
    }

    /// Takes what an earlier process has left.
    func take(_ left: LeftMount, _ device: Int32, _ watcher: Watcher?) throws(MountError) {
        let ownership = Ownership(user: left.user, group: left.group, umask: left.umask)
        var options = options(left.mountpoint, ownership, MountDevice(descriptor: device, number: left.device))
        options.inheritance = left.inheritance
        if let schedule = left.limitRate.flatMap({ RateSchedule($0) }) { volume.line.limit.schedule = schedule }
        try add(options, isOnlyCached: left.isOnlyCached) { _ in watcher }
    }

    /// Waits for the end of the last mount.
    func waitForEnd() { state.wait { $0.isOver ? () : nil } }

    /// Waits for the end of one mount. - Parameter device: as in mountinfo.
    /// - Returns: whether others are left; nil where `isOver` says that the caller has gone.
    func waitForEnd(of device: String, until isOver: () -> Bool) -> Bool? {
        while !isOver() {
            let areOthersLeft = state.wait(atMost: .milliseconds(100)) { state in
                state.rows.contains { $0.session.device == device } ? nil : !state.isOver
            }
            if let areOthersLeft { return areOthersLeft }
        }
        return nil
    }
}

extension FuseSession.Options {
    /// The configuration as the command line has it.
    init(_ configuration: FilesystemConfiguration) {
        let request = configuration.request
        let options = request.options
        self.init(
            source: redacted(request.source), mountpoint: request.mountpoint,
            ownership: Ownership(
                user: options.user ?? getuid(), group: options.group ?? getgid(), umask: options.umask),
            allowOther: options.sharesWithOthers, backingDirectory: configuration.directory)
        device = request.device
    }
}
