import ReelFilesystem
import ReelThreads

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
    /// Why not all damaged blocks were fetched again, nil if they were, or no repair was wanted.
    package var failure: String?
    /// Directories that were left out because they have not been listed yet.
    package var unlistedDirectories = 0
    /// Directories that could not be listed again.
    package var failedDirectories: [FailedDirectory] = []

    package init() {}

    /// Frees bytes in steps, until they are freed, or no more can go.
    /// - Parameters:
    ///   - used: of the cache.
    ///   - isOver: nobody wants the rest any more.
    ///   - free: frees about this many bytes; 0 ends the work.
    package static func pruning<Failure: Error>(
        _ bytes: Int64, of used: Int64, _ progress: (MaintenanceProgress) -> Void, isOver: () -> Bool = { false },
        _ free: (Int64) throws(Failure) -> Int64
    ) throws(Failure) -> MaintenanceReport {
        var report = MaintenanceReport()
        let total = max(0, min(bytes, used))
        while true {
            progress(MaintenanceProgress(done: min(report.bytes, total), total: total))
            let freed = try free(total - report.bytes)
            report.bytes += freed
            guard freed > 0, !isOver() else { return report }
        }
    }

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
        failedDirectories += other.failedDirectories
    }

    /// Adds the name of a file with damaged blocks, unless there are a hundred.
    package mutating func addDamaged(_ name: String) { if damagedFiles.count < 100 { damagedFiles.append(name) } }
}

/// A directory that could not be listed again.
package struct FailedDirectory: Codable, Sendable, Hashable {
    /// The path inside the mount, without a leading `/`; empty for its root.
    package var path: String
    /// Why, such as `status-503`, and what follows from it.
    package var reason: String
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

    /// Waits for a call of the filesystem. - Throws: where the client goes before.
    func wait<Value: Sendable>(
        _ call: (@escaping Completion<Value>) -> Void
    ) throws(MaintenanceFailure) -> Result<Value, VolumeError> {
        let answer = Monitor<Result<Value, VolumeError>?>(nil)
        call { result in answer.withLock { $0 = result } }
        return try wait(for: answer)
    }

    /// Waits for an answer, and reports progress meanwhile.
    /// - Parameter isGone: who would give it has ended.
    /// - Throws: if the client goes before, or no answer can come any more.
    func wait<Value: Sendable>(
        for answer: Monitor<Value?>, _ progress: MaintenanceProgress? = nil, unless isGone: () -> Bool = { false }
    ) throws(MaintenanceFailure) -> Value {
        while true {
            let isLast = isGone()
            if let value = answer.wait(atMost: .milliseconds(200), { $0 }) { return value }
            if isOver() { throw MaintenanceFailure("it was ended before its time") }
            if isLast { throw .sourceLeft }
            self.progress(progress ?? MaintenanceProgress(done: 0, total: 0))
        }
    }
}

/// The reason why maintenance failed.
package struct MaintenanceFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// One sentence for the user.
    package var description: String
    /// No listing has the path.
    package var isUnlisted = false

    package init(_ description: String) { self.description = description }

    /// A command outlives the sources of a catalogue.
    static let sourceLeft = MaintenanceFailure("its source has left the catalogue")

    /// No listing has the path.
    static func unlisted(_ path: String) -> MaintenanceFailure {
        var failure = MaintenanceFailure("\(path) is not listed in the mount")
        failure.isUnlisted = true
        return failure
    }

    /// Names the path in the mount. - Parameter folder: of the source, whose error names the path in it.
    func below(_ folder: String) -> MaintenanceFailure {
        var failure = self
        failure.description = "\(folder)/\(description)"
        return failure
    }
}
