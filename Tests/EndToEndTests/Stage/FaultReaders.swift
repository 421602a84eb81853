import Glibc
import ReelThreads
import Synchronization
import TestKit
import Testing

/// How a mounted file is read while something goes wrong.
enum Shape: CaseIterable {
    /// From the first byte to the last, through the page cache.
    case inOrder
    /// At seeded places, past the page cache.
    case atRandom
    /// One of each.
    case twoAtOnce

    /// What a test with many cases tries each with.
    static var tried: [Shape] { LongTests.all(allCases, elseOnly: [.twoAtOnce]) }
}

/// Readers of one mounted file, on threads of their own, which compare every byte with the origin's by its offset and
/// measure every call.
///
///     let readers = FaultReaders(.twoAtOnce, mount.file("film.mkv"), film.version)
///     readers.start()
///     …                                        // something goes wrong
///     readers.finish().expectRight()
///
/// The oracle of the fault matrix: right bytes, or an error that the fault allows, within the deadline.
final class FaultReaders: Sendable {
    /// What the mounts of the matrix have as `--timeout`: long enough for a few retries, short enough to wait for.
    static let timeout = Duration.seconds(3)
    static let options = ["--timeout", "3"]
    /// Where the origin is well no read comes near its deadline, except on a busy machine.
    static let patient = ["--timeout", "120"]
    /// The one time that these tests compare: one deadline, and what a busy machine takes; two would be more.
    static let longestWait = timeout + .seconds(2.5)
    /// Never more than one request of the kernel: two in a row would have a deadline each.
    private static let chunk = 64 << 10
    /// A pass that meets more failures than this ends: each may cost a deadline.
    private static let mostFailures = 1
    private static let randomReads = 48

    private let path: String
    private let handle: Int32?
    private let version: FileOrigin.Version
    private let shape: Shape
    private let allowed: Set<Int32>
    private let seed: UInt64
    private let outcome: Mutex<ReadOutcome>
    private let isStopped = Atomic(false)
    private let threads = Mutex<[Thread]>([])

    /// - Parameters:
    ///   - allowing: errnos that the fault excuses; any other failure is a finding.
    ///   - handle: an open descriptor of the file, to read from instead of opening it.
    init(
        _ shape: Shape, _ path: String, _ version: FileOrigin.Version, allowing allowed: Set<Int32> = [],
        handle: Int32? = nil
    ) {
        (self.shape, self.path, self.version, self.allowed) = (shape, path, version, allowed)
        self.handle = handle
        seed = SeededGenerator().seed
        outcome = Mutex(ReadOutcome(seed: seed))
    }

    /// - Parameter passes: how often each reader goes through the file, nil to go on until `finish`.
    func start(passes: Int? = nil) {
        if shape != .atRandom { add(passes ?? .max) { [self] _ in passInOrder() } }
        if shape != .inOrder { add(passes ?? .max) { [self] random in passAtRandom(&random) } }
    }

    private func add(_ most: Int, _ pass: @escaping @Sendable (inout SeededGenerator) -> Void) {
        let thread = startThread { [self] in
            var random = SeededGenerator(seed: seed)
            var done = 0
            while done < most, !isStopped.load(ordering: .relaxed) {
                pass(&random)
                done += 1
                outcome.withLock { $0.passes += 1 }
            }
        }
        threads.withLock { $0.append(thread) }
    }

    /// Waits until `count` more calls have come back, however they ended. - Returns: whether they did.
    @discardableResult
    func read(_ count: Int, within limit: Duration = .seconds(20)) -> Bool {
        let before = outcome.withLock { $0.reads }
        return eventually(within: limit) { outcome.withLock { $0.reads } >= before + count }
    }

    /// Lets the readers end after the call that they are in.
    func stop() { isStopped.store(true, ordering: .relaxed) }

    /// Waits for all readers.
    func join() -> ReadOutcome {
        for thread in threads.withLock({ $0 }) { thread.join() }
        return outcome.withLock { $0 }
    }

    func finish() -> ReadOutcome {
        stop()
        return join()
    }

    /// Each reader once through the file.
    static func onePass(
        _ shape: Shape, _ path: String, _ version: FileOrigin.Version, allowing allowed: Set<Int32> = [],
        handle: Int32? = nil
    ) -> ReadOutcome {
        let readers = FaultReaders(shape, path, version, allowing: allowed, handle: handle)
        readers.start(passes: 1)
        return readers.join()
    }

