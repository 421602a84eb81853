import ArgumentParser
import ReelFuse

struct UmountCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "umount", abstract: "Unmount, and wait until the cache is written.",
        aliases: ["unmount"])

    @Argument(help: "Mount point.", completion: .mountpoints) var mountpoint: String
    @Flag(name: .shortAndLong, help: "Unmount even if files are open; they stay readable until closed.") var lazy =
        false

    /// Seconds for the daemon to write its cache.
    private static let patience: Int32 = 10

    func perform() throws -> Int32 {
        let mount = try Mountpoint.mount(on: mountpoint)
        // A daemon that does not answer is not waited for; the question to it would keep the mount busy.
        guard Mountpoint.health(of: mount.mountpoint) == .alive else {
            try Mountpoint.remove(mount)
            return 0
        }
        // Connected before the unmount, while the mount still shows where the daemon listens.
        let client = try? ControlClient(of: mount)
        try Mountpoint.unmount(mount.mountpoint, isLazy: lazy)
        client?.awaitUnmount(of: mount.device)
        guard !lazy, let client else { return 0 }
        let reason: String
        do throws(Failure) {
            if try client.waitForEnd(seconds: Self.patience) { return 0 }
            reason = "its daemon is still writing the cache"
        } catch {
            reason = "its daemon does not report when the cache is written: \(error.sentence)"
        }
        throw Failure.mount("\(shown(mountpoint)) is unmounted, but \(reason)")
    }
}
