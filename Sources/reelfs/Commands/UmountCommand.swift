import ArgumentParser
import Glibc
import ReelFuse

struct UmountCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "umount", abstract: "Unmount, and wait until the cache is written.",
        aliases: ["unmount"])

    @Argument(help: "Mount point.", completion: .mountpoints) var mountpoint: String?
    @Flag(name: .shortAndLong, help: "Unmount all that you have mounted; other users' mounts stay.") var all = false
    @Flag(name: .shortAndLong, help: "Unmount even if files are open; they stay readable until closed.") var lazy =
        false

    @Flag(name: .shortAndLong, help: .hidden) var force = false

    /// Seconds for the daemon to write its cache.
    private static let patience: Int32 = 10

    func validate() throws {
        if force {
            throw ValidationError(
                "a daemon that does not answer is unmounted without --force; where files are open, --lazy does it")
        }
        if all == (mountpoint != nil) { throw ValidationError("umount takes a mount point, or --all") }
    }

    func perform() throws -> Int32 {
        if let mountpoint {
            try end(Mountpoint.mount(on: mountpoint))
            return 0
        }
        var status: Int32 = 0
        // A mount may lie in one that was there before it.
        for mount in Mount.all().reversed() where mount.isOurs && mount.user == geteuid() {
            do throws(Failure) {
                try end(mount)
            } catch {
                status = error.printed()
            }
        }
        return status
    }

    private func end(_ mount: Mount) throws(Failure) {
        // A daemon that does not answer is not waited for; the question to it would keep the mount busy.
        guard Mountpoint.health(of: mount.mountpoint) == .alive else {
            return try Mountpoint.remove(mount)
        }
        // Connected before the unmount, while the mount still shows where the daemon listens.
        let client = try? ControlClient(of: mount)
        try Mountpoint.unmount(mount.mountpoint, isLazy: lazy)
        client?.awaitUnmount(of: mount.device)
        guard !lazy, let client else { return }
        let reason: String
        do throws(Failure) {
            if try client.waitForEnd(seconds: Self.patience) { return }
            reason = "its daemon is still writing the cache"
        } catch {
            reason = "its daemon does not report when the cache is written: \(error.sentence)"
        }
        throw .mount("\(shown(mount.mountpoint)) is unmounted, but \(reason)")
    }
}
