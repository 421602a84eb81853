import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit

/// A program that uses the mount, and holds what it gets against what the origin has.
struct Player: Sendable {
    private static let chunk = 128 << 10
    /// No fault of an origin comes out as another errno.
    private static let allowed: Set<VolumeError> = [
        .failed, .stale, .timedOut, .unreachable, .offline, .accessDenied, .notFound, .notDirectory, .isDirectory,
    ]

    private let households: [Household]
    private let kernel: Kernel
    private let findings: Findings
    private let seed: UInt64
    /// What was read once can be read again, whatever the weather.
    private let keepsAll: Bool

    init(_ households: [Household], _ kernel: Kernel, _ findings: Findings, keepsAll: Bool = false, seed: UInt64) {
        (self.households, self.kernel, self.findings, self.seed) = (households, kernel, findings, seed)
        self.keepsAll = keepsAll
    }

    /// - Parameter acts: at most.
    func start(_ name: String, acts: Int) -> Thread? {
        Thread(name) { [self] in
            var random = SeededGenerator(seed: seed)
            for _ in 0..<min(Int.random(in: 1...12, using: &random), acts) { act(&random) }
        }
    }

    private func act(_ random: inout SeededGenerator) {
        let household = households.randomElement(using: &random)!
        let index = household.origin.some(&random)
        var read = RandomRead(index, household.origin)
        switch Int.random(in: 0..<8, using: &random) {
        case 0, 1: readInOrder(&read, household, pause: .zero)
        case 2: readInOrder(&read, household, pause: .milliseconds(Int64.random(in: 1...200, using: &random)))
        case 3, 4, 5: readAtRandom(&read, household, &random)
        case 6:
            let pause = Int64.random(in: 0...500, using: &random)
            let folder = household.folder + household.origin.folders.randomElement(using: &random)!
            _ = list(folder, entries: Int.random(in: 1...8, using: &random), pause: .milliseconds(pause))
        default: withFile(index, household) { _ in nil }
        }
        if Bool.random(using: &random) { Simulation.sleep(.milliseconds(Int64.random(in: 1...2000, using: &random))) }
        if Int.random(in: 0..<8, using: &random) == 0 { kernel.forgetAll() }
    }

    /// One whole read. - Returns: nil where it gave the newest version, else what came instead.
    func difference(ofFile index: Int, pause: Duration = .zero) -> String? {
        let household = households[0]
        var read = RandomRead(index, household.origin)
        let failure = readInOrder(&read, household, pause: pause)
        let name = household.folder + household.origin.files[index].name
        if !read.isWhole { return "\(name): \(failure.map { "\($0)" } ?? "no end")" }
        return read.isNewest ? nil : "\(name): an older version"
    }

    @discardableResult
    private func readInOrder(_ read: inout RandomRead, _ household: Household, pause: Duration) -> VolumeError? {
        withFile(read.file, household) { file in
            var offset: Int64 = 0
            while true {
                switch self.read(file, offset, Self.chunk, household, &read) {
                case .failure(let error): return error
                case .success(0):
                    read.isWhole = true
                    return nil
                case .success(let count): offset += Int64(count)
                }
                if pause > .zero { Simulation.sleep(pause) }
            }
        }
    }

    private func readAtRandom(_ read: inout RandomRead, _ household: Household, _ random: inout SeededGenerator) {
        withFile(read.file, household) { file in
            guard let length = kernel.length(of: file) else { return nil }
            var known: [(offset: Int64, count: Int)] = []
            for _ in 0..<Int.random(in: 1...20, using: &random) {
                let offset = Int64.random(in: 0..<length, using: &random)
                let count = Int.random(in: 1...Self.chunk, using: &random)
                if case .failure(let error) = self.read(file, offset, count, household, &read) { return error }
                known.append((offset, count))
                if Int.random(in: 0..<4, using: &random) == 0 { readLent(file, offset, count, length, &read, &random) }
                if Int.random(in: 0..<4, using: &random) == 0 {
                    let again = known.randomElement(using: &random)!
                    kernel.forgetPages()
                    let result = self.read(file, again.offset, again.count, household, &read)
                    if case .failure(let error) = result {
                        if keepsAll, error != .stale {
                            findings.find("\(again.count) bytes at \(again.offset) were read, and now \(error)")
                        }
                        return error
                    }
                }
                if Int.random(in: 0..<8, using: &random) == 0 {
                    Simulation.sleep(.milliseconds(Int64.random(in: 1...3000, using: &random)))
                }
            }
            return nil
        }
    }

