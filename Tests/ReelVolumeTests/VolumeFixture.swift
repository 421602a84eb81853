import Glibc
import Logging
import ReelCache
import ReelCore
import ReelFilesystem
import ReelHTTP
import ReelSources
import ReelThreads
import Synchronization
import TestKit
import Testing

@testable import ReelVolume

/// A volume without a kernel: a scripted origin, the real transport, a cache in a directory of its own.
final class VolumeFixture: KernelCaller, Sendable {
    let directory: String
    private let place: Mutex<String>
    private let cacheKey: CacheKey
    private let finder: (any PlaceFinder)?
    private let mirrors: [ResourceURL]
    private let tier: TierPlace?
    private let via: SharedCache?
    private let requestLog: (@Sendable (RequestRecord) -> Void)?
    private let news: TreeNews?
    private let cap: Int64
    private let timeout: Mutex<Duration>
    private let outageAfter: Duration?
    private let refresh: Duration
    private let prebuffer: Int64
    private let warm: Warming
    private let links: Bool
    private let growing: Bool
    private let ssh: SSHAccess
    private let kinds: [any Source.Type]
    /// Always the same key, nil for a plain cache.
    private let cipher = CacheKind.isEncrypted ? CacheCipher(master: SecretBytes(count: 32)) : nil
    private let running = Mutex<Running?>(nil)

    private struct Running: Sendable {
        let origin: CurlOrigin
        let store: Store
        let volume: Volume
    }

    /// - Parameter outageAfter: how long the transport takes silence for none, nil for as long as reads wait.
    init(
        _ source: String, cap: Int64 = 1 << 30, timeout: Duration = .seconds(10), outageAfter: Duration? = nil,
        refresh: Duration = .seconds(300),
        prebuffer: Int64 = 4 << 20, below parent: String = "/tmp", kinds: [any Source.Type] = SourceKinds.all,
        cacheKey: CacheKey = .url, finder: (any PlaceFinder)? = nil, mirrors: [ResourceURL] = [],
        via: SharedCache? = nil, tier: TierPlace? = nil, warm: Warming = .none, links: Bool = false,
        growing: Bool = false,
        ssh: SSHAccess = SSHAccess(), news: TreeNews? = nil,
        requestLog: (@Sendable (RequestRecord) -> Void)? = nil
    ) throws {
        var template = Array("\(parent)/reelfs-volume-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw VolumeError.failed }
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        place = Mutex(source)
        self.cacheKey = cacheKey
        self.finder = finder
        self.mirrors = mirrors
        self.tier = tier
        self.via = via
        self.requestLog = requestLog
        self.news = news
        self.cap = cap
        self.timeout = Mutex(timeout)
        self.outageAfter = outageAfter
        self.refresh = refresh
        self.prebuffer = prebuffer
        self.warm = warm
        self.links = links
        self.growing = growing
        self.ssh = ssh
        self.kinds = kinds
        do {
            try start()
        } catch {
            removeTree(directory)
            throw error
        }
    }

    convenience init(
        _ source: ResourceURL, cap: Int64 = 1 << 30, timeout: Duration = .seconds(10), refresh: Duration = .seconds(300)
    ) throws {
        try self.init(source.text, cap: cap, timeout: timeout, refresh: refresh)
    }

    var source: String { place.withLock { $0 } }
    var volume: Volume { running.withLock { $0!.volume } }
    var filesystem: any Filesystem { volume }
    /// What the transport has handed on of all bodies.
    var receivedBytes: Int64 { running.withLock { $0!.origin.counters.bodyBytes } }
    var store: Store { running.withLock { $0!.store } }

    func start() throws {
        var logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        logger.logLevel = .critical
        // One that starts has the lock of a store that was closed meanwhile.
        waitForStartingChildren()
        let store = try Store(
            directory: directory + "/cache",
            source: ResourceURL(source).map { cacheKey.directory(of: $0) } ?? source, limits: CacheLimits(cap: cap),
            owner: "/nowhere", cipher: cipher)
        var configuration = TransportConfiguration(version: "test")
        configuration.usesProxies = false
        configuration.ssh = ssh
        let origin = try CurlOrigin(configuration)
        do {
            let volume = try Volume.open(
                source, origin: outageAfter.map { EarlyWatch(origin, after: $0) } ?? origin, store: store,
                options: VolumeOptions(
                    timeout: timeout.withLock { $0 }, refresh: refresh, prebuffer: prebuffer, cacheKey: cacheKey,
                    mirrors: mirrors, via: via, alignment: via == nil ? BlockSize.block : 1 << 20, tier: tier,
                    warm: warm, links: links, growing: growing, requestLog: requestLog, news: news),
                logger: logger, kinds: kinds, finder: finder)
            running.withLock { $0 = Running(origin: origin, store: store, volume: volume) }
        } catch {
            origin.shutdown()
            store.close()
            throw error
        }
    }

    func stop() {
        guard let running = running.withLock({ $0.take() }) else { return }
        running.volume.shutdown()
        running.origin.shutdown()
        running.store.close()
    }

    /// Does what umount and mount do.
    func restart() throws {
        stop()
        try start()
    }

    /// Does what umount does, and then a mount of another place with the same cache directory.
    func restart(at source: String) throws {
        stop()
        place.withLock { $0 = source }
        try start()
    }

    /// Does what umount does, and then a mount whose reads wait that long: the first one, which asks the origin what it
    /// is, takes the time that a busy machine needs.
    func restart(timeout: Duration) throws {
        stop()
        self.timeout.withLock { $0 = timeout }
        try start()
    }

    func remove() {
        stop()
        removeTree(directory)
    }
}

/// A transport that takes an origin for silent after a time of its own.
private final class EarlyWatch: Transport {
    private let transport: CurlOrigin
    private let patience: Duration

