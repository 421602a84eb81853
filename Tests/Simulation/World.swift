import Glibc
import ReelCore
import ReelFilesystem
import ReelThreads
import ReelVolume
import TestKit

/// One seed: origins of errors and lies, mounts of them one after the other, and programs that read.
struct World {
    static let timeout = Duration.seconds(3)
    /// A deadline, and the second above it that is promised.
    static let longest = timeout + .seconds(1)
    /// After which all is as it was, once nothing is wrong any more.
    private static let healing = Duration.seconds(20)
    /// The index grows while no data is written that would make room for it: its log by a thousand pages, which SQLite
    /// copies back then (wal_autocheckpoint).
    static let indexGrowth: Int64 = 5 << 20

    let seed: UInt64
    let directory: String
    let limits: Limits
    let findings = Findings()
    let bucket = ScriptedBucket(serverless: ())

    func run() throws {
        Disk.watch(directory)
        var random = SeededGenerator(seed: seed)
        let shape = Shape(&random, without: limits.without)
        Simulation.tell("\(shape)")
        let folders = shape.has(.catalogue) ? ["one/", "two/"] : [""]
        // A file without tag and date, or one with a tag. Not drawn, so that all other seeds stay what they were.
        let stream = [3: 0, 7: 1][Int(seed % 8)]
        if let stream { Simulation.tell("file \(stream) has no length") }
        let households = folders.enumerated().map { number, folder in
            Household(
                folder: folder, number: UInt64(number), seed: random.next(), limits.faults, stream: stream,
                form(of: number), Secrets(UInt64(number), findings, sharedGetsLogin: seed / 16 % 2 == 1))
        }
        var cache = directory + "/cache-0"
        for number in 1...min(Int.random(in: 1...3, using: &random), max(1, limits.mounts)) {
            var scene = try Scene(self, shape, households, cache, &random)
            for _ in 0..<min(Int.random(in: 1...2, using: &random), limits.storms) {
                try scene.storm(&random)
                calm(households)
                if shape.has(.disk) { expectNewestWithoutDisk(of: scene, &random) }
                try expectAll(of: scene, shape, &random)
            }
            if shape.has(.killed) || shape.has(.powerLoss) {
                let deaths = (0..<3).map { Death(cache, "\(directory)/cache-\(number)-\($0)", shape, &random) }
                let killer = Thread("killer") { for death in deaths { death.come() } }
                try scene.storm(&random)
                killer?.join()
                calm(households)
                for death in deaths.dropLast() { try expectWell(death, scene, shape, &random) }
                cache = deaths.last!.left
            }
            scene.stop()
            for file in Disk.files(with: Secrets.mark, in: cache) {
                findings.find("\(file) of the cache holds a secret")
            }
            if shape.has(.damage) { Disk.damage(cache, &random) }
        }
        try expectNewest(ofOthersWith: shape, households, &random)
    }

    /// What the address of a household shows: the first one's is something else than a tree in a quarter of the seeds.
    /// Not drawn, likewise.
    private func form(of household: Int) -> RandomOrigin.Form {
        guard household == 0 else { return .tree }
        switch seed % 16 {
        case 5, 6: return .feed
        case 10: return .film
        case 13: return .films
        default: return .tree
        }
    }

    private func calm(_ households: [Household]) {
        Simulation.tell("calm")
        for household in households { household.calm() }
        bucket.fault = nil
        Disk.becomesWell()
    }

    /// A disk that takes nothing is no reason for an error.
    private func expectNewestWithoutDisk(of scene: Scene, _ random: inout SeededGenerator) {
        Disk.hasTrouble(&random)
        for household in scene.mount.households { expectNewest(household, scene.kernel, asks: true, &random) }
        Disk.becomesWell()
    }

    // MARK: What is expected once the weather is calm

