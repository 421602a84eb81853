/// Decides which item of a queue to fetch before it is opened: events in, actions out. Each item has a name of its own.
///
/// The queue is the order of a directory or a list. One item at a time is fetched: the one behind the one that is being
/// played through. It is dropped when the reader goes elsewhere.
package struct Prebuffering: Sendable {
    /// A step that the caller has to take with an item.
    package enum Action: Hashable, Sendable {
        /// Fetch its head and tail.
        case fetch(String)
        /// Fetch more of its head.
        case more(String)
        /// Stop its requests; no reader is expected for the bytes that came.
        case cancel(String)
    }

    /// The kernel may read a complete item past the daemon, by passthrough or from the page cache. An item held open
    /// for so long is being played: a scanner looks at head and tail and is gone, a song is not over yet.
    package static let unseenPlay = Duration.seconds(30)
    /// A program that has more items open at a time is no player.
    private static let playersItems = 3

    private struct Held {
        var opens = 0
        let since: Duration
        var isJudged = false
    }

    private var current: (played: String, next: String, wantsMore: Bool)?
    /// Complete items that are open.
    private var held: [String: Held] = [:]

    /// No item is played.
    package init() {}

    /// A reader is so far in `item` that the next one comes soon. - Parameter isThere: nothing of `item` is left to
    /// fetch.
    package mutating func played(_ item: String, next: String?, isThere: Bool) -> [Action] {
        var actions: [Action] = []
        if current?.played != item || current?.next != next {
            actions = cancel()
            guard let next else { return actions }
            current = (item, next, false)
            actions.append(.fetch(next))
        }
        if isThere, let next, current?.wantsMore == false {
            current?.wantsMore = true
            actions.append(.more(next))
        }
        return actions
    }

    /// A program opens an item: the one that was fetched, or another one that it wants instead.
    package mutating func opened(_ item: String) -> [Action] {
        // A reader of the next one wants the bytes that are under way.
        guard let current, item != current.played, item != current.next else { return [] }
        return cancel()
    }

    /// The last reader has left an item. - Parameter isPlayed: as far as `played` means.
    package mutating func closed(_ item: String, isPlayed: Bool) -> [Action] {
        guard let current, current.played == item, !isPlayed, held[item]?.isJudged != true else { return [] }
        return cancel()
    }

    private mutating func cancel() -> [Action] {
        defer { current = nil }
        return current.map { [.cancel($0.next)] } ?? []
    }

    // MARK: Reading that is not seen

    /// A complete item was opened; `released` will follow.
    package mutating func holds(_ item: String, now: Duration) {
        held[item, default: Held(since: now)].opens += 1
    }

    /// A handle of a complete item was closed.
    package mutating func released(_ item: String) {
        held[item]?.opens -= 1
        if held[item]?.opens == 0 { held[item] = nil }
    }

    /// Whether a complete item is open.
    package func isHeld(_ item: String) -> Bool { held[item] != nil }

    /// Looks which open item is being played. - Returns: one that has been open for `unseenPlay`, once.
    package mutating func judge(now: Duration) -> String? {
        let due = held.filter { !$0.value.isJudged && now - $0.value.since >= Self.unseenPlay }
        for item in due.keys { held[item]!.isJudged = true }
        return held.count <= Self.playersItems ? due.max { $0.value.since < $1.value.since }?.key : nil
    }

    /// Whether the clock may bring anything.
    package var isJudging: Bool { held.values.contains { !$0.isJudged } }
}
