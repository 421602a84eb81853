import ReelCore
import ReelThreads
import ReelVolume
import TestKit

/// A person at the command line: commands on the cache of a mount that is in use.
struct Commands: Sendable {
    private let mount: Mount
    private let seed: UInt64

    init(_ mount: Mount, seed: UInt64) { (self.mount, self.seed) = (mount, seed) }

    func start() -> Thread? {
        Thread("commands") { [self] in
            var random = SeededGenerator(seed: seed)
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                Simulation.sleep(.milliseconds(Int64.random(in: 1...1500, using: &random)))
                act(&random)
            }
            mount.volume.setOffline(false)
        }
    }

    private func act(_ random: inout SeededGenerator) {
        let household = mount.households.randomElement(using: &random)!
        let file = household.origin.files.randomElement(using: &random)!
        let path = Bool.random(using: &random) ? String(household.folder.dropLast()) : household.folder + file.name
        let (volume, watch) = (mount.volume, MaintenanceWatch())
        let commands = volume.maintenance
        let name = ["pin", "unpin", "evict", "prune", "refresh", "verify", "repair", "prefetch", "offline"]
            .randomElement(using: &random)!
        Simulation.tell("command \(name) \(path)")
        do {
            switch name {
            case "pin": _ = try commands.pin(path, true, watch)
            case "unpin": _ = try commands.pin(path, false, watch)
            case "evict": _ = try commands.evict(path, watch)
            case "prune": _ = try commands.prune(freeing: 2 << 20, watch)
            case "refresh": _ = try commands.refresh(path, isRecursive: Bool.random(using: &random), watch)
            case "verify": _ = try commands.verify(path, repairs: false, watch)
            case "repair": _ = try commands.verify(path, repairs: true, watch)
            case "prefetch":
                _ = try volume.prefetches.start(PrefetchRequest(paths: [path], isBackground: true), commands)
            default:
                volume.setOffline(true)
                Simulation.sleep(.milliseconds(Int64.random(in: 1...2000, using: &random)))
                volume.setOffline(false)
            }
            Simulation.tell("command \(name) is done")
        } catch { Simulation.tell("command \(name): \(error)") }
    }
}