    init(_ transport: CurlOrigin, after patience: Duration) { (self.transport, self.patience) = (transport, patience) }

    var line: Line { transport.line }
    var standings: [String: OriginStanding] { transport.standings }

    func start(_ handle: RequestHandle, _ request: OriginRequest, _ receiver: any OriginReceiver) {
        transport.start(handle, request, receiver)
    }

    func perform(_ job: @escaping @Sendable () -> Void) { transport.perform(job) }
    func trust(_ origins: Set<String>) { transport.trust(origins) }
    func noteInterest(in url: ResourceURL) { transport.noteInterest(in: url) }

    func watchOutages(deadline: Duration, _ report: @escaping @Sendable (String, Outage?) -> Void) {
        transport.watchOutages(deadline: patience, report)
    }
}

/// Calls a filesystem as the kernel would.
protocol KernelCaller: Sendable {
    var filesystem: any Filesystem { get }
}

extension KernelCaller {
    func lookup(_ path: String) -> Result<Entry, VolumeError> {
        var node = rootNode
        var result: Result<Entry, VolumeError> = .failure(.notFound)
        for name in path.split(separator: "/") {
            result = wait { filesystem.lookup(String(name), in: node, $0) }
            guard case .success(let entry) = result else { return result }
            node = entry.node
        }
        return result
    }

    /// Opens as open(2) does: an ESTALE is followed by one more look at the name.
    /// - Parameter thread: that opens it.
    func open(_ path: String, by thread: Int32? = nil) -> Result<any FileHandle, VolumeError> {
        for attempt in 0..<2 {
            let entry: Entry
            switch lookup(path) {
            case .success(let found): entry = found
            case .failure(let error): return .failure(error)
            }
            let opened = wait { filesystem.open(entry.node, by: thread, $0) }
            if case .failure(.stale) = opened, attempt == 0 { continue }
            return opened
        }
        return .failure(.stale)
    }

    func read(_ file: any FileHandle, _ offset: Int64, _ count: Int) -> Result<[UInt8], VolumeError> {
        park(file, offset, count).wait()
    }

