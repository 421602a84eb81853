import ReelCore

/// How direct writes are sized to the disk, and when they are better left alone. A value: what writes and syncs took and
/// moments go in, how much is written at once comes out.
///
/// A direct write holds the file while it runs, and who fills memory may have to wait for it. On a disk on which that
/// takes long the page cache is the better place: it takes bytes at once as long as it has room. But then a direct write
/// queues up behind all of them; so a slow disk is left alone until a sync has shown that it is fast, or nothing is left to
/// be synced.
struct DiskPace: Sendable {
    /// In blocks: a disk that takes 2 MiB at once costs half the time of one that takes 256 KiB.
    static let longestRun = 16
    /// How long a slow disk is left alone at least: twice as long each time, until it has been fast again.
    static let pauses = Duration.seconds(1)...Duration.seconds(64)
    /// The part of its time that a thread may wait for the disk in the long run.
    static let waitingShare = 10

    /// What a fast disk may need before it writes: a seek, or a sync of others.
    let seek: Duration
    /// What a thread may wait for the disk at once: a hiccup.
    let longestWait: Duration

    /// Blocks to write at once. Grows from one while the disk is fast.
    private(set) var run = 1
    private var pause = DiskPace.pauses.lowerBound
    /// Set while it is slow.
    private var slowUntil: Duration?
    /// Bytes in the page cache that no sync has taken yet, and those of the sync that runs.
    private var unsynced: Int64 = 0
    private var syncing: (bytes: Int64, since: Duration)?
    private var mayWait: Duration
    private var refilledAt: Duration?

    init(seek: Duration = .milliseconds(20), longestWait: Duration = .milliseconds(200)) {
        self.seek = seek
        self.longestWait = longestWait
        mayWait = longestWait
    }

    mutating func isSlow(_ now: Duration) -> Bool {
        if let slowUntil, now >= slowUntil, unsynced == 0, syncing == nil { self.slowUntil = nil }
        return slowUntil != nil
    }

    /// A direct write has ended.
    mutating func wrote(_ blocks: Int, in time: Duration, now: Duration) {
        let limit = fast(Int64(blocks) * BlockSize.block)
        if time <= limit {
            run = min(Self.longestRun, max(run, 2 * blocks))
            if run == Self.longestRun { pause = Self.pauses.lowerBound }
        } else if time <= limit * 2 {
            run = max(1, min(run, blocks / 2))
        } else {
            isTooSlow(now)
        }
    }

    /// 64 MiB/s, behind a seek.
    private func fast(_ bytes: Int64) -> Duration {
        seek + .microseconds(bytes * 1_000_000 / (64 << 20))
    }

    /// It was, or somebody has waited for it as long as he may.
    mutating func isTooSlow(_ now: Duration) {
        guard slowUntil == nil else { return }
        run = 1
        slowUntil = now + pause
        pause = min(pause * 2, Self.pauses.upperBound)
    }

    // MARK: The page cache

    mutating func wroteToPageCache(_ bytes: Int64) { unsynced += bytes }

    mutating func syncBegins(_ now: Duration) {
        syncing = (unsynced, now)
        unsynced = 0
    }

    mutating func syncEnds(_ now: Duration) {
        guard let (bytes, since) = syncing else { return }
        syncing = nil
        // A few bytes tell nothing of the disk.
        if let slowUntil, now >= slowUntil, bytes >= BlockSize.extent, now - since <= fast(bytes) {
            self.slowUntil = nil
        }
    }

    // MARK: Waiting

    /// - Returns: how long who fills memory may wait now.
    mutating func waitingTime(_ now: Duration) -> Duration {
        if let refilledAt { mayWait = min(longestWait, mayWait + (now - refilledAt) / Self.waitingShare) }
        refilledAt = now
        return mayWait
    }

    mutating func hasWaited(_ time: Duration) { mayWait = max(.zero, mayWait - time) }
}
