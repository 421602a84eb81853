import Glibc
import ReelCore
import ReelFilesystem
import ReelThreads
import ReelVolume
import TestKit

/// A program that uses the mount as the kernel would for it, and holds what it gets against what the origin has.
struct Player: Sendable {
    private static let chunk = 128 << 10
    /// No fault of an origin comes out as another errno.
    private static let allowed: Set<VolumeError> = [
        .failed, .stale, .timedOut, .unreachable, .offline, .accessDenied, .notFound, .notDirectory, .isDirectory,
    ]

    private let mount: Mount
    private let origin: RandomOrigin
    private let findings: Findings
    private let seed: UInt64

    init(_ mount: Mount, _ origin: RandomOrigin, _ findings: Findings, seed: UInt64) {
        (self.mount, self.origin, self.findings, self.seed) = (mount, origin, findings, seed)
    }

    private var volume: Volume { mount.volume }

    func start(_ name: String) -> Thread? {
        Thread(name) { [self] in
            var random = SeededGenerator(seed: seed)
            for _ in 0..<Int.random(in: 1...12, using: &random) { act(&random) }
        }
    }

    private func act(_ random: inout SeededGenerator) {
        let index = origin.files.indices.randomElement(using: &random)!
        var read = RandomRead(index, origin)
        switch Int.random(in: 0..<8, using: &random) {
        case 0, 1: readInOrder(&read, pause: .zero)
        case 2: readInOrder(&read, pause: .milliseconds(Int64.random(in: 1...200, using: &random)))
        case 3, 4, 5: readAtRandom(&read, &random)
        case 6: list(RandomOrigin.folders.randomElement(using: &random)!)
        default: withFile(index) { _ in nil }
        }
        if Bool.random(using: &random) { Simulation.sleep(.milliseconds(Int64.random(in: 1...2000, using: &random))) }
    }

    /// One whole read. - Returns: nil where it gave the newest version, else what came instead.
    func difference(ofFile index: Int) -> String? {
        var read = RandomRead(index, origin)
        let failure = readInOrder(&read, pause: .zero)
        if !read.isWhole { return "\(origin.files[index].name): \(failure.map { "\($0)" } ?? "no end")" }
        return read.isNewest ? nil : "\(origin.files[index].name): an older version"
    }

    @discardableResult
    private func readInOrder(_ read: inout RandomRead, pause: Duration) -> VolumeError? {
        withFile(read.file) { file in
            var offset: Int64 = 0
            while true {
                switch self.read(file, offset, Self.chunk, &read) {
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

    private func readAtRandom(_ read: inout RandomRead, _ random: inout SeededGenerator) {
        withFile(read.file) { file in
            guard let length = file.length, length > 0 else { return nil }
            for _ in 0..<Int.random(in: 1...20, using: &random) {
                let offset = Int64.random(in: 0..<length, using: &random)
                let count = Int.random(in: 1...Self.chunk, using: &random)
                if case .failure(let error) = self.read(file, offset, count, &read) { return error }
            }
            return nil
        }
    }

    // MARK: Calls

    private func lookup(_ path: String) -> Result<Entry, VolumeError> {
        var result: Result<Entry, VolumeError> = .failure(.notFound)
        var node = rootNode
        for name in path.split(separator: "/") {
            result = call("lookup \(name)") { volume.lookup(String(name), in: node, $0) }
            guard case .success(let entry) = result else { return result }
            node = entry.node
        }
        return result
    }

    private func list(_ folder: String) {
        var node = rootNode
        if !folder.isEmpty {
            guard case .success(let entry) = lookup(folder) else { return }
            node = entry.node
        }
        let listed: Result<any DirectoryHandle, VolumeError> = call("opendir \(folder)") {
            volume.openDirectory(node, $0)
        }
        guard case .success(let directory) = listed else { return }
        _ = directory
    }

    /// An ESTALE is followed by one more look at the name, as open(2) does it.
    @discardableResult
    private func withFile(_ index: Int, _ body: (any FileHandle) -> VolumeError?) -> VolumeError? {
        let path = origin.files[index].name
        for attempt in 0..<2 {
            let entry: Entry
            switch lookup(path) {
            case .success(let found): entry = found
            case .failure(let error): return error
            }
            let opened: Result<any FileHandle, VolumeError> = call("open \(path)") { volume.open(entry.node, $0) }
            switch opened {
            case .failure(.stale) where attempt == 0: continue
            case .failure(let error): return error
            case .success(let file):
                defer { volume.close(file) }
                return body(file)
            }
        }
        return .stale
    }

    /// - Returns: how much came.
    private func read(
        _ file: any FileHandle, _ offset: Int64, _ count: Int, _ read: inout RandomRead
    ) -> Result<Int, VolumeError> {
        let waiting = WaitingRead()
        let start = now()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 1)
        defer { buffer.deallocate() }
        switch volume.read(file, offset: offset, into: buffer, park: { waiting }) {
        case .read(let count): waiting.succeed(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        case .failed(let error): waiting.fail(error)
        case .parked: break
        }
        let result = waiting.wait()
        note("read \(origin.files[read.file].name) \(offset)+\(count)", result.map { "\($0.count)" }, since: start)
        if case .success(let bytes) = result, let sentence = read.take(bytes[...], at: offset) {
            findings.find("\(origin.files[read.file].name): \(sentence)")
        }
        return result.map(\.count)
    }

    private func call<Value>(_ name: String, _ start: (@escaping Completion<Value>) -> Void) -> Result<
        Value, VolumeError
    > {
        let answer = Monitor<Answer<Value>?>(nil)
        let moment = now()
        start { result in answer.withLock { $0 = Answer(result: result) } }
        let result = answer.wait(atMost: World.longest * 4) { $0?.result } ?? .failure(.interrupted)
        note(name, result.map { _ in "is" }, since: moment)
        return result
    }

    private func note(_ name: String, _ result: Result<String, VolumeError>, since start: Duration) {
        let time = now() - start
        Simulation.tell("\(name): \(result) after \(time / .milliseconds(1)) ms")
        if time > World.longest { findings.find("\(name) took \(time)") }
        if case .failure(let error) = result, !Self.allowed.contains(error) { findings.find("\(name): \(error)") }
    }
}

private struct Answer<Value>: @unchecked Sendable { let result: Result<Value, VolumeError> }

/// A read that waits for its answer.
private final class WaitingRead: ParkedRead {
    private let answer = Monitor<Result<[UInt8], VolumeError>?>(nil)
    let thread: Int32? = nil

    func succeed(_ bytes: UnsafeRawBufferPointer) {
        let copy = Array(bytes)
        answer.withLock { $0 = .success(copy) }
    }

    func fail(_ error: VolumeError) { answer.withLock { $0 = .failure(error) } }

    /// `.interrupted` stands for "never answered".
    func wait() -> Result<[UInt8], VolumeError> {
        answer.wait(atMost: World.longest * 4) { $0 } ?? .failure(.interrupted)
    }
}