    /// Begins a read, and leaves the waiting for its answer to the test.
    /// - Parameter thread: that reads, nil if it is not known.
    func park(_ file: any FileHandle, _ offset: Int64, _ count: Int, by thread: Int32? = nil) -> TestRead {
        let read = TestRead(by: thread)
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 1)
        defer { bytes.deallocate() }
        switch filesystem.read(file, offset: offset, into: bytes, park: { read }) {
        case .read(let count): read.succeed(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        case .failed(let error): read.fail(error)
        case .parked: break
        }
        return read
    }

    /// Opens a film and reads it in order, in pieces as the kernel asks for them.
    /// - Parameters:
    ///   - range: nil: all of it.
    ///   - pause: after each read.
    ///   - event: called before each read, with its offset.
    /// - Returns: the longest wait.
    @discardableResult
    func play(
        _ film: FileOrigin, _ range: ByteRange? = nil, pause: Duration = .zero, _ event: (Int64) -> Void = { _ in }
    ) throws -> Duration {
        let file = try open("film.mkv").get()
        defer { filesystem.close(file) }
        let range = range ?? ByteRange(0, film.version.length)
        var (offset, longest) = (range.lower, Duration.zero)
        while offset < range.upper {
            event(offset)
            let count = min(128 << 10, range.upper - offset)
            let start = now()
            try #require(read(file, offset, Int(count)).isRight(film, offset, count), "\(offset)")
            longest = max(longest, now() - start)
            if pause > .zero { rest(pause) }
            offset += count
        }
        return longest
    }

    private func rest(_ pause: Duration) {
        if Simulation.ofThisThread == nil { usleep(UInt32(pause / .microseconds(1))) } else { Simulation.sleep(pause) }
    }

    /// The whole file, in pieces as the kernel asks for them.
    func readAll(_ file: any FileHandle, piece: Int = 128 << 10) -> Result<[UInt8], VolumeError> {
        var bytes: [UInt8] = []
        while true {
            switch read(file, Int64(bytes.count), piece) {
            case .failure(let error): return .failure(error)
            case .success(let next):
                bytes += next
                if next.count < piece { return .success(bytes) }
            }
        }
    }

    func names(_ path: String = "") -> Result<[String], VolumeError> {
        var node = rootNode
        if !path.isEmpty {
            switch lookup(path) {
            case .success(let entry): node = entry.node
            case .failure(let error): return .failure(error)
            }
        }
        return wait { (done: @escaping Completion<any DirectoryHandle>) in filesystem.openDirectory(node, done) }
            .map { directory in
                var names: [String] = []
                directory.items(from: 2, withAttributes: false) {
                    names.append($0.name)
                    return true
                }
                return names
            }
    }

    /// Waits for a completion; a test that waits half a minute has found a hang.
    func wait<Value: Sendable>(
        _ start: (@escaping Completion<Value>) -> Void
    ) -> Result<Value, VolumeError> {
        let answer = Monitor<Result<Value, VolumeError>?>(nil)
        start { result in answer.withLock { $0 = result } }
        return answer.wait(atMost: .seconds(30)) { $0 } ?? .failure(.interrupted)
    }
}

final class TestRead: ParkedRead {
    private let answer = Monitor<[Result<[UInt8], VolumeError>]>([])
    let thread: Int32?

    init(by thread: Int32? = nil) { self.thread = thread }

    func succeed(_ bytes: UnsafeRawBufferPointer) {
        let copy = Array(bytes)
        answer.withLock { $0.append(.success(copy)) }
    }

    func fail(_ error: VolumeError) { answer.withLock { $0.append(.failure(error)) } }

    /// `.interrupted` stands for "never answered", which the volume itself never says.
    func wait(atMost limit: Duration = .seconds(30)) -> Result<[UInt8], VolumeError> {
        answer.wait(atMost: limit) { $0.first } ?? .failure(.interrupted)
    }

    var answerCount: Int { answer.withLock { $0.count } }
}