    private func expectAll(of scene: Scene, _ shape: Shape, _ random: inout SeededGenerator) throws {
        scene.kernel.forgetPages()
        // What the kernel believes it does not ask for.
        let asks = Bool.random(using: &random)
        for household in scene.mount.households {
            expectNewest(household, scene.kernel, asks: asks, &random)
            expectNames(household, scene.kernel, &random)
        }
        // While the disk takes nothing, what is read is kept for as long as it is open.
        if Self.lengths(of: scene.mount.households) < shape.cap / 4, !shape.has(.disk) {
            expectNothingTwice(scene, &random)
            if Int.random(in: 0..<3, using: &random) == 0 { try expectKept(scene, shape, &random) }
        }
        if ![.damage, .disk].contains(where: shape.has), scene.mount.damagedBlocks > 0 {
            findings.find("\(scene.mount.damagedBlocks) blocks are damaged, on a disk that is well")
        }
        scene.kernel.forgetAll()
        var leftovers: [String] = []
        within(Self.healing * 3) {
            leftovers = scene.mount.leftovers
            return leftovers.isEmpty
        }
        if !leftovers.isEmpty { for line in Simulation.threads + scene.mount.held { Simulation.tell(line) } }
        for left in leftovers { findings.find("nothing is open, and \(left)") }
        let used = Disk.used(scene.cache)
        Simulation.tell("\(scene.mount.cache)")
        if ![.commands, .disk].contains(where: shape.has), used > shape.cap + Self.indexGrowth {
            findings.find("\(used) bytes are on the disk, with a cap of \(shape.cap)")
        }
        let data = Disk.used(scene.cache + "/objects")
        // Each file takes whole pages of the disk.
        if ![.commands, .disk].contains(where: shape.has), data > shape.cap + 64 << 10 {
            findings.find("\(data) bytes of data are on the disk, with a cap of \(shape.cap)")
        }
    }

    /// Each file is read whole as what it is.
    /// - Parameters:
    ///   - asks: the kernel believes nothing.
    ///   - pause: between two reads.
    private func expectNewest(
        _ household: Household, _ kernel: Kernel, asks: Bool, pause: Duration = .zero,
        _ random: inout SeededGenerator
    ) {
        let limit = Self.healing + (asks ? .zero : KernelBelief.known)
        for index in household.origin.files.indices {
            var difference: String?
            within(limit) {
                let player = Player([household], kernel, findings, seed: random.next())
                if asks { kernel.forgetAll() }
                difference = player.difference(ofFile: index, pause: pause)
                return difference == nil
            }
            if let difference { findings.find("the origin is well, and after \(limit) \(difference)") }
        }
    }

    private func expectNames(_ household: Household, _ kernel: Kernel, _ random: inout SeededGenerator) {
        for folder in household.origin.folders {
            let files = household.origin.files.filter { $0.folder == folder }
            var wanted = files.map { String($0.name.dropFirst(folder.count)) }
            wanted += household.origin.folders.filter { folder.isEmpty && !$0.isEmpty }.map { String($0.dropLast()) }
            var names: Result<[String], VolumeError> = .success([])
            let isRight = within(Self.healing) {
                let player = Player([household], kernel, findings, seed: random.next())
                names = player.list(household.folder + folder)
                return (try? names.get()).map { Set($0) == Set(wanted) } ?? false
            }
            if !isRight {
                findings.find("the origin is well, and after \(Self.healing) \(folder) has \(names), not \(wanted)")
            }
        }
    }

    /// All files are cached, and are read once more.
    private func expectNothingTwice(_ scene: Scene, _ random: inout SeededGenerator) {
        Simulation.tell("\(scene.mount.cache)")
        // A version that an answer of the storm confirmed may still be believed.
        Simulation.sleep(.seconds(10))
        // The first time, as by now each name leads where the origin has it.
        readAll(scene, &random)
        // What is fetched ahead has come, and no file lingers any more after its last close.
        Simulation.sleep(.seconds(15))
        Simulation.tell("\(scene.mount.cache)")
        scene.kernel.forgetPages()
        let before = scene.mount.bytesFetched
        readAll(scene, &random)
        let fetched = scene.mount.bytesFetched - before
        Simulation.tell("read again: \(fetched) bytes fetched")
        if fetched > Self.asked(of: scene) { findings.find("all is cached, and \(fetched) bytes are fetched again") }
    }

