import ReelThreads
import Synchronization

/// Whether the disk takes the bytes that are written to it. After a failure nothing is written for a while: the cache
/// then works in memory, and one write now and then finds out whether the disk is well again.
///
/// well → (a write fails) → suspended until a moment → (the next write after it) → well, or suspended for twice as
/// long.
struct DiskHealth: Sendable {
    /// Half a minute at most without a try: a disk that has space again should not wait longer.
    static let longestPause = Duration.seconds(30)

    /// The last failure, nil if the disk is well.
    private(set) var failure: CacheError?
    private var pause = Duration.zero
    private var retryAt = Duration.zero
    /// A sync has failed: bytes that the page cache takes prove nothing until they have reached the disk.
    private var needsProof = false

    func mayTry(_ now: Duration) -> Bool { failure == nil || now >= retryAt }

    /// - Parameter needsProof: a sync failed: only another one shows that the disk is well.
    mutating func failed(_ error: CacheError, _ now: Duration, needsProof: Bool = false) {
        self.needsProof = self.needsProof || needsProof
        defer { failure = error }
        guard now >= retryAt else { return }
        pause = failure == nil ? .seconds(1) : min(pause * 2, Self.longestPause)
        retryAt = now + pause
    }

    /// The page cache took bytes.
    mutating func worked() { if !needsProof { failure = nil } }

    /// A sync succeeded, which proves nothing where a write failed.
    mutating func synced() {
        guard needsProof else { return }
        needsProof = false
        failure = nil
    }

    /// No bytes are left that could be the proof: the next ones are.
    mutating func hasNothingToSync(_ now: Duration) { if now >= retryAt { synced() } }
}

/// The health of one cache's disk, and the one listener to its changes. Data files and the index are watched apart:
/// bytes can be cached for a while though no row can be written, and the other way round.
///
/// Each write asks before and reports afterwards: a well disk costs one atomic read each time, and no lock.
final class DiskWatch: Sendable {
    private struct State {
        var data = DiskHealth()
        var index = DiskHealth()
        var failure: CacheError? { data.failure ?? index.failure }
        /// The health as the listener knows it.
        var isReportedWell = true
        /// A thread is in the listener, and looks for news afterwards.
        var isReporting = false

        /// The news that the caller reports now; nil if there is none, or another thread reports.
        mutating func takeNews() -> CacheError?? {
            guard !isReporting, isReportedWell != (failure == nil) else { return .none }
            isReporting = true
            isReportedWell = failure == nil
            return .some(failure)
        }
    }

    private let state = Lock(State())
    /// `State.failure == nil`, written under the lock.
    private let isWell = Atomic(true)
    private let changed: @Sendable (CacheError?) -> Void
    /// Why nothing is ever written, nil if it is.
    private let forever: CacheError?

    /// - Parameters:
    ///   - forever: nothing is to be written as long as this lives.
    ///   - changed: called with the failure, or nil when it is over; one call at a time, the last with how it is.
    init(forever: CacheError?, _ changed: @escaping @Sendable (CacheError?) -> Void) {
        self.forever = forever
        self.changed = changed
        if let forever { changed(forever) }
    }

    /// Why nothing is written at present, nil if it is.
    var failure: CacheError? { forever ?? (isSeenWell ? nil : state.withLock { $0.failure }) }

    var isWritable: Bool { forever == nil }
    var mayWriteData: Bool { isWritable && (isSeenWell || state.withLock { $0.data.mayTry(now()) }) }
    var mayWriteIndex: Bool { isWritable && (isSeenWell || state.withLock { $0.index.mayTry(now()) }) }

    private var isSeenWell: Bool { isWell.load(ordering: .relaxed) }

    /// An error of SQLite is the index's, any other one the data files'. A shortage is neither's.
    func failed(_ error: CacheError, needsProof: Bool = false) {
        if error.isShortage { return }
        change { state in
            if case .index = error {
                state.index.failed(error, now())
            } else {
                state.data.failed(error, now(), needsProof: needsProof)
            }
        }
    }

    func dataWasWritten() { recover { $0.data.worked() } }
    func dataWasSynced() { recover { $0.data.synced() } }
    func hasNothingToSync() { recover { $0.data.hasNothingToSync(now()) } }
    func indexWasWritten() { recover { $0.index.worked() } }

    /// Good news, which changes nothing where the disk is well.
    private func recover(_ body: (inout State) -> Void) { if !isSeenWell { change(body) } }

    private func change(_ body: (inout State) -> Void) {
        guard isWritable else { return }
        var news = state.withLock { state in
            body(&state)
            isWell.store(state.failure == nil, ordering: .relaxed)
            return state.takeNews()
        }
        while case .some(let failure) = news {
            changed(failure)
            news = state.withLock { state in
                state.isReporting = false
                return state.takeNews()
            }
        }
    }
}
