/// Which item of a queue is fetched before anybody opens it: events in, actions out. Items go by a name of their own.
///
/// The queue is the order of a directory or a list. One item at a time: the one behind the one that is being played
/// through. It is let go of when the reader goes elsewhere.
package struct Prebuffering: Sendable {
    package enum Action: Hashable, Sendable {
        /// Its head and tail.
        case fetch(String)
        /// More of its head.
        case more(String)
        /// Stop what is under way; nobody is expected to read what is there.
        case cancel(String)
    }

    /// An item that is there as a whole may be read without our seeing it, by passthrough or from the page cache. Held open
    /// for so long it is being played: a scanner looks at its head and tail and is gone, a song is not over yet.
    package static let unseenPlay = Duration.seconds(30)
    /// Who has more items open at a time is no player.
    private static let playersItems = 3

    private struct Held {
        var opens: Int
        var since: Duration
        var isJudged = false
        var isPlayed = false
    }

    private var current: (played: String, next: String, hasMore: Bool)?
    /// Complete items that are open.
    private var held: [String: Held] = [:]

    package init() {}

    /// A reader is so far in `item` that the next one comes soon. - Parameter isThere: it has all that it still wants.
    package mutating func played(_ item: String, next: String?, isThere: Bool) -> [Action] {
        var actions: [Action] = []
        if current?.played != item || current?.next != next {
            actions = cancel()
            guard let next else { return actions }
            current = (item, next, false)
            actions.append(.fetch(next))
        }
        if isThere, let next, current?.hasMore == false {
            current?.hasMore = true
            actions.append(.more(next))
        }
        return actions
    }

    /// Somebody opens an item: what was fetched for is there, or another one is wanted.
    package mutating func opened(_ item: String) -> [Action] {
        // What is under way of the next one is what its reader wants first.
        guard let current, item != current.played, item != current.next else { return [] }
        return cancel()
    }

    /// The last reader has left an item. - Parameter isPlayed: as far as `played` means.
    package mutating func closed(_ item: String, isPlayed: Bool) -> [Action] {
        guard let current, current.played == item, !isPlayed, held[item]?.isPlayed != true else { return [] }
        return cancel()
    }

    private mutating func cancel() -> [Action] {
        defer { current = nil }
        return current.map { [.cancel($0.next)] } ?? []
    }

    // MARK: Reading that is not seen

    /// A complete item was opened; `released` will follow.
    package mutating func holds(_ item: String, now: Duration) {
        held[item, default: Held(opens: 0, since: now)].opens += 1
    }

    package mutating func released(_ item: String) {
        held[item]?.opens -= 1
        if held[item]?.opens == 0 { held[item] = nil }
    }

    package func isHeld(_ item: String) -> Bool { held[item] != nil }

    /// - Returns: the item that has turned out to be played.
    package mutating func judge(now: Duration) -> String? {
        let due = held.filter { !$0.value.isJudged && now - $0.value.since >= Self.unseenPlay }
        for item in due.keys { held[item]!.isJudged = true }
        guard held.count <= Self.playersItems, let latest = due.max(by: { $0.value.since < $1.value.since })?.key
        else { return nil }
        held[latest]!.isPlayed = true
        return latest
    }

    /// Whether time may make a difference.
    package var isJudging: Bool { held.values.contains { !$0.isJudged } }
}
