/// The order of the program's locks. While a thread holds a lock it may take only locks of a later rank, and none under
/// a leaf. The page Architecture has the same table; a test compares the two.
@usableFromInline package enum LockRank: Int, CaseIterable, Sendable {
    /// Which of several transports writes to the cache; held over one call of a receiver.
    case writer
    /// Who makes room in the cache ahead of what is written; held over transactions, holes and calls of holders.
    case room
    /// The nodes that the kernel knows, and the listings of directories.
    case tree
    /// The reader of one folder's listing, while it reads.
    case folder
    /// The versions that are open; held while one of them is made.
    case files
    /// One open version: its ledger, the reads that wait, its URL and its programs.
    case file
    /// How the opens of each node read; held over an ioctl(2) of the mount's device.
    case opens
    /// One commit of the cache at a time; held over fdatasync(2).
    case commit
    /// The SQLite connections; held over statements.
    case index
    /// Everything else.
    case leaf

    /// The number of ranks.
    package static let count = allCases.count
}
