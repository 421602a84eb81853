import ReelCore
import ReelFilesystem
import ReelThreads

/// One file that a command fetches: opened as a program would open it, and asked for until all of it is in the cache.
///
/// opening → open → done; where an open or a request fails: waiting for the next attempt → opening or open; failed.
final class FileFetch: Sendable {
    enum Outcome: Hashable, Sendable {
        case done
        /// Why not, as a part of a sentence.
        case failed(String)
    }

    fileprivate enum Phase: Sendable {
        case idle
        case opening
        case open(OpenFile)
        case over
    }

    fileprivate struct State: Sendable {
        var phase = Phase.idle
        /// The failure of the last attempt, nil if it goes well.
        var failure: (reason: String, isFinal: Bool)?
        /// Failures in a row without a byte.
        var attempts = 0
        /// How often of these the origin was not away.
        var refusals = 0
        var nextAttempt = Duration.zero
        /// Bytes that were in the cache at the last look, and when they last became more.
        var cached: Int64 = 0
        var lastNews = now()
        /// Bytes that came.
        var came: Int64 = 0
        /// It was opened again, as the origin had another version.
        var isReopened = false
    }

    fileprivate static let longestPause = Duration.seconds(30)
    /// Failures in a row of an origin that answers.
    fileprivate static let mostAttempts = 6

    let path: String
    private let name: String
    private let url: ResourceURL
    private let folder: WalkedFolder
    private let commands: Maintenance
    private let limit: RateLimit?
    private let news: @Sendable () -> Void
    private let state: Lock<State>

    /// - Parameters:
    ///   - cached: bytes of it in the cache.
    ///   - limit: of its requests, beside that of the mount.
    ///   - news: called on any thread when `step` has something to do.
    init(
        _ found: FileWalk.Found, cached: Int64, _ commands: Maintenance, _ limit: RateLimit?,
        _ news: @escaping @Sendable () -> Void
    ) {
        name = found.listed.entries.name(at: found.place)
        url = found.listed.entries.url(at: found.place)
        path = found.path
        folder = found.folder
        self.commands = commands
        self.limit = limit
        self.news = news
        state = Lock(State(cached: cached))
        // The walk goes on before the file is done.
        commands.tree.hold(folder)
    }

    /// Why nothing comes at present: the mount is offline, or the last attempt failed. nil if nothing is known.
    var trouble: String? {
        if isOffline { return "the mount is offline by command" }
        guard let reason = state.withLock({ $0.failure?.reason }) else { return nil }
        let outage = commands.services.transport.outage(of: url)
        return outage.map { "\(url.origin) is away (\($0.rawValue))" } ?? reason
    }

    var isOffline: Bool { commands.services.transport.line.isOffline }

    /// The origin of the file is away.
    var isAway: Bool { commands.services.transport.outage(of: url) != nil }

    /// The files of the volume.
    var files: FileTable { commands.files }

    /// Does what is due.
    /// - Parameter isPatient: it waits for as long as nothing comes.
    /// - Returns: nil while it goes on.
    func step(_ moment: Duration, isPatient: Bool) -> Outcome? {
        // Nothing would ever come again: a command of a catalogue outlives its sources.
        if commands.services.ticker.isOver { return .failed(MaintenanceFailure.sourceLeft.description) }
        let (phase, failure, isDue) = state.withLock { ($0.phase, $0.failure, $0.nextAttempt <= moment) }
        if isPatient || isOffline { state.withLock { $0.lastNews = moment } }
        if let failure, failure.isFinal { return .failed(failure.reason) }
        if moment - state.withLock({ $0.lastNews }) > PrefetchRequest.usualPatience {
            return .failed(failure?.reason ?? "no byte came for a long time")
        }
        switch phase {
        case .idle: if isDue, limit?.pause(now: moment) == nil { open() }
        case .opening, .over: break
        case .open(let file): return fetch(file, moment, isDue)
        }
        return nil
    }

    /// Bytes that came so far.
    var came: Int64 { state.withLock { $0.came } }

    /// Bytes; 0 while it is not open.
    var length: Int64 {
        guard case .open(let file) = state.withLock({ $0.phase }) else { return 0 }
        return file.length ?? 0
    }

    /// Bytes that are not in the cache; nil while it is not open, and where its length is not known.
    var missing: Int64? {
        guard case .open(let file) = state.withLock({ $0.phase }), let length = file.length else { return nil }
        return length - file.remote.cachedBytes
    }

    /// Closes it; what came stays. To be called once.
    func end() {
        let phase = state.withLock { state in
            defer { state.phase = .over }
            return state.phase
        }
        if case .open(let file) = phase { close(file) }
        commands.tree.leave(folder)
    }

