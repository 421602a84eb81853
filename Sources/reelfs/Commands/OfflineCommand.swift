import ArgumentParser
import ReelCore
import ReelFuse
import ReelVolume

struct OfflineCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "offline", abstract: "Show only what plays without the network, and ask for nothing.",
        discussion: """
            Shows the files of which all is cached, and the directories that have some. A read of anything else fails \
            at once. Outlives the mount, until it is switched off.
            """)

    @Argument(help: ArgumentHelp("on or off.", valueName: "on|off"), completion: .list(["on", "off"])) var state: String
    @Argument(help: "Mount point.", completion: .mountpoints) var mountpoint: String

    func perform() throws -> Int32 {
        guard ["on", "off"].contains(state) else {
            throw Failure.usage("write `on` or `off` and then the mount point: `reelfs offline on MOUNTPOINT`")
        }
        let mount = try Mountpoint.mount(on: mountpoint)
        _ = try ControlClient(of: mount).report(.offline(state == "on", device: mount.device))
        return 0
    }
}

struct LimitRateCommand: ParsableCommand, ReelfsCommand {
    static let configuration = CommandConfiguration(
        commandName: "limit-rate", abstract: "Change the rate limit of a mount until it is unmounted.",
        discussion: "Of a mount that is to keep it, change the option --limit-rate, too.")

    @Argument(help: "Bytes a second (K, M, G), `off`, or by time of day: \"08:00,2M 23:00,off\".") var rate: String
    @Argument(help: "Mount point.", completion: .mountpoints) var mountpoint: String

    func perform() throws -> Int32 {
        if RateSchedule(rate) == nil, RateSchedule(mountpoint) != nil {
            throw Failure.usage("write the rate first: `reelfs limit-rate \(shown(mountpoint)) \(shown(rate))`")
        }
        let schedule = try rateSchedule("limit-rate", rate)
        _ = try ControlClient(of: Mountpoint.mount(on: mountpoint)).report(.limitRate(schedule))
        return 0
    }
}
