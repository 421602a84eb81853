import ReelCore
import ReelThreads

/// One prefetch: looks which files there are and whether the cache can hold them, then fetches a few at a time, behind
/// all readers. Of a folder with any number of files it holds one listing a level, and the files under way.
final class PrefetchJob: Sendable {
    private struct State: Sendable {
        var status: PrefetchStatus
        var isCancelled = false
        /// The thread has left.
        var hasEnded = false
        /// A file has news.
        var hasNews = false
    }

    /// Files at a time: a quarter of an origin's slots, as readers go on meanwhile.
    static let mostAtOnce = 4
    /// The longest time for which no file has news, though one may be due.
    private static let interval = Duration.milliseconds(200)

    let number: Int
    private let request: PrefetchRequest
    private let limit: RateLimit?
    private let state: Monitor<State>

    init(_ number: Int, _ request: PrefetchRequest) {
        self.number = number
        self.request = request
        limit = request.rate.map { RateLimit($0) { minuteOfDay() } }
        state = Monitor(State(status: PrefetchStatus(number: number, request)))
    }

    var status: PrefetchStatus { state.withLock(notifying: false) { $0.status } }

    /// - Returns: false where it is over, or was cancelled before: its end may take a moment.
    @discardableResult
    func cancel() -> Bool {
        state.withLock { state in
            defer { state.isCancelled = true }
            return !state.isCancelled && !state.status.isOver
        }
    }

    /// - Returns: whether its thread has left.
    @discardableResult
    func waitForEnd(atMost limit: Duration) -> Bool { state.wait(atMost: limit) { $0.hasEnded ? true : nil } ?? false }

    private var isCancelled: Bool { state.withLock(notifying: false) { $0.isCancelled } }

    private func update(_ body: (inout PrefetchStatus) -> Void) {
        state.withLock(notifying: false) { body(&$0.status) }
    }

    /// Does all of it, on a thread of its own.
    func run(_ commands: any CacheCommands) {
        let watch = MaintenanceWatch(isOver: { [self] in isCancelled })
        var failure: MaintenanceFailure?
        do throws(MaintenanceFailure) {
            if try isFitting(commands, watch) {
                if request.pins { for path in request.paths { _ = try commands.pin(path, true, watch) } }
                try fetch(commands, watch)
            }
        } catch {
            failure = error
        }
        state.withLock { state in
            if failure == nil {
                if state.status.refusal == nil { (state.status.phase, state.status.error) = (.done, nil) }
            } else {
                state.status.phase = state.isCancelled ? .cancelled : .failed
                state.status.error = state.isCancelled ? nil : failure?.description
            }
            state.status.rate = 0
            state.hasEnded = true
        }
    }

    // MARK: Looking

    /// Adds up the files, and refuses what the cache cannot hold.
    private func isFitting(_ commands: any CacheCommands, _ watch: MaintenanceWatch) throws(MaintenanceFailure) -> Bool
    {
        var pinnedAmong: Int64 = 0
        for path in request.paths {
            for place in try commands.places(of: path, watch) {
                let pins = place.commands.pins
                try each(of: place, watch) { file in
                    update { status in
                        status.files += 1
                        // What a listing says of lengths may be anything.
                        let (sum, isTooMuch) = status.bytes.addingReportingOverflow(max(file.length, file.cached))
                        status.bytes = isTooMuch ? .max : sum
                        status.doneBytes += file.cached
                    }
                    if pins.contains(ExactText(file.key)) { pinnedAmong += file.cached }
                }
            }
        }
        let (needed, cap) = (status.bytes, commands.cacheCapacity(arePinned: request.pins))
        let pinned = max(0, commands.pinnedBytes - pinnedAmong)
        let fits = needed <= cap - pinned
        update { status in
            // The second walk reports them again.
            (status.failures, status.failedFiles) = ([], 0)
            status.phase = fits ? .fetching : .refused
            if !fits { status.refusal = PrefetchStatus.Refusal(needed: needed, pinned: pinned, cap: cap) }
        }
        return fits
    }

    /// Calls `body` with each file of a path in one source.
    private func each(
        of place: SourcePath, _ watch: MaintenanceWatch, _ body: (ListedFile) throws(MaintenanceFailure) -> Void
    ) throws(MaintenanceFailure) {
        let walk = try FileWalk(place.commands.tree, place.path, watch)
        defer { walk.end() }
        while let found = try walk.next(watch) {
            if isCancelled { throw MaintenanceFailure("it was cancelled") }
            try body(ListedFile(found, place.commands.services))
        }
        update { status in
            for folder in walk.failed {
                status.fail(place.name(of: folder.path), "it could not be listed: \(folder.reason)")
            }
        }
    }

    // MARK: Fetching

