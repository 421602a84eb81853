import ReelThreads
import Synchronization

/// Whether the disk takes what is written to it. After a failure it is left alone for a while: the cache then works in
/// memory, and one write now and then finds out whether it is over.
///
/// well → (a write fails) → suspended until a moment → (the next write after it) → well, or suspended for twice as long.
struct DiskHealth: Sendable {
    /// Half a minute at most without a try: nobody wants to wait longer for a disk that has room again.
    static let longestPause = Duration.seconds(30)

    /// What failed; nil: nothing did.
    private(set) var failure: CacheError?
    private var pause = Duration.milliseconds(500)
    private var retryAt = Duration.zero

    func mayTry(_ now: Duration) -> Bool { failure == nil || now >= retryAt }

    /// - Returns: true where it was well until now.
    mutating func failed(_ error: CacheError, _ now: Duration) -> Bool {
        defer { failure = error }
        guard now >= retryAt else { return false }
        pause = failure == nil ? .seconds(1) : min(pause * 2, Self.longestPause)
        retryAt = now + pause
        return failure == nil
    }

    /// - Returns: true where it was not well until now.
    mutating func worked() -> Bool {
        defer { failure = nil }
        return failure != nil
    }
}

/// The health of one cache's disk, and who hears of its changes.
final class DiskWatch: Sendable {
    private let state = Mutex(DiskHealth())
    /// Spares the write path a lock while all is well.
    private let isSuspended = Atomic(false)
    private let changed: @Sendable (CacheError?) -> Void
    /// Why nothing is ever written; nil: it is.
    private let forever: CacheError?

    /// - Parameters:
    ///   - forever: nothing is to be written as long as this lives.
    ///   - changed: called with the failure, or nil when it is over.
    init(forever: CacheError?, _ changed: @escaping @Sendable (CacheError?) -> Void) {
        self.forever = forever
        self.changed = changed
        if let forever { changed(forever) }
    }

    /// Why nothing is written at present; nil: it is.
    var failure: CacheError? { forever ?? state.withLock { $0.failure } }

    var isWritable: Bool { forever == nil }

    var mayTry: Bool {
        forever == nil && (!isSuspended.load(ordering: .relaxed) || state.withLock { $0.mayTry(now()) })
    }

    func failed(_ error: CacheError) {
        guard forever == nil else { return }
        let isNew = state.withLock { $0.failed(error, now()) }
        isSuspended.store(true, ordering: .relaxed)
        if isNew { changed(error) }
    }

    func worked() {
        guard isSuspended.load(ordering: .relaxed), state.withLock({ $0.worked() }) else { return }
        isSuspended.store(false, ordering: .relaxed)
        changed(nil)
    }
}
