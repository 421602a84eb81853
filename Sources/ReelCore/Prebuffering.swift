/// Which item of a queue is fetched before anybody opens it: events in, actions out. Items go by a name of their own.
///
/// The queue is the order of a directory or a list. One item at a time: the one behind the one that is being played
/// through. It is let go of when the reader goes elsewhere.
package struct Prebuffering: Sendable {
    package enum Action: Hashable, Sendable {
        case fetch(String)
        case cancel(String)
    }

    /// `isUnderWay`: until its bytes are there.
    private var current: (played: String, next: String, isUnderWay: Bool)?

    package init() {}

    /// A reader is so far in `item` that the next one comes soon.
    package mutating func played(_ item: String, next: String?) -> [Action] {
        if let current, current.played == item, current.next == next { return [] }
        let cancelled = cancel()
        guard let next else { return cancelled }
        current = (item, next, true)
        return cancelled + [.fetch(next)]
    }

    /// Somebody opens an item: what was fetched for is there, or another one is wanted.
    package mutating func opened(_ item: String) -> [Action] {
        guard let current, item != current.played else { return [] }
        if item == current.next {
            // What is under way is what its reader wants first.
            return []
        }
        return cancel()
    }

    /// The last reader has left an item. - Parameter isPlayed: as far as `played` means.
    package mutating func closed(_ item: String, isPlayed: Bool) -> [Action] {
        guard let current, current.played == item, !isPlayed else { return [] }
        return cancel()
    }

    /// Its bytes are there, or do not come.
    package mutating func finished(_ item: String) {
        if current?.next == item { current?.isUnderWay = false }
    }

    private mutating func cancel() -> [Action] {
        defer { current = nil }
        guard let current, current.isUnderWay else { return [] }
        return [.cancel(current.next)]
    }
}
