import ReelCore
import ReelFilesystem
import ReelThreads

/// What is known of the growth of one file (`--growing`): a value behind a lock of its `RemoteFile`.
struct Growth {
    /// A read at the end of the file, which waits for more.
    struct EndRead: Sendable {
        let caller: any ParkedRead
        /// The node of the handle.
        let node: NodeID
        let offset: Int64
        let count: Int
        let deadline: Duration
    }

    typealias Waiter = @Sendable (GrowthProof.Verdict) -> Void

    /// Between two looks where none finds anything and no reader waits: the pauses double up to this.
    static let longestPause = Duration.seconds(16)
    /// A read that is late waits so long for a look.
    private static let grace = Duration.seconds(1)

    /// The growth of one file behind its lock.
    final class Shared: Sendable {
        private let growth: Lock<Growth>

        init(wait: Duration) { growth = Lock(Growth(wait: wait)) }

        func withLock<Answer>(_ body: (inout Growth) -> sending Answer) -> sending Answer {
            growth.withLock { body(&$0) }
        }
    }

    /// The time for which a reader at the end waits.
    private let wait: Duration
    /// Between two looks, as long as something is found or a reader waits: it has several.
    private let shortestPause: Duration
    private(set) var readers: [EndRead] = []
    /// The nodes of the open handles, by handle.
    private var handles: [ObjectIdentifier: Node] = [:]
    /// The nodes by whose handles the kernel keeps what it reads, since the file is in the table.
    private var keepers: Set<NodeID> = []
    /// They wait for a comparison that has not begun.
    private var waiting: [Waiter] = []
    private(set) var isComparing = false
    private var grownAt: Duration?
    /// A reader has come to the end: the origin is asked for more until the last close.
    private var isFollowed = false
    private var isLooking = false
    private var pause: Duration
    private var nextLook = Duration.zero

    /// Programs may have bytes of it that the ledger has not counted.
    var isReadUncounted = false

    /// - Parameter wait: of a reader at the end.
    init(wait: Duration) {
        self.wait = wait
        shortestPause = min(.seconds(2), wait / 4)
        pause = shortestPause
    }

    // MARK: Readers

    /// Whether more is to be expected: it became longer, or was changed, within twice the time that a reader waits.
    /// - Parameters:
    ///   - changedAt: in seconds since 1970, as the origin states it.
    ///   - date: now, in seconds since 1970.
    func isLive(changedAt: Int64?, date: Int64, now: Duration) -> Bool {
        if let grownAt, now - grownAt < wait * 2 { return true }
        return changedAt.map { .seconds(date - $0) < wait * 2 } ?? false
    }

    /// A reader has come to the end.
    mutating func reachedEnd() { isFollowed = true }

    mutating func add(_ reader: EndRead) { readers.append(reader) }

    /// Takes the readers that have bytes before them now.
    mutating func takeReaders(before length: Int64) -> [EndRead] { take { $0.offset < length } }

    /// Takes the readers that see the end now. A look that is under way may show that there is more: they wait for it,
    /// but no longer than `grace`, as an origin that has gone silent ends no look for long.
    mutating func takeLate(_ now: Duration) -> [EndRead] {
        let isLooking = isLooking
        return take { isLooking ? $0.deadline + Self.grace < now : $0.deadline <= now }
    }

    /// Takes all readers, and asks for no more: the origin has another version, or the volume has gone.
    mutating func end() -> [EndRead] {
        isFollowed = false
        return take { _ in true }
    }

    mutating func abandon(_ caller: any ParkedRead) { readers.removeAll { $0.caller === caller } }

    private mutating func take(_ isMeant: (EndRead) -> Bool) -> [EndRead] {
        let taken = readers.filter(isMeant)
        readers.removeAll(where: isMeant)
        return taken
    }

    // MARK: Handles

    /// - Parameter hadPages: the kernel keeps what it reads by the handle, and may have had pages of the node before;
    ///   nil where it keeps none.
    mutating func opened(_ handle: ObjectIdentifier, _ node: Node, hadPages: Bool?) {
        handles[handle] = node
        guard let hadPages, keepers.insert(node.id).inserted else { return }
        // The file was open before, and left the table: no ledger counts what is read of those pages.
        if hadPages { isReadUncounted = true }
    }

    mutating func closed(_ handle: ObjectIdentifier) {
        handles[handle] = nil
        if handles.isEmpty { isFollowed = false }
    }

    /// The nodes of the open handles.
    var nodes: [Node] { Array(handles.values) }

    // MARK: Looks

    /// Whether the clock may bring something.
    var isAwaited: Bool { isFollowed || !readers.isEmpty }

    /// Whether the origin is to be asked now. - Returns: true once for each look.
    mutating func takeLook(_ now: Duration) -> Bool {
        guard isFollowed, !isLooking, now >= nextLook else { return false }
        isLooking = true
        return true
    }

    /// A look has ended. - Parameter isNews: the file has become longer.
    mutating func looked(isNews: Bool, _ now: Duration) {
        isLooking = false
        if !isNews, readers.isEmpty { pause = min(pause * 2, Self.longestPause) }
        nextLook = now + (readers.isEmpty ? pause : shortestPause)
    }

    /// The file has become longer.
    mutating func grew(_ now: Duration) {
        (grownAt, pause) = (now, shortestPause)
        nextLook = now + pause
    }

    // MARK: Comparisons

    /// - Returns: whether the caller has to begin a comparison.
    mutating func compare(_ waiter: @escaping Waiter) -> Bool {
        waiting.append(waiter)
        defer { isComparing = true }
        return !isComparing
    }

    /// A comparison begins. - Returns: those that it is for.
    mutating func beginComparison() -> [Waiter] {
        defer { waiting = [] }
        return waiting
    }

    /// - Returns: whether another one has to begin.
    mutating func endComparison() -> Bool {
        isComparing = !waiting.isEmpty
        return isComparing
    }
}
