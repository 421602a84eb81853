/// One file of a cache, as `reelfs cache list` shows it.
package struct CachedFile: Codable, Sendable {
    /// Inside the mount, without a leading `/`; nil where it is not known what it is called there.
    package var path: String?
    /// Without user, password and query.
    package var url: String
    /// nil for a resource whose length nobody knows yet.
    package var length: Int64?
    package var cachedBytes: Int64
    /// Milliseconds since 1970; nil where nothing of it was cached yet.
    package var lastUse: Int64?
    package var isPinned: Bool
    package var openHandles: Int

    package init(
        path: String?, url: String, length: Int64?, cachedBytes: Int64, lastUse: Int64?, isPinned: Bool,
        openHandles: Int = 0
    ) {
        self.path = path
        self.url = url
        self.length = length
        self.cachedBytes = cachedBytes
        self.lastUse = lastUse
        self.isPinned = isPinned
        self.openHandles = openHandles
    }

    /// As people know it.
    package var name: String { path ?? url }
}

/// How far a long piece of work is, in bytes.
package struct CareProgress: Codable, Sendable, Hashable {
    package var done: Int64
    package var total: Int64

    package init(done: Int64, total: Int64) {
        self.done = done
        self.total = total
    }
}

/// What came of pinning, evicting, pruning or verifying.
package struct CareReport: Codable, Sendable {
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
    /// Directories that were left out, as nobody has listed them yet.
    package var unlistedDirectories = 0

    package init() {}

    package mutating func add(_ other: CareReport) {
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

/// Who waits for care to be taken: hears how far it is, and says when nobody wants it any more.
package struct CareWatch: Sendable {
    /// Called as often as there is news, and every 200 ms while there is none.
    package var progress: @Sendable (CareProgress) -> Void
    package var isOver: @Sendable () -> Bool

    package init(
        progress: @escaping @Sendable (CareProgress) -> Void = { _ in },
        isOver: @escaping @Sendable () -> Bool = { false }
    ) {
        self.progress = progress
        self.isOver = isOver
    }
}

/// Why nothing came of it: one sentence.
package struct CareFailure: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String

    package init(_ description: String) { self.description = description }
}