    // MARK: Opening

    private func open() {
        state.withLock { $0.phase = .opening }
        // An open asks for the beginning.
        limit?.took(Readahead.firstOfMedia, now: now())
        commands.tree.listing(of: folder.node) { [self] result in
            guard case .success(let listed) = result, let place = listed.entries.place(of: name) else {
                return failed(result.failure ?? .notFound)
            }
            commands.tree.resolve(place, of: listed, in: folder.node) { [self] result in
                guard case .success(let entry) = result, let node = commands.tree.nodes[entry.node] else {
                    return failed(result.failure ?? .stale)
                }
                commands.opener.open(node, isAhead: true) { [self] result in
                    // A handle keeps its node.
                    commands.tree.nodes.forget(entry.node, count: 1)
                    switch result {
                    case .success(let file): opened(file as! OpenFile)
                    case .failure(let error): failed(error)
                    }
                }
            }
        }
    }

    private func opened(_ file: OpenFile) {
        file.remote.addPrefetch(of: self) { [weak self] failure in self?.ended(failure) }
        let isWanted = state.withLock { state in
            guard case .opening = state.phase else { return false }
            state.phase = .open(file)
            return true
        }
        if !isWanted { close(file) }
        news()
    }

    private func failed(_ error: VolumeError) {
        state.withLock { state in
            guard case .opening = state.phase else { return }
            state.phase = .idle
            let isSecond = state.isReopened
            if error == .stale { state.isReopened = true }
            let isFinal = [.accessDenied, .notFound].contains(error) || error == .stale && isSecond
            state.fail(error.sentence, isFinal: isFinal, isAway: error != .failed, now())
        }
        news()
    }

    private func close(_ file: OpenFile) {
        file.remote.cancelPrefetch(of: self)
        commands.opener.close(file, isAhead: true)
    }

    // MARK: Fetching

    private func fetch(_ file: OpenFile, _ moment: Duration, _ isDue: Bool) -> Outcome? {
        let remote = file.remote
        let cached = remote.cachedBytes
        state.withLock { state in
            guard cached != state.cached else { return }
            if cached > state.cached {
                state.came += cached - state.cached
                (state.lastNews, state.attempts, state.refusals, state.failure) = (moment, 0, 0, nil)
            }
            state.cached = cached
        }
        if remote.isComplete { return .done }
        // Blocks are evicted while others come: without a bound of twice the file's length this would never end.
        let came = state.withLock { $0.came }
        if !remote.isOpenEnded, came > 2 * remote.length {
            return .failed("the cache has no room for it beside what is pinned and open")
        }
        // It may be a broadcast, which no cache holds.
        if remote.isOpenEnded, came > commands.services.store.usage.cap / 2 {
            return .failed("the origin does not say how long it is, and half of the cache is full of it")
        }
        if remote.object.isInMemory { return .failed("the cache cannot be written") }
        if remote.isSuperseded {
            guard state.withLock({ !$0.isReopened }) else { return .failed(VolumeError.stale.sentence) }
            close(file)
            state.withLock { ($0.phase, $0.isReopened, $0.cached) = (.idle, true, 0) }
            open()
            return nil
        }
        guard isDue else { return nil }
        remote.prefetchAll(limit)
        if remote.isBrokenOff, !remote.isComplete {
            return .failed("the origin sends it once, and broke off")
        }
        return nil
    }

    /// A request of the file has ended.
    private func ended(_ failure: OriginFailure?) {
        if let failure, failure != .cancelled {
            let isAway = if case .away = failure { true } else { false }
            let isFinal = !isAway && failure != .changed && failure.meaning.retry == nil
            state.withLock { $0.fail(VolumeError(failure).sentence, isFinal: isFinal, isAway: isAway, now()) }
        } else if failure == .cancelled {
            // Its connection was needed for a reader.
            state.withLock { $0.nextAttempt = now() + .milliseconds(200) }
        }
        news()
    }
}

extension Result {
    fileprivate var failure: Failure? { if case .failure(let failure) = self { failure } else { nil } }
}

extension FileFetch.State {
    /// An attempt failed. - Parameter isAway: for as long as the origin is, each attempt fails.
    fileprivate mutating func fail(_ reason: String, isFinal: Bool, isAway: Bool, _ moment: Duration) {
        attempts += 1
        if !isAway { refusals += 1 }
        failure = (reason, isFinal || refusals >= FileFetch.mostAttempts)
        nextAttempt = moment + min(.milliseconds(500 << min(attempts, 7)), FileFetch.longestPause)
    }
}
