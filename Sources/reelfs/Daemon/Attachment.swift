import Glibc
import ReelCore
import ReelFuse
import ReelSources

/// A mount that this process makes, and that the daemon of its source and cache serves beside its own.
struct Attachment {
    private let daemon: ControlClient
    private let configuration: FilesystemConfiguration

    /// nil where no daemon listens that takes mounts, or it is ending.
    /// - Throws: a sentence for the user: the options contradict the daemon's.
    init?(_ configuration: FilesystemConfiguration) throws(Failure) {
        guard let daemon = try? ControlClient(path: configuration.directory + "/control") else { return nil }
        self.daemon = daemon
        self.configuration = configuration
        guard let answer = daemon.ask(.attach(Handover(configuration, device: nil))) else { return nil }
        if case .refusal(let refusal) = answer { throw .mount(refusal) }
        if answer.error != nil { return nil }
    }

    /// Makes the mount and hands it over. In the foreground it returns when the mount has ended.
    /// - Returns: false where the daemon has begun to end meanwhile, and there is no mount.
    func run(_ ready: ReadyPipe?, _ manager: ServiceManager, _ signals: EndSignals) throws(Failure) -> Bool {
        let mountpoint = configuration.request.mountpoint
        signals.keep()
        let (isMade, device) = try make()
        if !isMade { return false }
        let socket = configuration.directory + "/control"
        let end = { @Sendable in
            try? Mountpoint.unmount(mountpoint, isLazy: true)
            // Readers get an error.
            if let device { try? ControlClient(path: socket).detach(device) }
        }
        signals.serve(reload: nil, end)
        if let ready {
            ready.say("ready")
            return true
        }
        manager.tell(.ready("\(withoutQuery(configuration.request.source)) on \(mountpoint)"))
        do throws(Failure) {
            try awaitEnd(device)
        } catch {
            end()
            throw error
        }
        manager.tell(.stopping("unmounted"))
        // A daemon that ends in order removes its socket before it closes connections; at the socket of a dying one a
        // connection may still be made, and gets no answer.
        if access(socket, F_OK) == 0, (try? ControlClient(path: socket))?.ask(.status) == nil {
            throw .mount("the daemon of \(shown(mountpoint)) died, so its mount was removed")
        }
        return true
    }

    /// Returns when the mount has ended. A restart leaves it to another daemon; a call to the mount waits for that one.
    private func awaitEnd(_ device: String?) throws(Failure) {
        if let device { daemon.awaitUnmount(of: device) }
        _ = try daemon.waitForEnd(seconds: nil)
        let mountpoint = configuration.request.mountpoint
        var facts = statvfs()
        var isThere = true
        while let device, isThere {
            isThere = Mount.on(mountpoint)?.device == device && statvfs(mountpoint, &facts) == 0
            // It may serve the mount before it listens, and after it has left the directory.
            if let next = try? ControlClient(path: configuration.directory + "/control") {
                next.awaitUnmount(of: device)
                _ = try? next.waitForEnd(seconds: nil)
            }
            if isThere { usleep(100_000) }
        }
    }

    /// - Returns: whether the daemon has taken it, and the number of the mount.
    private func make() throws(Failure) -> (isMade: Bool, device: String?) {
        let mountpoint = configuration.request.mountpoint
        let given = configuration.request.device
        let device = try Daemon.mounting(configuration) { options throws(MountError) in
            if let given { return given }
            return try MountDevice.make(options)
        }
        let watcher = given == nil ? device.number.flatMap { Watcher(mountpoint: mountpoint, device: $0) } : nil
        let handover = Handover(configuration, device: device.number)
        let answer = daemon.ask(.attach(handover), [device.descriptor] + (watcher.map { [$0.pipe] } ?? []))
        // The daemon's copies alone keep the mount alive.
        close(device.descriptor)
        defer { watcher?.close() }
        if case .done? = answer { return (true, device.number) }
        if given == nil {
            try? Mountpoint.unmount(mountpoint, isLazy: true)
            if answer?.error == MountTable.ending { return (false, nil) }
        }
        if case .refusal(let refusal)? = answer { throw .mount(refusal) }
        throw .mount(answer?.error ?? ControlClient.silence)
    }
}

extension Handover {
    /// - Parameter request: nil: the configuration's.
    init(_ configuration: FilesystemConfiguration, device: String?, _ request: MountRequest? = nil) {
        let request = request ?? configuration.request
        let ownership = FuseSession.Options(configuration).ownership
        self.init(
            source: configuration.source, mountpoint: request.mountpoint, device: device, user: ownership.user,
            group: ownership.group, umask: ownership.umask,
            options: request.given.map { [$0.name] + ($0.value.map { [$0] } ?? []) })
    }

    /// Why a daemon of these settings does not serve the mount, nil if it does. Options that are not given agree.
    func refusal(by configuration: FilesystemConfiguration, _ mountpoints: [String]) -> String? {
        let place = mountpoints.first ?? configuration.request.mountpoint
        let start = "this source is already mounted at \(printable(place)) with the same cache directory, and "
        guard program == Program.version else {
            return start + "by another version of reelfs (\(Program.version)): unmount it first"
        }
        guard isSameSource(as: configuration.source) else {
            return start + "with another user, password or query: unmount it first, or choose another --cache-dir"
        }
        let names = contradictions(given, configuration.request.given)
        guard !names.isEmpty else { return nil }
        return start + "with other values of \(names.joined(separator: ", ")): leave these out, or choose another "
            + "--cache-dir"
    }

    private var given: [GivenOption] {
        options.filter { !$0.isEmpty }.map { GivenOption($0[0], $0.dropFirst().first) }
    }

    /// Whether the mount shows only what is cached.
    var isOnlyCached: Bool { MountOptions(given, named: "only-cached").onlyCached }

    private func isSameSource(as other: String) -> Bool {
        if source == other { return true }
        guard let one = SourceKinds.url(of: source), let two = SourceKinds.url(of: other) else { return false }
        return one.text == two.text && one.credentials == two.credentials
    }
}

/// The names of options that are given and have another value in a running daemon.
func contradictions(_ given: [GivenOption], _ daemons: [GivenOption]) -> [String] {
    // Each mount has its own log until it is made, and its own view; the cache directory was found by the others.
    let free = ["cache-dir", "config", "encrypt", "log-level", "only-cached"]
    var names: [String] = []
    for name in given.map({ hyphenated($0.name) }) where !names.contains(name) && !free.contains(name) {
        guard let row = OptionTable[name], row.scope.contains(.serve) else { continue }
        if MountOptions(given, named: name) != MountOptions(daemons, named: name) { names.append(name) }
    }
    return names
}

extension MountOptions {
    /// One option alone.
    fileprivate init(_ given: [GivenOption], named name: String) {
        self.init()
        for option in given where hyphenated(option.name) == name { try? apply(option) }
    }
}
