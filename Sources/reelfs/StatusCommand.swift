import ArgumentParser
import Glibc
import ReelFuse

struct StatusCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show what mounts hold, fetch and serve.")

    @Argument(help: "Mount point (default: all).", completion: .mountpoints) var mountpoint: String?
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
            say(String(decoding: encodeLine(all).dropLast(), as: UTF8.self))
        } else if all.isEmpty {
            say("Nothing is mounted.")
        } else {
            say(all.map { statusText($0) }.joined(separator: "\n"))
        }
        guard let silent = all.first(where: { $0.volume == nil }) else { return 0 }
        // The sentence stands in the answer already, beside what is known of the other mounts.
        if !json { writeLine("reelfs: \(silent.mountpoint): \(silent.error ?? "no answer")") }
        return Failure.Status.mount.rawValue
    }

    static func status(of mount: Mount) -> MountStatus {
        var result = MountStatus(source: withoutQuery(mount.source), mountpoint: mount.mountpoint, pid: 0)
        guard let path = ControlClient.path(of: mount), let client = ControlClient(path: path),
            let answer = client.ask("status")
        else {
            result.error = "the daemon does not answer; `reelfs mount` or `reelfs umount` heals the mount"
            return result
        }
        guard let status = answer.mount else {
            result.error = answer.error ?? "the daemon's answer is not understood"
            return result
        }
        return status
    }
}