    private func readAll(_ scene: Scene, _ random: inout SeededGenerator) {
        for household in scene.mount.households {
            for index in household.origin.files.indices {
                let player = Player([household], scene.kernel, findings, seed: random.next())
                _ = player.difference(ofFile: index)
            }
        }
    }

    /// Another machine with an empty cache and the same bucket. It fetches each byte once.
    private func expectNewest(
        ofOthersWith shape: Shape, _ households: [Household], _ random: inout SeededGenerator
    ) throws {
        Simulation.tell("another machine")
        calm(households)
        let scene = try Scene(self, shape, households, directory + "/cache-other", &random)
        // A program that opens the next item at once meets what was just asked for it.
        for household in households {
            expectNewest(household, scene.kernel, asks: true, pause: .milliseconds(50), &random)
        }
        let (lengths, fetched) = (Self.lengths(of: households), scene.mount.bytesFetched)
        // Head (two blocks) and end come twice where a program opens a file that is just being opened as the next item.
        // A body without a length comes as a whole then, and to the keeper as well.
        let streams = households.flatMap(\.origin.files).filter(\.isStream).map(\.now.length).reduce(0, +)
        let most = lengths + Self.asked(of: scene) + 3 * BlockSize.block + 2 * streams
        if lengths < shape.cap / 4, fetched > most {
            findings.find("\(lengths) bytes are read from an empty cache, and \(fetched) are fetched")
        }
        scene.stop()
    }

    /// What a death has left can be read, and is what was written.
    private func expectWell(
        _ death: Death, _ scene: Scene, _ shape: Shape, _ random: inout SeededGenerator
    ) throws {
        Simulation.tell("after a death: \(death.left.suffix(9))")
        try readAll(in: death.left, scene, shape, &random) { mount in
            if ![.damage, .disk].contains(where: shape.has), mount.damagedBlocks > 0 {
                findings.find("\(mount.damagedBlocks) blocks are damaged after a death")
            }
        }
    }

    /// The cache as it is now, after a death of the process or of the machine: what was read some time ago is there.
    private func expectKept(_ scene: Scene, _ shape: Shape, _ random: inout SeededGenerator) throws {
        let left = directory + "/cache-kept"
        let lost = Bool.random(using: &random) ? random.next() : nil
        Disk.copy(scene.cache, to: left, lost: lost)
        Simulation.tell(lost == nil ? "killed in calm" : "powerless in calm")
        try readAll(in: left, scene, shape, &random) { mount in
            let fetched = mount.bytesFetched
            if fetched > Self.asked(of: scene) {
                findings.find("all was cached, and \(fetched) bytes are fetched again")
            }
            if mount.damagedBlocks > 0 { findings.find("\(mount.damagedBlocks) blocks are damaged") }
        }
    }

    /// Mounts a cache that a death has left, reads all, and removes it.
    /// - Parameter judge: gets the mount before its end.
    private func readAll(
        in left: String, _ scene: Scene, _ shape: Shape, _ random: inout SeededGenerator, _ judge: (Mount) -> Void
    ) throws {
        let other = try Scene(self, shape, scene.mount.households, left, &random)
        readAll(other, &random)
        judge(other.mount)
        other.stop()
        removeTree(left)
    }

    /// Bytes of all files as they are now.
    static func lengths(of households: [Household]) -> Int64 {
        households.flatMap(\.origin.files).map(\.length).reduce(0, +)
    }

    /// What reading all costs at most where all is cached: listings, questions, and files of which no answer says that
    /// they are still the same.
    private static func asked(of scene: Scene) -> Int64 {
        let unnamed = scene.mount.households.flatMap(\.origin.files).filter(\.isUnnamed).map(\.length)
        return unnamed.reduce(Int64(scene.mount.households.count) * 100_000, +)
    }

    /// - Returns: whether it has become so in time.
    @discardableResult
    private func within(_ limit: Duration, _ isSo: () -> Bool) -> Bool {
        let end = now() + limit
        while true {
            if isSo() { return true }
            if now() >= end { return false }
            Simulation.sleep(.milliseconds(100))
        }
    }
}

