import ArgumentParser
import Glibc
import ReelFuse

struct UmountCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "umount", abstract: "Ends a mount and waits until its cache is written.")

    @Argument(help: "The directory.", completion: .mountpoints) var mountpoint: String
    @Flag(name: .shortAndLong, help: "Unmount although files are open; they keep working until closed.") var lazy =
        false

    /// The daemon commits its cache; a disk that takes longer is not waited for.
    private static let patience: Int32 = 10

    func perform() throws -> Int32 {
        let path = try Mountpoint.resolve(mountpoint)
        guard let mount = Mount.on(path), mount.isOurs else {
            throw Failure.mount("\(shown(mountpoint)) is not a reelfs mount")
        }
        // Nothing comes of waiting for a daemon that does not answer; the question to it would keep the mount busy.
        if Mountpoint.daemon(of: path) != .alive {
            do {
                try Mountpoint.unmount(path, isLazy: true)
            } catch {
                // The watcher may have been quicker.
                if mount.isOnTop { throw error }
            }
            return 0
        }
        // Held from before the unmount, when the mount still tells where the daemon listens.
        let client = ControlClient.path(of: mount).flatMap { ControlClient(path: $0) }
        try Mountpoint.unmount(path, isLazy: lazy)
        if !lazy, let client, !client.waitForEnd(seconds: Self.patience) {
            throw Failure.mount("\(shown(mountpoint)) is unmounted, but its daemon is still writing the cache")
        }
        return 0
    }
}
