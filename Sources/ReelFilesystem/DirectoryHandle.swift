/// A directory as it was when a program opened it.
package protocol DirectoryHandle: AnyObject, Sendable {
    /// Whether the kernel was sent all of this directory a moment ago, and may use the names that it has kept.
    var isHeldByKernel: Bool { get }

    /// Identifies its listing as long as it is open: two handles of one listing have the same items at the same
    /// offsets. nil if no other handle can have it.
    var listing: ObjectIdentifier? { get }

    /// The kernel keeps nothing of what it reads through this handle. Called before `items`.
    func isNotKept()

    /// Calls `add` with the items from `offset` on (0 is the first) until it returns false, which means "did not fit".
    /// - Parameter withAttributes: count a kernel reference for each added item that has an `entry`.
    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool)
}

extension DirectoryHandle {
    /// The handle's own.
    package var listing: ObjectIdentifier? { nil }
    /// Does nothing.
    package func isNotKept() {}
}

/// One line of a directory's listing.
package struct DirectoryItem {
    /// The name in the directory.
    package var name: String
    /// The same number as in `Attributes.inode`.
    package var inode: UInt64
    /// A directory; else a link or a regular file.
    package var isDirectory: Bool
    /// A symbolic link.
    package var isLink: Bool
    /// The offset of the item after this one.
    package var nextOffset: Int
    /// The node, with one kernel reference that counts once the item was added; nil where attributes were not asked for
    /// or are not known without a request.
    package var entry: Entry?

    package init(
        name: String, inode: UInt64, isDirectory: Bool, isLink: Bool = false, nextOffset: Int, entry: Entry? = nil
    ) {
        self.name = name
        self.inode = inode
        self.isDirectory = isDirectory
        self.isLink = isLink
        self.nextOffset = nextOffset
        self.entry = entry
    }
}
