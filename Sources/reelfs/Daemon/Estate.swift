import CLinux
import Glibc
import ReelCore
import ReelFuse

/// The mounts that the daemon before this one leaves: itself, or to the service manager that keeps them meanwhile.
struct Estate {
    private var mounts: [(left: LeftMount, device: Int32, watcher: Watcher?)] = []
    /// Keeps them, nil for the daemon itself.
    private var keeper: ServiceManager?

    /// Has the daemon leave its mounts, and returns when its cache is free. From then on this process serves them, or
    /// they end with it.
    /// - Throws: a sentence for the user: the daemon goes on.
    init(of configuration: FilesystemConfiguration) throws(Failure) {
        let daemon = try ControlClient(path: configuration.directory + "/control")
        var mounts = mounts
        let answer = daemon.leave { left in
            let descriptors = daemon.takeDescriptors(left.hasWatcher ? 2 : 1)
            guard let device = descriptors.first, MountDevice.isFuse(device) else {
                return descriptors.forEach { close($0) }
            }
            mounts.append((left, device, descriptors.dropFirst().first.map { Watcher(pipe: $0) }))
        }
        if let error = answer?.error { throw .mount(error) }
        guard !mounts.isEmpty else { throw .mount(ControlClient.silence) }
        self.mounts = mounts
        _ = try? daemon.waitForEnd(seconds: Self.patience)
    }

    /// What a service manager has kept. - Parameter descriptors: by the names that `leave` gave them.
    /// - Returns: nil where it is another mount; the descriptors are closed then.
    init?(_ descriptors: [String: Int32], of configuration: FilesystemConfiguration, _ manager: ServiceManager) {
        keeper = manager
        var rest = descriptors
        defer {
            for (name, descriptor) in rest {
                manager.drop(name)
                close(descriptor)
            }
        }
        guard let state = descriptors[Self.stateName], lseek(state, 0, SEEK_SET) == 0 else { return nil }
        let lines = readAll(state).split(separator: 0x0A).compactMap { decodeLine(LeftMount.self, $0) }
        guard lines.first.map({ ExactText($0.mountpoint) }) == ExactText(configuration.request.mountpoint),
            lines.allSatisfy({ $0.directory == configuration.directory })
        else { return nil }
        for (number, left) in lines.enumerated() {
            guard let device = rest.removeValue(forKey: Self.deviceName(number)), MountDevice.isFuse(device) else {
                continue
            }
            mounts.append((left, device, nil))
        }
        if mounts.isEmpty { return nil }
    }

    /// Seconds for the daemon to write its cache.
    private static let patience: Int32 = 30

    private static let stateName = "reelfs-state"
    private static func deviceName(_ number: Int) -> String { "reelfs-\(number)-device" }

    /// Serves the mounts. - Parameter watch: starts a watcher, as none outlives the service.
    /// - Throws: one of them cannot be served.
    func settle(_ table: MountTable, _ watch: (FuseSession) -> Watcher?) throws(Failure) {
        for (number, (left, device, watcher)) in mounts.enumerated() {
            do throws(MountError) {
                try table.take(left, device) { keeper == nil ? watcher : watch($0) }
            } catch {
                throw .mount(error.message)
            }
            // From here on the mount ends with this process.
            keeper?.drop(Self.deviceName(number))
        }
    }

    /// Has a service manager keep the mounts of a table until the next start.
    /// - Returns: false where it will not start this service again, has no room for them, or they are ending.
    static func leave(_ table: MountTable, to manager: ServiceManager) -> Bool {
        guard manager.room > table.mountpoints.count, manager.isRestarting else { return false }
        let state = reel_memory_file(stateName)
        defer { close(state) }
        guard state >= 0 else { return false }
        var number = 0
        return table.leave { left, descriptors in
            defer { number += 1 }
            writeAll(state, encodeLine(left))
            if let pipe = descriptors.dropFirst().first { Watcher(pipe: pipe).callOff() }
            return manager.keep(descriptors[0], as: deviceName(number)) && manager.keep(state, as: stateName)
        }
    }
}
