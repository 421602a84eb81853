import ArgumentParser
import Glibc
import ReelFuse

struct StatusCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show the cache, the origin and the open files of mounts.")

    @Argument(help: "Mount point (default: all mounts).", completion: .mountpoints) var mountpoint: String?
    @Flag(help: "Print JSON: an array with one object per mount.") var json = false
    @Flag(help: "Show the programs that read, and what was fetched for each.") var programs = false
    @Option(
        name: .customLong("cache-dir"),
        help: ArgumentHelp("Cache directory of servers to show (default: that of `reelfs serve`).", valueName: "dir"),
        completion: .directory)
    var cacheDirectory: String?

    func perform() throws -> Int32 {
        var all = try Self.mounts(mountpoint).compactMap { mount -> MountStatus? in
            let status = Self.status(of: mount)
            // Of all, those that have gone meanwhile are none.
            return status.error == nil || mountpoint != nil || mount.isOnTop ? status : nil
        }
        if mountpoint == nil {
            do { all += try Self.servers(cacheDirectory) } catch {
                // Where mounts have another directory, the usual one may be no good.
                if cacheDirectory != nil { throw error }
            }
        }
        if json {
            sayJSON(all)
        } else {
            // A token is for the eyes of its owner, and neither for a file nor for another program.
            let isSeen = isatty(STDOUT_FILENO) != 0
            let texts = all.map { status in
                programs ? programsText(status) : statusText(status, page: isSeen ? ListenToken.page(status) : nil)
            }
            say(all.isEmpty ? "Nothing is mounted." : texts.joined(separator: "\n"))
        }
        guard let silent = all.first(where: { $0.volume == nil && $0.mounter == nil }) else { return 0 }
        // JSON holds the sentence already, beside the other mounts.
        if !json { writeLine("reelfs: \(silent.mountpoint): \(silent.error ?? "no answer")") }
        return Failure.Status.mount.rawValue
    }

    /// All mounts, or the one that is asked for.
    static func mounts(_ mountpoint: String?) throws(Failure) -> [Mount] {
        let mounts = Mount.all().filter { $0.isOurs }
        guard let mountpoint else { return mounts }
        let path = try Mountpoint.resolve(mountpoint)
        let chosen = mounts.filter { $0.isOn(path) }
        guard !chosen.isEmpty else { throw Failure.mount("\(shown(mountpoint)) is not a reelfs mount") }
        return chosen
    }

    /// Servers without a mount: the socket of each stands in its source's directory of the cache.
    static func servers(_ root: String?) throws(Failure) -> [MountStatus] {
        try CacheKeeper.directories(root).compactMap { directory in
            let status = try? ControlClient(path: directory + "/control").status()
            // A path is a mount point: mountinfo lists that mount.
            return status.flatMap { $0.mountpoint.hasPrefix("/") ? nil : $0 }
        }
    }

    /// The status as the mount's daemon reports it, or an `error` that says why it is not known.
    static func status(of mount: Mount) -> MountStatus {
        var result = MountStatus(source: withoutQuery(mount.source), mountpoint: mount.mountpoint, pid: 0)
        do throws(Failure) {
            let client = try ControlClient(of: mount)
            guard let answer = client.ask(.status) else { throw .mount(ControlClient.silence) }
            if case .status(var status) = answer {
                // Of several mount points the one that was asked for.
                status.mountpoint = mount.mountpoint
                // Another user's daemon names no file that this one reads.
                if client.owner != geteuid() { status.tokenFile = nil }
                return status
            }
            result.error = answer.error ?? "the daemon's answer cannot be read"
        } catch {
            if let mounter = ControlClient.mounter(notAnswering: mount, error) {
                result.mounter = mounter
                result.error = "its daemon answers only the user who mounted it (uid \(mounter))"
                return result
            }
            let remedy =
                error.sentence == ControlClient.silence ? "; `reelfs mount` or `reelfs umount` repairs the mount" : ""
            result.error = error.sentence + remedy
        }
        return result
    }
}
