/// Decides which file is fetched whole next, before anybody opens it: events in, a file out.
///
/// The files come from queues: the next items of a folder that plays, and the newest episodes of a feed. The queue that
/// was played last comes first, then the others that were played, then the feeds; within a queue, its order.
///
/// A file is fetched once. What was whole and has left the cache since, or was finished, does not come again for as
/// long as its queue names it: a cache smaller than its queues would be filled in a circle otherwise.
package struct KeepPlan: Sendable {
    /// One version of a file, as a listing has it. Another length or date makes it another item.
    package struct Item: Hashable, Sendable {
        /// Inside the source, without a leading `/`.
        package let path: String
        /// What the cache knows it by.
        package let key: String
        /// Bytes, nil where no listing gives them.
        package let length: Int64?
        /// Seconds since 1970, nil where no listing gives them.
        package let modified: Int64?

        package init(path: String, key: String, length: Int64? = nil, modified: Int64? = nil) {
            (self.path, self.key, self.length, self.modified) = (path, key, length, modified)
        }

        /// Identifies the version in what is remembered, whatever its name has become (FNV-1a, 64 bits).
        package var mark: UInt64 {
            var hash: UInt64 = 0xcbf2_9ce4_8422_2325
            for byte in "\(length ?? -1) \(modified ?? 0) \(key)".utf8 {
                hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3
            }
            return hash
        }
    }

    /// How far an item is.
    package enum Phase: Hashable, Sendable {
        /// To be fetched, not before this moment.
        case waiting(Duration)
        /// The cache had no room at the last look; it is looked again at this moment. What comes after it waits.
        case full(Duration)
        /// All of it came.
        case whole
        /// All of it came, and a program has read it to its end.
        case finished
        /// It could not be had too often.
        case failed
    }

    /// An item and what became of it.
    package struct Entry: Hashable, Sendable {
        package let item: Item
        package fileprivate(set) var phase: Phase
        /// Why the last attempt failed, as a part of a sentence; nil if none has.
        package fileprivate(set) var trouble: String?
        fileprivate var failures = 0

        fileprivate init(item: Item, phase: Phase) { (self.item, self.phase) = (item, phase) }
    }

    /// A folder whose files are played, or a feed.
    private struct Queue {
        let folder: String
        var items: [Item]
    }

    /// Folders that were played last: one for each program of a household that plays.
    package static let mostPlayed = 8
    /// Items in all.
    package static let mostItems = 4096
    /// Attempts that failed, after which an item is given up.
    package static let mostFailures = 5
    /// Between two looks for room, and before the second attempt.
    package static let pause = Duration.seconds(60)
    /// Between two attempts while the origin is away.
    package static let pauseAway = Duration.seconds(300)
    private static let longestPause = Duration.seconds(3600)

    /// The last played first.
    private var played: [Queue] = []
    private var feeds: [Queue] = []
    /// All items of the queues, each once, in their order.
    package private(set) var entries: [Entry] = []
    /// The marks of episodes of feeds of which all came. To be remembered, so that they do not come again after the
    /// next mount either.
    package private(set) var done: Set<UInt64>

    /// Nothing is kept yet. - Parameter done: as remembered.
    package init(done: Set<UInt64> = []) { self.done = done }

    // MARK: Queues

    /// A folder plays. - Parameter items: those that come next, in their order.
    package mutating func play(_ items: [Item], of folder: String) {
        played.removeAll { $0.folder == folder }
        played.insert(Queue(folder: folder, items: items), at: 0)
        played = Array(played.prefix(Self.mostPlayed))
        arrange()
    }

    /// A feed was listed. - Parameter items: its newest, in their order.
    package mutating func list(_ items: [Item], of feed: String) {
        if let known = feeds.firstIndex(where: { $0.folder == feed }) {
            guard feeds[known].items != items else { return }
            feeds[known].items = items
        } else {
            feeds.append(Queue(folder: feed, items: items))
        }
        arrange()
    }

    /// All feeds were listed, and there are no others.
    package mutating func keepFeeds(_ names: Set<String>) {
        if feeds.contains(where: { !names.contains($0.folder) }) {
            feeds.removeAll { !names.contains($0.folder) }
            arrange()
        }
        let marks = Set(feeds.lazy.flatMap(\.items).map(\.mark))
        if !done.isSubset(of: marks) { done.formIntersection(marks) }
    }

    /// Items that stay keep their phase; what waits for room is looked at again, as others may have left.
    private mutating func arrange() {
        let known = Dictionary(entries.map { ($0.item, $0) }) { first, _ in first }
        var seen: Set<Item> = []
        entries = []
        func add(_ item: Item, wasDone: Bool) {
            guard entries.count < Self.mostItems, seen.insert(item).inserted else { return }
            var entry = known[item] ?? Entry(item: item, phase: wasDone ? .whole : .waiting(.zero))
            if case .full = entry.phase { entry.phase = .waiting(.zero) }
            entries.append(entry)
        }
        for item in played.lazy.flatMap(\.items) { add(item, wasDone: false) }
        for item in feeds.lazy.flatMap(\.items) { add(item, wasDone: done.contains(item.mark)) }
    }

    // MARK: What to do

    /// The item that should be fetched now, nil if none. - Parameter now: on the clock of the events.
    package func due(now: Duration) -> Item? {
        for entry in entries {
            switch entry.phase {
            case .waiting(let moment) where moment <= now: return entry.item
            case .full(let moment): return moment <= now ? entry.item : nil
            default: break
            }
        }
        return nil
    }

    /// When `due` may give something, nil if no time brings that.
    package var nextLook: Duration? {
        var next: Duration?
        for entry in entries {
            switch entry.phase {
            case .waiting(let moment): next = min(next ?? moment, moment)
            case .full(let moment): return min(next ?? moment, moment)
            default: break
            }
        }
        return next
    }

    /// The items that make no room for this one: those before it that are not finished, and itself.
    package func spared(for item: Item) -> [Item] {
        let end = entries.firstIndex { $0.item == item } ?? entries.endIndex
        return entries[..<end].filter { $0.phase != .finished }.map(\.item) + [item]
    }

    /// The items that make room for this one where nothing else can: those behind it. They do not come again.
    package func expendable(for item: Item) -> [Item] {
        let start = entries.firstIndex { $0.item == item } ?? entries.endIndex
        return entries[start...].dropFirst().map(\.item)
    }

    /// Whether the last look found no room for an item.
    package func isFull(_ item: Item) -> Bool {
        entries.contains { if case .full = $0.phase { $0.item == item } else { false } }
    }

    // MARK: What became of it

    /// All of an item is there.
    package mutating func came(_ item: Item) {
        update(item) { ($0.phase, $0.trouble) = ($0.phase == .finished ? .finished : .whole, nil) }
        note(item)
    }

    /// The cache has no room for an item beside what it must not give up.
    /// - Parameter wasBegun: others took the room while it was fetched, which counts as a failure: what they evict of
    ///   it would come again and again.
    package mutating func fill(_ item: Item, wasBegun: Bool, now: Duration) {
        update(item) { entry in
            (entry.phase, entry.trouble) = (.full(now + Self.pause), nil)
            guard wasBegun else { return }
            entry.failures += 1
            if entry.failures >= Self.mostFailures {
                (entry.phase, entry.trouble) = (.failed, "others took its room in the cache")
            }
        }
    }

    /// An attempt failed. - Parameter isAway: the fault is the origin's absence, which counts for no failure.
    package mutating func fail(_ item: Item, _ reason: String, isAway: Bool, now: Duration) {
        update(item) { entry in
            entry.trouble = reason
            if isAway { return entry.phase = .waiting(now + Self.pauseAway) }
            entry.failures += 1
            var pause = Self.pause
            for _ in 1..<entry.failures { pause = min(pause * 5, Self.longestPause) }
            entry.phase = entry.failures < Self.mostFailures ? .waiting(now + pause) : .failed
        }
    }

    /// A program has read a file to its end, and closed it. - Parameter key: of the file in the cache.
    package mutating func finish(_ key: String) {
        for index in entries.indices where entries[index].item.key == key {
            (entries[index].phase, entries[index].trouble) = (.finished, nil)
            note(entries[index].item)
        }
    }

    private mutating func note(_ item: Item) {
        if feeds.contains(where: { $0.items.contains(item) }) { done.insert(item.mark) }
    }

    private mutating func update(_ item: Item, _ body: (inout Entry) -> Void) {
        // It may have left its queue meanwhile.
        if let index = entries.firstIndex(where: { $0.item == item }) { body(&entries[index]) }
    }
}
