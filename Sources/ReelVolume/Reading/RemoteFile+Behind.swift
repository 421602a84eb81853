import ReelCore
import ReelFilesystem

/// Drops the memory that readers have left behind: see `DropBehind`. Each byte should be in the page cache once at
/// most, and the bytes of a long file only while a reader is near them.
extension RemoteFile {
    /// While the file is being fetched, drops the data file's pages and those of the mount: the next hour of a film
    /// would cost memory twice. Of a complete file, keeps the pages from which the kernel reads without asking: the
    /// data file's where it reads that itself, else the mount's.
    func leave(_ range: ByteRange, of node: NodeID) {
        let isComplete = isComplete
        let kernel = services.kernel.withLock { $0 }
        let readsDataFile = (kernel?.readsDataFiles ?? false) && !object.isEncrypted
        if !isComplete || !readsDataFile { object.leaveMemory(range) }
        if !isComplete || readsDataFile { kernel?.forgetPages(of: node, range) }
    }
}
