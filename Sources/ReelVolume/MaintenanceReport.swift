/// One file of a cache, as `reelfs cache list` shows it.
package struct CachedFile: Codable, Sendable {
    /// The path inside the mount, without a leading `/`; nil where it is not known.
    package var path: String?
    /// The URL, without user, password and query.
    package var url: String
    /// The length in bytes; nil where it is not known yet.
    package var length: Int64?
    /// The cached bytes, on the disk or in memory.
    package var cachedBytes: Int64
    /// The last use, in milliseconds since 1970; nil where nothing of it was cached yet.
    package var lastUse: Int64?
    /// Whether only a command evicts it.
    package var isPinned: Bool
    /// The handles of programs in the mount; 0 without a mount.
    package var openHandles = 0

    /// The path, or the URL where the path is not known.
    package var name: String { path ?? url }
}

/// The progress of a long piece of work, in bytes.
package struct MaintenanceProgress: Codable, Sendable, Hashable {
    /// The bytes done, at most `total`.
    package var done: Int64
    /// All bytes to do; 0 where that is not known.
    package var total: Int64

    package init(done: Int64, total: Int64) {
        self.done = done
        self.total = total
    }
}

/// The outcome of pinning, evicting, pruning or verifying.
package struct MaintenanceReport: Codable, Sendable {
    /// The number of files.
    package var files = 0
    /// The bytes that were verified, or freed.
    package var bytes: Int64 = 0
    /// Blocks whose bytes have changed on the disk.
    package var damagedBlocks = 0
    /// Damaged blocks that were removed and fetched again at once.
    package var refetchedBlocks = 0
    /// The files with damaged blocks, at most a hundred.
    package var damagedFiles: [String] = []
    /// Why not all damaged blocks were fetched again; nil: they were, or no repair was wanted.
    package var failure: String?
    /// Directories that were left out because they have not been listed yet.
    package var unlistedDirectories = 0

    package init() {}

    /// Adds the numbers of another report.
    package mutating func add(_ other: MaintenanceReport) {
        // Wrapping, as the numbers may come from another user's daemon.
        files &+= other.files
        bytes &+= other.bytes
        damagedBlocks &+= other.damagedBlocks
        refetchedBlocks &+= other.refetchedBlocks
        for name in other.damagedFiles { addDamaged(name) }
        failure = failure ?? other.failure
        unlistedDirectories &+= other.unlistedDirectories
    }

    /// Adds the name of a file with damaged blocks, unless there are a hundred.
    package mutating func addDamaged(_ name: String) { if damagedFiles.count < 100 { damagedFiles.append(name) } }
}

/// The client of a piece of maintenance, which follows its progress and may end it.
package struct MaintenanceWatch: Sendable {
    /// Takes the progress: at each step, and every 200 ms while there is none.
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

/// The reason why maintenance failed.
package struct MaintenanceFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// One sentence for the user.
    package var description: String

    package init(_ description: String) { self.description = description }
}
