/// One file of a cache, as `reelfs cache list` shows it.
package struct CachedFile: Codable, Sendable {
    /// Inside the mount, without a leading `/`; nil where its name there is not known.
    package var path: String?
    /// Without user, password and query.
    package var url: String
    /// nil for a resource whose length is not known yet.
    package var length: Int64?
    /// On the disk or in memory.
    package var cachedBytes: Int64
    /// Milliseconds since 1970; nil where nothing of it was cached yet.
    package var lastUse: Int64?
    /// Never evicted by itself.
    package var isPinned: Bool
    /// Of programs in the mount; 0 without a mount.
    package var openHandles = 0

    /// The name that a user knows it by.
    package var name: String { path ?? url }
}

/// How far a long piece of work is, in bytes.
package struct MaintenanceProgress: Codable, Sendable, Hashable {
    /// At most `total`.
    package var done: Int64
    /// 0 where it is not known.
    package var total: Int64

    package init(done: Int64, total: Int64) {
        self.done = done
        self.total = total
    }
}

/// The outcome of pinning, evicting, pruning or verifying.
package struct MaintenanceReport: Codable, Sendable {
    /// Files that it was done to.
    package var files = 0
    /// Bytes looked at, or freed.
    package var bytes: Int64 = 0
    /// Blocks that are not what was written.
    package var damagedBlocks = 0
    /// Of these: taken out of the cache, and fetched again at once.
    package var refetchedBlocks = 0
    /// The files that they are of, at most a hundred.
    package var damagedFiles: [String] = []
    /// Why not all of them were fetched again.
    package var failure: String?
    /// Directories that were left out, as they have not been listed yet.
    package var unlistedDirectories = 0

    package init() {}

    package mutating func add(_ other: MaintenanceReport) {
        // Wrapping: the daemon that says these numbers may be another user's.
        files &+= other.files
        bytes &+= other.bytes
        damagedBlocks &+= other.damagedBlocks
        refetchedBlocks &+= other.refetchedBlocks
        for name in other.damagedFiles { addDamaged(name) }
        failure = failure ?? other.failure
        unlistedDirectories &+= other.unlistedDirectories
    }

    package mutating func addDamaged(_ name: String) { if damagedFiles.count < 100 { damagedFiles.append(name) } }
}

/// The client of a piece of maintenance: is told how far it is, and says when it no longer wants it.
package struct MaintenanceWatch: Sendable {
    /// Called with each news, and every 200 ms while there is none.
    package var progress: @Sendable (MaintenanceProgress) -> Void
    /// True once the client no longer wants the work.
    package var isOver: @Sendable () -> Bool

    package init(
        progress: @escaping @Sendable (MaintenanceProgress) -> Void = { _ in },
        isOver: @escaping @Sendable () -> Bool = { false }
    ) {
        self.progress = progress
        self.isOver = isOver
    }
}

/// Why maintenance failed: one sentence.
package struct MaintenanceFailure: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String

    package init(_ description: String) { self.description = description }
}