    private func fetch(_ commands: any CacheCommands, _ watch: MaintenanceWatch) throws(MaintenanceFailure) {
        var running = Running(before: status.doneBytes)
        defer { for fetch in running.files { fetch.file.end() } }
        for path in request.paths {
            for place in try commands.places(of: path, watch) {
                try each(of: place, watch) { (file) throws(MaintenanceFailure) in
                    if file.isWhole {
                        running.done += 1
                        return
                    }
                    while running.files.count >= Self.mostAtOnce { try goOn(&running) }
                    let fetch = FileFetch(file.found, cached: file.cached, place.commands, limit) { [state] in
                        state.withLock { $0.hasNews = true }
                    }
                    running.files.append((fetch, place.name(of: fetch.path), max(file.length, file.cached)))
                    try step(&running)
                }
            }
        }
        while !running.files.isEmpty { try goOn(&running) }
        try step(&running)
    }

    /// Ends it once none of its files could be had for too long. In the background it waits while the mount is offline,
    /// as that is a command of the user's.
    private func look(at running: inout Running, _ moment: Duration) throws(MaintenanceFailure) {
        let troubles = running.files.compactMap(\.file.trouble)
        guard !troubles.isEmpty, troubles.count == running.files.count else { return running.trouble = nil }
        let since = running.trouble?.since ?? moment
        running.trouble = (troubles[0], since)
        let waits = request.isBackground && running.files.contains { $0.file.isOffline }
        if let patience = request.patience, moment - since >= patience, !waits {
            throw MaintenanceFailure("nothing came for \(Int(patience.seconds)) s: \(troubles[0])")
        }
    }

    /// Waits for news of a file, and does what follows.
    private func goOn(_ running: inout Running) throws(MaintenanceFailure) {
        _ = state.wait(atMost: Self.interval) { state -> Bool? in
            guard state.hasNews || state.isCancelled else { return nil }
            state.hasNews = false
            return true
        }
        if isCancelled { throw MaintenanceFailure("it was cancelled") }
        try step(&running)
    }

    private func step(_ running: inout Running) throws(MaintenanceFailure) {
        let moment = now()
        let files = running.files
        running.files = []
        var came = running.came
        for fetch in files {
            let outcome = fetch.file.step(moment, isPatient: running.trouble != nil && request.patience == nil)
            came += fetch.file.came
            guard let outcome else {
                running.files.append(fetch)
                continue
            }
            running.came += fetch.file.came
            switch outcome {
            case .done:
                running.done += 1
                // Its length may differ from the one in its listing.
                let length = fetch.file.length
                update { $0.bytes += length - fetch.counted }
            case .failed(let reason): update { $0.fail(fetch.path, reason) }
            }
            fetch.file.end()
        }
        if came > running.told {
            running.meter.add(came - running.told, moment)
            (running.told, running.lastNews) = (came, moment)
        }
        try look(at: &running, moment)
        update { status in
            (status.doneFiles, status.doneBytes) = (running.done, min(running.before + came, status.bytes))
            status.rate = running.meter.perSecond(moment)
            let isStill = running.trouble != nil || moment - running.lastNews > .seconds(5)
            (status.phase, status.error) = (isStill ? .waiting : .fetching, running.trouble?.reason)
        }
    }

    private struct Running {
        /// The files under way, each with its path in the mount, and the bytes for which it was counted.
        var files: [(file: FileFetch, path: String, counted: Int64)] = []
        /// Files of which all is there.
        var done = 0
        /// Bytes that were there before.
        let before: Int64
        /// Bytes that came of files that are no longer under way.
        var came: Int64 = 0
        /// Bytes that the meter knows.
        var told: Int64 = 0
        var meter = RateMeter(of: .seconds(10))
        var lastNews = now()
        /// Why none of the files under way comes, and since when.
        var trouble: (reason: String, since: Duration)?

        init(before: Int64) { self.before = before }
    }
}

/// A file of a listing, and what the cache has of it.
struct ListedFile {
    let found: FileWalk.Found
    let key: String
    /// Bytes; 0 where it is not known.
    let length: Int64
    let cached: Int64
    /// All of it is cached.
    let isWhole: Bool

    init(_ found: FileWalk.Found, _ services: Services) {
        self.found = found
        let (entries, place) = (found.listed.entries, found.place)
        let url = entries.url(at: place)
        let known = services.store.information(for: url.text)
        let told = entries.length(at: place) ?? known?.information.length
        key = services.keys.key(of: url, length: entries.length(at: place))
        // What is cached may be of a version before that of the listing. Where that is not sure the origin is asked.
        let isPast = known.map { $0.information.length != told } ?? false
        let cached = isPast ? 0 : services.keys.cachedBytes(of: url, told)
        (self.cached, length) = (cached, told ?? 0)
        isWhole = told.map { cached >= $0 } == true && !isPast && known?.isDoubted != true
    }
}