/// The end of a process, or of its machine, at some moment.
private struct Death: Sendable {
    let left: String
    private let cache: String
    private let pause: Duration
    private let lost: UInt64?

    init(_ cache: String, _ left: String, _ shape: Shape, _ random: inout SeededGenerator) {
        (self.cache, self.left) = (cache, left)
        lost = shape.has(.powerLoss) ? random.next() : nil
        pause = .milliseconds(Int64.random(in: 1...1000, using: &random))
    }

    /// Copies what it leaves.
    func come() {
        Simulation.sleep(pause)
        Disk.copy(cache, to: left, lost: lost)
        Simulation.tell("killed, and what is left is \(left.suffix(9))")
    }
}

/// A mount and those who use it.
struct Scene {
    private let world: World
    private let shape: Shape
    private let households: [Household]
    let cache: String
    let kernel: Kernel
    private(set) var mount: Mount

    init(
        _ world: World, _ shape: Shape, _ households: [Household], _ cache: String, _ random: inout SeededGenerator
    ) throws {
        (self.world, self.shape, self.households, self.cache) = (world, shape, households, cache)
        mount = try Mount(world, shape, cache, households, seed: random.next())
        kernel = Kernel(world.findings)
        kernel.serve(mount.volume, nil)
    }

    /// Programs read while everything has trouble.
    mutating func storm(_ random: inout SeededGenerator) throws {
        for household in households { Simulation.tell("weather \(household.storm())") }
        let count = Int.random(in: 1...4, using: &random)
        let players = (0..<min(count, world.limits.players)).compactMap { number in
            Player(households, kernel, world.findings, keepsAll: keepsAll, seed: random.next())
                .start("player-\(number)", acts: world.limits.acts)
        }
        // Another process ends the commands of the one before it.
        let hasCommands = shape.has(.commands) && !shape.has(.restarts)
        let command = hasCommands ? Commands(mount, seed: random.next()).start() : nil
        for _ in 0..<min(Int.random(in: 0...3, using: &random), world.limits.changes) {
            Simulation.sleep(.milliseconds(Int64.random(in: 1...3000, using: &random)))
            try change(&random)
        }
        if households.count > 1 { mount.show(households, world, shape, seed: random.next()) }
        for player in players { player.join() }
        command?.join()
    }

    /// Nothing is evicted, by want of room or by command, and nothing is lost.
    private var keepsAll: Bool {
        World.lengths(of: households) < shape.cap / 4 && ![.commands, .disk, .catalogue].contains { shape.has($0) }
    }

    private mutating func change(_ random: inout SeededGenerator) throws {
        for household in households {
            household.origin.replaceSome()
            if Bool.random(using: &random) { household.expireLinks() }
            if Int.random(in: 0..<4, using: &random) == 0 {
                let pause = Int64.random(in: 1...10, using: &random)
                Simulation.tell("silence for \(pause) s")
                household.beSilent(for: .seconds(pause))
            }
        }
        if shape.has(.tier) { world.bucket.fault = Self.faults.randomElement(using: &random)! }
        if shape.has(.disk) { Disk.hasTrouble(&random) }
        if households.count > 1 {
            let shown = households.filter { _ in Bool.random(using: &random) }
            Simulation.tell("the catalogue has \(shown.map(\.folder))")
            mount.show(shown, world, shape, seed: random.next())
        }
        if shape.has(.restarts) { try restart(&random) }
        if Bool.random(using: &random) { kernel.forgetPages() }
    }

    private static let faults: [ScriptedBucket.Fault?] = [
        nil, nil, nil, .status(403), .status(503), .silent, .stallAfter(65_536), .resetAfter(200_001), .wrongBytes,
        .swapped, .truncated, .errorOf(2), .dropsWrites, .knowsNoCondition, .ignoresConditions,
    ]

    /// Another process takes over.
    private mutating func restart(_ random: inout SeededGenerator) throws {
        Simulation.tell("restart")
        Disk.becomesWell()
        let inheritance = kernel.leave()
        mount.stop()
        mount = try Mount(world, shape, cache, households, seed: random.next())
        kernel.serve(mount.volume, inheritance)
    }

    func stop() { mount.stop() }
}
