import Logging
import ReelCache
import ReelCore
import ReelFilesystem
import ReelThreads

/// One source of a catalogue, ready to be opened.
package struct CatalogueEntry: Sendable {
    /// The folder of the tree at which it is shown: one name or several.
    package var path: [String]
    /// A URL with its user and password, or the path of a list.
    package var address: String
    /// Names its keys in the cache: 32 hexadecimal digits.
    package var scope: String
    /// Equal where a new reading of the catalogue says the same of the source: secrets are compared, too.
    package var fingerprint: String
    package var options: VolumeOptions
    /// Starts a transport of the source's own; throws a sentence.
    package var connect: @Sendable (Line) throws(CatalogueFailure) -> CatalogueConnection

    package init(
        path: [String], address: String, scope: String, fingerprint: String, options: VolumeOptions,
        connect: @escaping @Sendable (Line) throws(CatalogueFailure) -> CatalogueConnection
    ) {
        self.path = path
        self.address = address
        self.scope = scope
        self.fingerprint = fingerprint
        self.options = options
        self.connect = connect
    }

    /// The path in the mount.
    var name: String { path.joined(separator: "/") }
}

/// How one source of a catalogue is asked.
package struct CatalogueConnection: Sendable {
    let origin: any Transport
    let finder: (any PlaceFinder)?
    let end: @Sendable () -> Void

    /// - Parameters:
    ///   - finder: the user's resolver for this source, nil if files are asked for at their URLs.
    ///   - end: ends the transport.
    package init(_ origin: any Transport, finder: (any PlaceFinder)? = nil, end: @escaping @Sendable () -> Void) {
        self.origin = origin
        self.finder = finder
        self.end = end
    }
}

/// Why a source of a catalogue cannot be used; one sentence for the user.
package struct CatalogueFailure: Error, Hashable, Sendable {
    package var sentence: String
    package init(_ sentence: String) { self.sentence = sentence }
}

/// One source of a mounted catalogue: opened in the background, tried again at a look where that failed.
///
/// opening → open, or failed → opening …; ended from any of them.
final class CatalogueSource: Sendable {
    /// A look this long after a failure starts the next attempt.
    private static let pause = Duration.seconds(5)
    /// A look waits this long for another attempt; for the first one as long as any call.
    private static let patience = Duration.seconds(2)

    struct Running: Sendable {
        let volume: Volume
        let end: @Sendable () -> Void
    }

    fileprivate enum Phase: Sendable {
        case opening
        case open(Running)
        case failed(VolumeError, at: Duration)
        case ended
    }

    struct Trouble: Sendable {
        let sentence: String
        let error: VolumeError
        /// Seconds since 1970.
        let since: Int64
        /// nil where it is away, or no origin was asked.
        let fault: (word: Verdict.Word, culprit: String)?
    }

    fileprivate struct State: Sendable {
        var phase = Phase.opening
        /// Ends the transport of the attempt under way.
        var attempt: (@Sendable () -> Void)?
        var waiting: [Int: (completion: Completion<Volume>, opens: Bool)] = [:]
        var next = 0
        /// Why the last attempt failed, and when (seconds since 1970), nil if it did not.
        var trouble: Trouble?
        /// The volume, also after its end: its counters stay in those of the mount.
        var counted: Volume?
        /// Handles of programs.
        var handles = 0
        var isAttempting = false
    }

    let number: UInt64
    let entry: CatalogueEntry
    /// The inode number of its folder.
    let inode: UInt64
    private let shared: CatalogueServices
    private let state = Monitor(State())

    init(_ number: UInt64, _ entry: CatalogueEntry, inode: UInt64, _ shared: CatalogueServices) {
        self.number = number
        self.entry = entry
        self.inode = inode
        self.shared = shared
    }

    // MARK: Using

    /// The volume, where it is open.
    var volume: Volume? {
        state.withLock(notifying: false) { if case .open(let running) = $0.phase { running.volume } else { nil } }
    }

    /// What it has counted.
    var counters: VolumeStatus? { state.withLock(notifying: false) { $0.counted }?.status() }

    /// Why the source is not open, nil if it is, or was not tried yet.
    var trouble: Trouble? { state.withLock(notifying: false) { $0.trouble } }

    /// Gives the volume: at once where it is open, else after the attempt to open it, or with the error of the last.
    /// - Parameter opens: a success counts as a handle until `closed`, so that the source does not end before the open.
    func use(opens: Bool = false, _ completion: @escaping Completion<Volume>) {
        enum Answer {
            case now(Result<Volume, VolumeError>)
            case wait(Int, Duration, starts: Bool)
        }
        let answer = state.withLock(notifying: false) { state -> Answer in
            var starts = false
            switch state.phase {
            case .open(let running):
                if opens { state.handles += 1 }
                return .now(.success(running.volume))
            case .ended: return .now(.failure(.stale))
            case .failed(let error, let moment):
                guard now() - moment >= Self.pause else { return .now(.failure(error)) }
                state.phase = .opening
                starts = true
            case .opening: break
            }
            state.next += 1
            state.waiting[state.next] = (completion, opens)
            return .wait(state.next, state.trouble == nil ? entry.options.timeout : Self.patience, starts: starts)
        }
        switch answer {
        case .now(let result): completion(result)
        case .wait(let number, let limit, let starts):
            // At the end of the mount `end` completes it.
            shared.ticker.after(limit, { [self] in giveUp(number) }, atEnd: {})
            if starts { start() }
        }
    }

    private func giveUp(_ number: Int) {
        let (waited, error) = state.withLock(notifying: false) { state in
            (state.waiting.removeValue(forKey: number), state.trouble?.error ?? .timedOut)
        }
        waited?.completion(.failure(error))
    }

