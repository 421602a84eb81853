import ReelCore

extension FolderWalk {
    struct State {
        var walk: TreeWalk<Folder>
        /// The most folders to begin with.
        var limit: Int
        var report = MaintenanceReport()
        var isOver = false
        /// The directories that are being listed.
        var running: [ObjectIdentifier: Directory] = [:]
        /// A job on the queue goes on.
        var isScheduled = false
        /// Listed ahead, the oldest first, until a program reads them, and the memory of their listings.
        var kept: [(folder: Folder, size: Int)] = []
        var keptSize = 0
    }
}

extension FolderWalk.State {
    /// An origin that fails so often is asked no more.
    private static let mostFailures = 100
    private static let mostFolders = 1_000_000

    /// Notes what came of a folder; after many failures, or in a tree without end, the walk is over.
    mutating func note(_ folder: FolderWalk.Folder, _ found: FolderWalk.Found) {
        report.files += 1
        switch found {
        case .listed(_, let trouble?): fail(folder, trouble + "; it keeps what it had")
        case .failed(let reason): fail(folder, reason)
        case .listed, .givenUp: break
        }
        if report.files >= Self.mostFolders { end(folder, "there are a million directories") }
    }

    private mutating func fail(_ folder: FolderWalk.Folder, _ reason: String) {
        report.failedDirectories.append(FailedDirectory(path: folder.path, reason: reason))
        guard report.failedDirectories.count >= Self.mostFailures else { return }
        end(folder, "too many directories could not be listed")
    }

    /// Ends the walk before its time.
    private mutating func end(_ folder: FolderWalk.Folder, _ reason: String) {
        guard !isOver else { return }
        let text = "\(reason), so those after it are left out"
        report.failedDirectories.append(FailedDirectory(path: folder.path, reason: text))
        isOver = true
    }
}
