import ReelCore
import ReelFilesystem
import ReelThreads

/// Asks for the content information of files whose length is in no listing: many at once, one request a resource. The
/// cache remembers the answers.
///
/// Each origin has a limit and a queue of its own, so that a silent one holds up no other. What a call waits for goes
/// before what is asked in advance, first in first out, and fails at its deadline also while it stands in the queue.
final class InformationLoader: Sendable {
    /// Requests at once to one origin: first as many as browsers make, then more as long as none is slow. A server with
    /// a short queue for connections (Python's holds 5) drops the others, and TCP asks again only after a second.
    fileprivate static let limits = (first: 6, most: 16)
    /// Requests in advance at once, to all origins: a list may name as many as it has entries.
    fileprivate static let mostAhead = 64
    /// A request that took as long is slow.
    fileprivate static let fast = Duration.milliseconds(500)
    /// This many fast requests in a row raise the limit.
    fileprivate static let trial = 32
    /// Origins of which it is remembered whether they are slow.
    fileprivate static let mostHosts = 256

    private let state = Lock(State())
    private let files: FileTable
    private let services: Services
    private let clock: @Sendable () -> Duration

    init(_ files: FileTable, _ services: Services, clock: @escaping @Sendable () -> Duration = now) {
        self.files = files
        self.services = services
        self.clock = clock
    }

    /// Joins the request for the same resource, if there is one.
    /// - Parameters:
    ///   - file: the joined file that has the resource as a piece, nil if it is a file itself.
    ///   - isDemanded: a caller waits: the request goes before those made in advance, and the call ends at the
    ///     deadline of a read, counted from here.
    func load(
        _ url: ResourceURL, of file: ResourceURL? = nil, isDemanded: Bool = true,
        _ completion: @escaping Completion<ContentInformation> = { _ in }
    ) {
        let limit = services.options.timeout
        let deadline = isDemanded ? clock() + limit : nil
        let number = state.withLock { $0.add(url, of: file ?? url, deadline: deadline, completion) }
        startNext(url.origin)
        guard let number, state.withLock({ $0.isQueued(url.text, number) }) else { return }
        // One that runs has its deadline in the request.
        let expire = { @Sendable [self] in
            finish(state.withLock { $0.isQueued(url.text, number) ? $0.remove(url.text) : nil }, .failure(.timedOut))
        }
        services.ticker.after(limit, expire, atEnd: expire)
    }

    private func startNext(_ origin: String) {
        while let entry = state.withLock({ $0.next(origin) }) {
            // An answer may have come since the caller looked.
            let known = services.store.information(for: entry.url.text)
            if let known, !known.isDoubted {
                end(entry, .success(known.information), after: nil)
                continue
            }
            let isLengthSure = known?.checkedAt == Services.outdated && known?.information.validator.mirror == 0
            let start = clock()
            let limit = entry.deadline.map { $0 - start } ?? services.options.timeout
            // All that are left end here, and not one inside of another.
            if services.ticker.isOver || limit <= .zero {
                end(entry, .failure(.timedOut), after: nil)
                continue
            }
            InformationRequest.start(
                entry.url, of: entry.file, known: isLengthSure ? known?.information : nil, limit: limit, services
            ) { [self] outcome in
                let time = clock() - start
                take(outcome, of: entry.url, until: now() + limit - time) { [self] result in
                    end(entry, result, after: time)
                    startNext(entry.url.origin)
                }
            }
        }
    }

    /// - Parameter end: of the wait, on the clock of `now()`.
    private func take(
        _ outcome: InformationRequest.Outcome, of url: ResourceURL, until end: Duration,
        _ completion: @escaping @Sendable (Result<ContentInformation, VolumeError>) -> Void
    ) {
        let known = services.store.information(for: url.text)?.information
        switch outcome {
        case .information(let new):
            // One that is doubted may be of a mirror, with bytes that turn out to be the source's.
            guard let known, known.length != nil else { return completion(.success(files.learn(new, of: url))) }
            files.settle(known, new, of: url, until: end) { completion(.success($0)) }
        case .unchanged: completion(known.map { .success(files.learn($0, of: url)) } ?? .failure(.failed))
        case .failure(let failure):
            services.logger.info("\(url): \(failure)")
            completion(.failure(VolumeError(failure)))
        }
    }

    /// - Parameter time: of its request, nil if there was none, which says nothing of the origin.
    private func end(_ entry: Entry, _ result: Result<ContentInformation, VolumeError>, after time: Duration?) {
        finish(
            state.withLock { state in
                state.ended(entry, after: time)
                return state.remove(entry.url.text)
            }, result)
    }

    private func finish(_ entry: Entry?, _ result: Result<ContentInformation, VolumeError>) {
        for completion in entry?.waiting ?? [] { completion(result) }
    }
}