    /// A handle that `use` has counted is closed, or was not opened.
    func closed() { state.withLock { $0.handles -= 1 } }

    // MARK: Opening

    /// Opens it in the background.
    func start() {
        state.withLock(notifying: false) { $0.isAttempting = true }
        let thread = Thread("source-open") { [self] in
            attempt()
            state.withLock { $0.isAttempting = false }
        }
        guard let thread else {
            state.withLock { $0.isAttempting = false }
            return settle(.failed, "the system has no thread to spare")
        }
        thread.detach()
    }

    private func attempt() {
        let connection: CatalogueConnection
        do throws(CatalogueFailure) {
            connection = try entry.connect(shared.line)
        } catch {
            return settle(.failed, error.sentence)
        }
        let end: @Sendable () -> Void = {
            connection.finder?.stop()
            connection.end()
        }
        let isWanted = state.withLock(notifying: false) { state in
            guard case .opening = state.phase else { return false }
            state.attempt = end
            return true
        }
        guard isWanted else { return end() }
        do throws(SourceError) {
            let volume = try Volume.open(
                entry.address, origin: GatedOrigin(connection.origin, shared.gate),
                store: shared.store.scoped(entry.scope),
                options: entry.options, logger: shared.logger, finder: connection.finder, inode: inode, asks: false)
            settle(Running(volume: volume, end: end))
        } catch {
            end()
            let failure: OriginFailure? = if case .origin(_, let failure, _) = error { failure } else { nil }
            settle(VolumeError(error), "\(error)", failure?.fault)
        }
    }

    private func settle(_ running: Running) {
        shared.connectKernel(running.volume, number)
        let waiting: [Completion<Volume>]? = state.withLock { state in
            guard case .opening = state.phase else { return nil }
            (state.phase, state.counted) = (.open(running), running.volume)
            state.attempt = nil
            state.trouble = nil
            state.handles += state.waiting.values.count { $0.opens }
            defer { state.waiting = [:] }
            return state.waiting.values.map(\.completion)
        }
        guard let waiting else {
            running.volume.shutdown()
            return running.end()
        }
        // The kernel's cache may have come meanwhile.
        shared.connectKernel(running.volume, number)
        shared.store.scoped(entry.scope).set("path", entry.name)
        shared.appeared(self)
        for completion in waiting { completion(.success(running.volume)) }
    }

    private func settle(
        _ error: VolumeError, _ sentence: String, _ fault: (word: Verdict.Word, culprit: String)? = nil
    ) {
        let (waiting, isNew) = state.withLock { state -> ([Completion<Volume>], Bool) in
            guard case .opening = state.phase else { return ([], false) }
            let isNew = state.trouble?.sentence != sentence
            state.phase = .failed(error, at: now())
            state.attempt = nil
            state.trouble = Trouble(
                sentence: sentence, error: error, since: state.trouble?.since ?? wallClock(), fault: fault)
            defer { state.waiting = [:] }
            return (state.waiting.values.map(\.completion), isNew)
        }
        if isNew { shared.logger.warning("\(entry.name): \(sentence)") }
        for completion in waiting { completion(.failure(error)) }
    }

    // MARK: Ending

    /// Ends requests, threads and waits; returns when nothing of it uses the cache.
    func end() { finish(state.withLock { $0.end() }) }

    /// The same, once no program has a file open; not where the mount ends before.
    func endOnceUnused(_ isOver: @escaping @Sendable () -> Bool) {
        while !isOver() {
            // No open comes between this look and the end.
            let last = state.wait(atMost: .milliseconds(200)) { $0.handles == 0 ? $0.end() : nil }
            if let last { return finish(last) }
        }
    }

    private func finish(_ last: State) {
        last.attempt?()
        if case .open(let running) = last.phase {
            running.volume.shutdown()
            running.end()
        }
        for waited in last.waiting.values { waited.completion(.failure(.stale)) }
        state.wait { $0.isAttempting ? nil : () }
    }
}

extension CatalogueSource.State {
    /// The source cannot be used any more. - Returns: the state until now.
    fileprivate mutating func end() -> Self {
        defer { (phase, attempt, waiting) = (.ended, nil, [:]) }
        return self
    }
}

/// What the sources of a mounted catalogue share.
final class CatalogueServices: Sendable {
    let store: Store
    let logger: Logger
    let ticker = Ticker()
    let gate = WriterGate()
    let line: Line

    private struct State {
        var kernel: (any KernelCache)?
        var listener: (@Sendable (CatalogueSource) -> Void)?
    }

    private let state = Lock(State())

    init(_ store: Store, _ line: Line, _ logger: Logger) {
        self.line = line
        self.store = store
        self.logger = logger
    }

    var kernelCache: (any KernelCache)? { state.withLock { $0.kernel } }

    func connect(_ cache: any KernelCache) { state.withLock { $0.kernel = cache } }

    func connectKernel(_ volume: Volume, _ number: UInt64) {
        if let kernelCache { volume.connect(NumberedKernelCache(kernelCache, number)) }
    }

    /// Calls `body` with each source that opens from now on.
    func listen(_ body: @escaping @Sendable (CatalogueSource) -> Void) { state.withLock { $0.listener = body } }

    fileprivate func appeared(_ source: CatalogueSource) { state.withLock { $0.listener }?(source) }
}

extension VolumeError {
    /// For a folder whose source cannot be opened.
    fileprivate init(_ error: SourceError) {
        switch error {
        case .notFound, .notUsable: self = .failed
        // A folder of the catalogue is there; ESTALE would have the kernel look for another.
        case .origin(_, let failure, _): self = VolumeError(failure) == .stale ? .failed : VolumeError(failure)
        }
    }
}
