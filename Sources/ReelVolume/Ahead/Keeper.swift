import ReelCache
import ReelCore
import ReelSources
import ReelThreads

/// Fetches files whole before anybody opens them (`--keep-next`, `--keep-new`), one at a time, behind all readers.
/// `KeepPlan` decides which; a `FileFetch` does it, as for a prefetch.
///
/// A thread of its own does all of it, as it waits for listings and looks into the index.
package final class Keeper: Sendable {
    /// What has happened since the thread looked last.
    private struct News: Sendable {
        /// Files that a program has played through, in that order.
        var played: [Node] = []
        /// Keys of files that a program has read to their end.
        var finished: [String] = []
        var isListed = false
        /// The mount is offline now, or no longer, or a file has news.
        var isOther = false
        var isOver = false

        var isEmpty: Bool { played.isEmpty && finished.isEmpty && !isListed && !isOther && !isOver }
    }

    private struct State: Sendable {
        var news = News()
        var plan: KeepPlan
        /// The item that is being fetched.
        var fetching: KeepPlan.Item?
        var hasEnded = true
    }

    /// The items of a folder, or of a feed, at most.
    package static let most: Int64 = 100
    /// Events that wait for the thread: beyond that, the oldest are forgotten.
    private static let mostWaiting = 64
    /// The longest time for which the file under way has no news, though it may be due.
    private static let interval = Duration.milliseconds(200)
    /// Between two looks whether there is still room for the rest of a file.
    private static let roomInterval = Duration.seconds(2)
    /// Between two looks at all feeds, and after one that failed.
    private static let feedInterval = Duration.seconds(3600)
    private static let failedFeedInterval = Duration.seconds(300)
    /// Bytes that a file is taken to lack while its length is not known.
    private static let unknown = BlockSize.extent
    /// The name in the index of what is remembered.
    private static let setting = "kept"
    /// What was used within this many seconds makes no room.
    private static let recent: Int64 = 24 * 3600

    private let services: Services
    private let state: Monitor<State>

    /// nil where the mount keeps nothing.
    init?(_ services: Services) {
        guard services.options.keepNext > 0 || services.options.keepNew > 0 else { return nil }
        self.services = services
        let words = services.store.setting(Self.setting)?.split(separator: " ") ?? []
        state = Monitor(State(plan: KeepPlan(done: Set(words.compactMap { UInt64($0, radix: 16) }))))
    }

    /// Begins. - Parameter commands: of the volume.
    func start(_ commands: Maintenance) {
        state.withLock { $0.hasEnded = false }
        if services.options.keepNew > 0 { commands.tree.refresher.onNews { [weak self] in self?.listed() } }
        let thread = Thread("keep") { [self] in
            run(commands)
            state.withLock { $0.hasEnded = true }
        }
        guard let thread else { return state.withLock { $0.hasEnded = true } }
        thread.detach()
    }

    /// Ends its requests, and waits for that; what came stays.
    func stop() {
        state.withLock { $0.news.isOver = true }
        state.wait { $0.hasEnded ? () : nil }
    }

    // MARK: Events

    /// A file is being played through.
    func played(_ node: Node) {
        guard services.options.keepNext > 0 else { return }
        state.withLock { $0.news.played = $0.news.played.suffix(Self.mostWaiting - 1) + [node] }
    }

    /// A program has read a file to its end, and closed it. - Parameter key: in the cache.
    func finished(_ key: String) {
        state.withLock { $0.news.finished = $0.news.finished.suffix(Self.mostWaiting - 1) + [key] }
    }

    /// A listing has changed.
    private func listed() { state.withLock { $0.news.isListed = true } }

    /// The mount is offline now, or no longer.
    func offlineChanged() { state.withLock { $0.news.isOther = true } }

    // MARK: The thread

    /// What the thread holds.
    private struct Work {
        /// The file under way, and when it is due to be looked again whether there is room for the rest of it.
        var fetch: (item: KeepPlan.Item, file: FileFetch)?
        /// Bytes that it lacked when it was begun, as far as was known.
        var missing: Int64 = 0
        var roomAt = Duration.zero
        /// The look at all feeds under way, and the feeds that it has seen.
        var walk: FileWalk?
        var seen: Set<String> = []
        var nextWalk: Duration?
    }

    private func run(_ commands: Maintenance) {
        let watch = MaintenanceWatch(isOver: { [self] in state.withLock(notifying: false) { $0.news.isOver } })
        var work = Work()
        if services.options.keepNew > 0, commands.tree.source.keepsDates { work.nextWalk = .zero }
        defer {
            end(&work)
            work.walk?.end()
        }
        while true {
            let news = take(pause(work))
            if news.isOver { return }
            for key in news.finished { finish(key) }
            for node in news.played { play(node, commands.tree) }
            if news.isListed, work.nextWalk != nil { work.nextWalk = .zero }
            lookAtFeeds(&work, commands.tree, watch)
            goOn(&work, commands, watch)
        }
    }

    /// How long the thread may sleep without news, nil for as long as there are none.
    private func pause(_ work: Work) -> Duration? {
        if work.fetch != nil { return Self.interval }
        if work.walk != nil { return .zero }
        // What is due then is done once it is back, of which each source of a catalogue is told in turn.
        if services.transport.line.isOffline { return .seconds(60) }
        let moments = [state.withLock(notifying: false) { $0.plan.nextLook }, work.nextWalk]
        return moments.compactMap { $0 }.min().map { max(.zero, $0 - now()) }
    }

    private func take(_ limit: Duration?) -> News {
        let taken: (inout State) -> News? = { state in
            if state.news.isEmpty { return nil }
            defer { state.news = News(isOver: state.news.isOver) }
            return state.news
        }
        guard let limit else { return state.wait(taken) }
        return state.wait(atMost: limit, taken) ?? News()
    }

    /// Changes the plan, and remembers what is done.
    private func change(_ body: (inout KeepPlan) -> Void) {
        let done = state.withLock(notifying: false) { state -> Set<UInt64>? in
            let before = state.plan.done
            body(&state.plan)
            return state.plan.done == before ? nil : state.plan.done
        }
        guard let done else { return }
        services.store.set(Self.setting, done.sorted().map { String($0, radix: 16) }.joined(separator: " "))
    }

    // MARK: Queues

    private func play(_ node: Node, _ tree: Tree) {
        guard let parent = tree.nodes[node.parent], let directory = parent.directory,
            let entries = directory.listing?.entries, let folder = tree.nodes.path(of: parent)
        else { return }
        let places = entries.items(
            after: node.name, isQueue: tree.source.isQueue(directory.place), atMost: services.options.keepNext)
        let items = places.map { item($0, of: entries, in: folder) }
        change { $0.play(items, of: folder) }
    }

    private func item(_ place: Int, of entries: EntryList, in folder: String) -> KeepPlan.Item {
        let length = entries.length(at: place)
        return KeepPlan.Item(
            path: joinedPath(folder, entries.name(at: place)),
            key: services.keys.key(of: entries.url(at: place), length: length), length: length,
            modified: entries.modified(at: place))
    }

    /// What is finished goes before all else.
    private func finish(_ key: String) {
        change { $0.finish(key) }
        // If this fails, it goes by its age.
        try? services.store.order([key], goesFirst: true)
    }

    /// Lists the feeds that are due, a folder a time: what plays meanwhile is not held up by all of them.
    private func lookAtFeeds(_ work: inout Work, _ tree: Tree, _ watch: MaintenanceWatch) {
        if work.walk == nil {
            guard let next = work.nextWalk, next <= now(), !services.transport.line.isOffline else { return }
            work.nextWalk = now() + Self.feedInterval
            work.seen = []
            work.walk = try? FileWalk(tree, "", watch)
        }
        guard let walk = work.walk else { return work.nextWalk = now() + Self.failedFeedInterval }
        do {
            while let found = try walk.next(watch) {
                let folder = found.folder.path
                guard work.seen.insert(folder).inserted else { continue }
                let entries = found.listed.entries
                let places = entries.newestItems(atMost: services.options.keepNew)
                let items = places.map { item($0, of: entries, in: folder) }
                return change { $0.list(items, of: folder) }
            }
        } catch {
            // It was ended: which feeds there are is not known.
            return
        }
        if walk.failed.isEmpty {
            let seen = work.seen
            change { $0.keepFeeds(seen) }
        } else {
            work.nextWalk = now() + Self.failedFeedInterval
        }
        walk.end()
        work.walk = nil
    }

    // MARK: Fetching

    private func goOn(_ work: inout Work, _ commands: Maintenance, _ watch: MaintenanceWatch) {
        while true {
            let moment = now()
            let isOffline = services.transport.line.isOffline
            let due = isOffline ? nil : state.withLock(notifying: false) { $0.plan.due(now: moment) }
            if let fetch = work.fetch, fetch.item != due { end(&work) }
            guard let due else { return }
            if work.fetch == nil, !begin(due, &work, commands, watch) { continue }
            guard let fetch = work.fetch, isOver(fetch.file, due, &work, moment) else { return }
            end(&work)
        }
    }

    private func end(_ work: inout Work) {
        work.fetch?.file.end()
        work.fetch = nil
        state.withLock(notifying: false) { $0.fetching = nil }
    }

    /// - Returns: false where there is nothing to fetch of the item now, as the plan knows from here on.
    private func begin(
        _ item: KeepPlan.Item, _ work: inout Work, _ commands: Maintenance, _ watch: MaintenanceWatch
    ) -> Bool {
        let walk = try? FileWalk(commands.tree, item.path, watch)
        defer { walk?.end() }
        guard let found = try? walk?.next(watch), found.path == item.path else {
            fail(item, "it is not listed any more")
            return false
        }
        let file = ListedFile(found, services)
        if file.isWhole {
            change { $0.came(item) }
            return false
        }
        let (spared, isFirst) = state.withLock(notifying: false) { ($0.plan.spared(for: item), !$0.plan.isFull(item)) }
        // What is kept goes after what is not; else it would make room for the rest. Once, as each look is a write.
        if isFirst { try? services.store.order(spared.map(\.key), goesFirst: false) }
        let missing = file.length > 0 ? file.length - file.cached : Self.unknown
        var fits = hasRoom(for: missing, item, commands.files)
        if !fits, isFirst {
            let behind = state.withLock(notifying: false) { $0.plan.expendable(for: item) }
            try? services.store.order(behind.map(\.key), goesFirst: true)
            fits = hasRoom(for: missing, item, commands.files)
        }
        guard fits else {
            change { $0.fill(item, wasBegun: false, now: now()) }
            return false
        }
        work.fetch = (
            item, FileFetch(found, cached: file.cached, commands, nil) { [weak self] in self?.offlineChanged() }
        )
        (work.roomAt, work.missing) = (now(), missing)
        state.withLock(notifying: false) { $0.fetching = item }
        return true
    }

    /// Does what is due for a file. - Returns: whether that was all.
    private func isOver(
        _ file: FileFetch, _ item: KeepPlan.Item, _ work: inout Work, _ moment: Duration
    ) -> Bool {
        switch file.step(moment, isPatient: false) {
        case .done: change { $0.came(item) }
        // A disk that takes nothing says nothing of the file.
        case .failed(let reason): fail(item, reason, isAway: file.isAway || services.store.failure != nil)
        case nil:
            guard moment >= work.roomAt else { return false }
            work.roomAt = moment + Self.roomInterval
            guard !hasRoom(for: file.missing ?? work.missing, item, file.files) else { return false }
            change { $0.fill(item, wasBegun: true, now: moment) }
        }
        return true
    }

    private func fail(_ item: KeepPlan.Item, _ reason: String, isAway: Bool = false) {
        change { $0.fail(item, reason, isAway: isAway, now: now()) }
    }

    /// Whether the cache can take this many bytes of an item, and the rest of what plays, without giving up what is
    /// pinned, open, used a short while ago, or kept before it.
    private func hasRoom(for bytes: Int64, _ item: KeepPlan.Item, _ files: FileTable) -> Bool {
        var spared = state.withLock(notifying: false) { $0.plan.spared(for: item) }.map(\.key)
        var needed = bytes
        for file in files.all where file.openHandles > 0 {
            let key = file.object.version.key
            spared.append(key)
            if key != item.key, file.isShownPlaying, !file.isOpenEnded { needed += file.length - file.cachedBytes }
        }
        let limit = wallClock() - Self.recent
        let keys = Set(spared.map { ExactText($0) })
        return (try? services.store.hasRoom(for: needed, usedBefore: limit, sparing: keys)) ?? false
    }

    // MARK: Status

    /// Files that `status` names at most.
    private static let mostShown = 100

    /// The files that are kept, in the order in which they are fetched.
    var status: [VolumeStatus.Kept] {
        let (entries, fetching) = state.withLock(notifying: false) { ($0.plan.entries, $0.fetching) }
        return entries.prefix(Self.mostShown).map { entry in
            let item = entry.item
            let cached = services.store.cachedBytes(of: item.key)
            return VolumeStatus.Kept(
                path: item.path, length: item.length, cachedBytes: cached,
                phase: VolumeStatus.Kept.Phase(entry.phase, isFetching: item == fetching), trouble: entry.trouble)
        }
    }
}

extension VolumeStatus.Kept.Phase {
    fileprivate init(_ phase: KeepPlan.Phase, isFetching: Bool) {
        switch phase {
        case _ where isFetching: self = .fetching
        case .waiting: self = .waiting
        case .full: self = .full
        case .whole: self = .whole
        case .finished: self = .finished
        case .failed: self = .failed
        }
    }
}