extension InformationLoader {
    fileprivate struct Entry {
        let url: ResourceURL
        let file: ResourceURL
        let number: UInt64
        var waiting: [Completion<ContentInformation>]
        /// The deadline of the first call that waits, on the clock of `now()`, nil if none does.
        var deadline: Duration?
        var isRunning = false
        /// It runs as one in advance.
        var isAhead = false
    }

    /// What is asked at one origin. The queues hold keys of entries; one that is gone or runs already is passed over.
    fileprivate struct Host {
        var demanded: ArraySlice<String> = []
        var ahead: ArraySlice<String> = []
        /// It stands in `State.turns`.
        var isInTurn = false
        var running = 0
        var limit = InformationLoader.limits.first
        var fastInARow = 0
        /// A slow request keeps the lower limit for good.
        var mayGrow = true

        var isIdle: Bool { running == 0 && demanded.isEmpty && ahead.isEmpty }
    }

    fileprivate struct State {
        /// By URL.
        private var entries: [String: Entry] = [:]
        private var hosts: [String: Host] = [:]
        private var mostHosts = InformationLoader.mostHosts
        /// Origins that are asked in advance, each for one resource and then behind the others.
        private var turns: ArraySlice<String> = []
        private var aheadRunning = 0
        private var last: UInt64 = 0

        /// - Returns: the entry's number where the call is the first one that waits for it.
        mutating func add(
            _ url: ResourceURL, of file: ResourceURL, deadline: Duration?,
            _ completion: @escaping Completion<ContentInformation>
        ) -> UInt64? {
            let (key, origin) = (url.text, url.origin)
            let isNew = entries[key] == nil
            if isNew {
                last += 1
                entries[key] = Entry(url: url, file: file, number: last, waiting: [])
            }
            entries[key]!.waiting.append(completion)
            if hosts[origin] == nil { addHost(origin) }
            if isNew, deadline == nil {
                hosts[origin]!.ahead.append(key)
                takeTurn(origin)
            }
            guard let deadline, entries[key]!.deadline == nil, !entries[key]!.isRunning else { return nil }
            entries[key]!.deadline = deadline
            hosts[origin]!.demanded.append(key)
            return entries[key]!.number
        }

        private mutating func addHost(_ origin: String) {
            if hosts.count >= mostHosts {
                hosts = hosts.filter { !$0.value.isIdle }
                mostHosts = max(InformationLoader.mostHosts, 2 * hosts.count)
            }
            hosts[origin] = Host()
        }

        func isQueued(_ key: String, _ number: UInt64) -> Bool {
            entries[key].map { $0.number == number && !$0.isRunning } ?? false
        }

        mutating func remove(_ key: String) -> Entry? { entries.removeValue(forKey: key) }

        /// The next entry to ask for: one that a call waits for at this origin, else one in advance at any.
        mutating func next(_ origin: String) -> Entry? {
            while let host = hosts[origin], host.running < host.limit,
                let key = hosts[origin]!.demanded.popFirst()
            {
                if let entry = begin(key, at: origin, isAhead: false) { return entry }
            }
            while aheadRunning < InformationLoader.mostAhead, let origin = turns.popFirst() {
                hosts[origin]!.isInTurn = false
                // One that runs there gives it its turn again.
                guard hosts[origin]!.running < hosts[origin]!.limit, let key = hosts[origin]!.ahead.popFirst() else {
                    continue
                }
                takeTurn(origin)
                if let entry = begin(key, at: origin, isAhead: true) { return entry }
            }
            return nil
        }

        private mutating func takeTurn(_ origin: String) {
            guard let host = hosts[origin], !host.isInTurn, !host.ahead.isEmpty else { return }
            hosts[origin]!.isInTurn = true
            turns.append(origin)
        }

        private mutating func begin(_ key: String, at origin: String, isAhead: Bool) -> Entry? {
            guard let entry = entries[key], !entry.isRunning else { return nil }
            (entries[key]!.isRunning, entries[key]!.isAhead) = (true, isAhead)
            hosts[origin]!.running += 1
            if isAhead { aheadRunning += 1 }
            return entries[key]
        }

        /// A running entry has its answer.
        mutating func ended(_ entry: Entry, after time: Duration?) {
            let origin = entry.url.origin
            if entry.isAhead { aheadRunning -= 1 }
            hosts[origin]!.running -= 1
            if let time { hosts[origin]!.measure(time) }
            takeTurn(origin)
        }
    }
}

extension InformationLoader.Host {
    fileprivate mutating func measure(_ time: Duration) {
        fastInARow = time < InformationLoader.fast ? fastInARow + 1 : 0
        if time >= InformationLoader.fast { (limit, mayGrow) = (InformationLoader.limits.first, false) }
        if mayGrow, fastInARow == InformationLoader.trial { limit = InformationLoader.limits.most }
    }
}
