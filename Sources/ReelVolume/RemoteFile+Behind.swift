import ReelCore

/// Memory that readers have left behind: see `DropBehind`. Each byte should be in the page cache once at most, and
/// those of a long file only while a reader is near them.
extension RemoteFile {
    struct Behind {
        var range: ByteRange
        var isComplete: Bool

        init?(_ state: inout State) {
            guard let range = state.ledger.takeBehind() else { return nil }
            self.range = range
            isComplete = state.ledger.isComplete
        }
    }

    /// Drops both while the file is being fetched, the data file's pages and those of the mount, or the next hour of a
    /// film would cost memory twice. Of a complete file the pages stay from which the kernel reads without asking: the
    /// data file's where it reads that itself, else the mount's.
    func leave(_ behind: Behind, of node: NodeID) {
        let kernel = services.kernel.withLock { $0 }
        let readsDataFile = kernel?.readsDataFiles ?? false
        if !behind.isComplete || !readsDataFile { object.leaveMemory(behind.range) }
        if !behind.isComplete || readsDataFile { kernel?.forgetPages(of: node, behind.range) }
    }
}
