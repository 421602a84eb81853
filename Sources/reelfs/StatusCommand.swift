import ArgumentParser
import ReelFuse

struct StatusCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show the cache, the origin and the open files of mounts.")

    @Argument(help: "Mount point (default: all mounts).", completion: .mountpoints) var mountpoint: String?
    @Flag(help: "Print JSON: an array with one object per mount.") var json = false

    func perform() throws -> Int32 {
        var mounts = Mount.all().filter { $0.isOurs }
        if let mountpoint {
            let path = try Mountpoint.resolve(mountpoint)
            mounts = mounts.filter { $0.mountpoint == path }
            guard !mounts.isEmpty else { throw Failure.mount("\(shown(mountpoint)) is not a reelfs mount") }
        }
        let all = mounts.map { Self.status(of: $0) }
        if json {
            sayJSON(all)
        } else {
            say(all.isEmpty ? "Nothing is mounted." : all.map { statusText($0) }.joined(separator: "\n"))
        }
        guard let silent = all.first(where: { $0.volume == nil }) else { return 0 }
        // JSON holds the sentence already, beside the other mounts.
        if !json { writeLine("reelfs: \(silent.mountpoint): \(silent.error ?? "no answer")") }
        return Failure.Status.mount.rawValue
    }

    /// The status as the mount's daemon reports it, or an `error` that says why it is not known.
    static func status(of mount: Mount) -> MountStatus {
        var result = MountStatus(source: withoutQuery(mount.source), mountpoint: mount.mountpoint, pid: 0)
        do throws(Failure) {
            guard let answer = try ControlClient(of: mount).ask("status") else { throw .mount(ControlClient.silence) }
            if let status = answer.mount { return status }
            result.error = answer.error ?? "the daemon's answer cannot be read"
        } catch {
            let remedy =
                error.sentence == ControlClient.silence ? "; `reelfs mount` or `reelfs umount` repairs the mount" : ""
            result.error = error.sentence + remedy
        }
        return result
    }
}