    private func readLent(
        _ file: Kernel.Handle, _ offset: Int64, _ count: Int, _ length: Int64, _ read: inout RandomRead,
        _ random: inout SeededGenerator
    ) {
        let end = min(offset + Int64(count), length, (offset / BlockSize.extent + 1) * BlockSize.extent)
        let pause = Int64.random(in: 0...500, using: &random)
        let bytes = kernel.readLent(file, ByteRange(offset, end)) { Simulation.sleep(.milliseconds(pause)) }
        guard let bytes else { return }
        Simulation.tell("lent \(bytes.count) bytes at \(offset)")
        if let sentence = read.take(bytes[...], at: offset) { findings.find("lent: \(sentence)") }
    }

    // MARK: Calls

    /// Walks a path as open(2) does. A success counts as a use of the node.
    private func lookup(_ path: String, isNew: Bool) -> Result<NodeID, VolumeError> {
        var node = rootNode
        for name in path.split(separator: "/") {
            let answer = note("lookup \(name)", kernel.lookup(String(name), in: node, isNew: isNew)) { "\($0)" }
            if node != rootNode { kernel.release(node) }
            switch answer {
            case .failure(let error): return .failure(error)
            case .success(let next): node = next
            }
        }
        return .success(node)
    }

    func list(
        _ folder: String, entries: Int = 100, pause: Duration = .zero
    ) -> Result<[String], VolumeError> {
        for attempt in 0..<2 {
            let node: NodeID
            switch lookup(folder, isNew: attempt > 0) {
            case .failure(.stale) where attempt == 0: continue
            case .failure(let error): return .failure(error)
            case .success(let found): node = found
            }
            defer { if node != rootNode { kernel.release(node) } }
            let answer = kernel.list(node, entries: entries) { if pause > .zero { Simulation.sleep(pause) } }
            let names = note("list \(folder)", answer) { "\($0.count) names" }
            if case .success(let names) = names, Set(names.map { Array($0.utf8) }).count != names.count {
                findings.find("\(folder) has a name twice: \(names)")
            }
            if case .failure(.stale) = names, attempt == 0 { continue }
            return names.map { $0.filter { $0 != "." && $0 != ".." } }
        }
        return .failure(.stale)
    }

    /// An ESTALE is followed by one more look at the names, as open(2) does it.
    @discardableResult
    private func withFile(
        _ index: Int, _ household: Household, _ body: (Kernel.Handle) -> VolumeError?
    ) -> VolumeError? {
        let path = household.folder + household.origin.files[index].name
        for attempt in 0..<2 {
            let node: NodeID
            switch lookup(path, isNew: attempt > 0) {
            case .failure(.stale) where attempt == 0: continue
            case .failure(let error): return error
            case .success(let found): node = found
            }
            defer { kernel.release(node) }
            switch note("open \(path)", kernel.open(node), { _ in "is" }) {
            case .failure(.stale) where attempt == 0: continue
            case .failure(let error): return error
            case .success(let file):
                defer { kernel.close(file) }
                return body(file)
            }
        }
        return .stale
    }

    /// - Returns: how much came.
    private func read(
        _ file: Kernel.Handle, _ offset: Int64, _ count: Int, _ household: Household, _ read: inout RandomRead
    ) -> Result<Int, VolumeError> {
        let name = household.folder + household.origin.files[read.file].name
        let result = note("read \(name) \(offset)+\(count)", kernel.read(file, offset, count)) { "\($0.count)" }
        if case .success(let bytes) = result, let sentence = read.take(bytes[...], at: offset) {
            findings.find("\(name): \(sentence)")
        }
        return result.map(\.count)
    }

    private func note<Value>(
        _ name: String, _ answer: Kernel.Answer<Value>, _ shown: (Value) -> String
    ) -> Result<Value, VolumeError> {
        Simulation.tell("\(name): \(answer.result.map(shown)) after \(answer.time / .milliseconds(1)) ms")
        if answer.time > World.longest { findings.find("\(name) took \(answer.time)") }
        if case .failure(let error) = answer.result, !Self.allowed.contains(error) {
            findings.find("\(name): \(error)")
        }
        return answer.result
    }
}