    private func passInOrder() {
        guard let file = open(0) else { return }
        posix_fadvise(file.number, 0, 0, POSIX_FADV_DONTNEED)
        var failures = 0
        var offset: Int64 = 0
        while offset < version.length, goesOn(failures) {
            let count = Int(min(Int64(Self.chunk), version.length - offset))
            if !read(file.number, offset, count, isDirect: false) { failures += 1 }
            offset += Int64(count)
        }
    }

    private func passAtRandom(_ random: inout SeededGenerator) {
        guard let file = open(directFlag) else { return }
        var failures = 0
        for _ in 0..<Self.randomReads where goesOn(failures) {
            let offset = Int64.random(in: 0..<version.length, using: &random)
            let count = Int(min(Int64.random(in: 1...Int64(Self.chunk), using: &random), version.length - offset))
            if !read(file.number, offset, count, isDirect: true) { failures += 1 }
        }
    }

    private func goesOn(_ failures: Int) -> Bool {
        failures <= Self.mostFailures && !isStopped.load(ordering: .relaxed)
    }

    private func open(_ flags: Int32) -> OpenDescriptor? {
        let start = ContinuousClock.now
        do throws(SystemFailure) {
            if let handle { return try OpenDescriptor(copying: handle) }
            let file = try OpenDescriptor(path, flags: flags)
            note("open", nil, since: start)
            return file
        } catch {
            note("open", error.number, since: start)
            return nil
        }
    }

    /// One pread(2) after the other until all is there. - Returns: false for a failure.
    private func read(_ file: Int32, _ offset: Int64, _ count: Int, isDirect: Bool) -> Bool {
        var bytes = [UInt8](repeating: 0xEE, count: count)
        var done = 0
        while done < count {
            let start = ContinuousClock.now
            let got = bytes.withUnsafeMutableBytes {
                pread(file, $0.baseAddress! + done, count - done, off_t(offset) + off_t(done))
            }
            let number = got < 0 ? errno : 0
            note("pread at \(offset + Int64(done))", got < 0 ? number : nil, isDirect: isDirect, since: start)
            if got < 0 { return false }
            if got == 0 {
                outcome.withLock { $0.find("an end of file at \(offset + Int64(done)) of \(version.length)") }
                return false
            }
            done += got
        }
        let wrong = bytes.withUnsafeBytes { version.bytes.firstDifference(in: $0, from: offset) }
        outcome.withLock { outcome in
            outcome.bytes += Int64(count)
            if let wrong {
                let byte = bytes[Int(wrong - offset)]
                outcome.find("a wrong byte at \(wrong), \(byte) for \(version.bytes.byte(at: wrong))")
            }
        }
        return wrong == nil
    }

    /// - Parameter isDirect: past the page cache. Else the kernel asks for a page that failed once more; at once, it
    ///   gets the answer that was there, but later there is another deadline.
    private func note(
        _ call: String, _ number: Int32?, isDirect: Bool = true, since start: ContinuousClock.Instant
    ) {
        let longest = Self.longestWait + (isDirect ? .zero : Self.timeout)
        let time = ContinuousClock.now - start
        outcome.withLock { outcome in
            outcome.reads += 1
            outcome.longest = max(outcome.longest, time)
            if time > longest { outcome.find("\(call) took \(time)") }
            guard let number else { return }
            outcome.failures[number, default: 0] += 1
            if !allowed.contains(number) { outcome.find("\(call): \(String(cString: strerror(number)))") }
        }
    }
}

/// What readers met.
struct ReadOutcome: Sendable {
    var seed: UInt64
    var reads = 0
    var passes = 0
    var bytes: Int64 = 0
    /// By errno.
    var failures: [Int32: Int] = [:]
    var longest = Duration.zero
    /// What should not have been; the first few of them.
    private(set) var findings: [String] = []
    private(set) var count = 0

    init(seed: UInt64) { self.seed = seed }

    mutating func find(_ sentence: String) {
        count += 1
        if findings.count < 4 { findings.append(sentence) }
    }

    /// Fails the test where bytes were wrong, an error was not excused or a call took too long.
    func expectRight(_ what: String = "", sourceLocation: SourceLocation = #_sourceLocation) {
        let text = "\(what) \(count) findings in \(reads) calls, seed \(seed): \(findings.joined(separator: "; "))"
        #expect(count == 0, "\(text)", sourceLocation: sourceLocation)
    }
}

/// open(2)'s O_DIRECT, which Glibc's module hides: asm/fcntl.h has another number on ARM.
#if arch(arm64) || arch(arm)
    let directFlag: Int32 = 0o200000
#else
    let directFlag: Int32 = 0o40000
#endif
