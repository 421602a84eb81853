/// The attributes of one file, as `stat` shows them. The kernel adapter adds owner and mode, which are the same for the
/// whole mount.
package struct Attributes: Sendable, Hashable {
    /// The inode number, stable over remounts as it is made from the path.
    package var inode: UInt64
    /// A directory; else a link or a regular file.
    package var isDirectory: Bool
    /// A symbolic link, whose target `Filesystem.readLink` returns.
    package var isLink: Bool
    /// The length in bytes; 0 for a resource whose length is not known yet.
    package var length: Int64
    /// The date in seconds since 1970.
    package var modified: Int64

    package init(inode: UInt64, isDirectory: Bool, isLink: Bool = false, length: Int64, modified: Int64) {
        self.inode = inode
        self.isDirectory = isDirectory
        self.isLink = isLink
        self.length = length
        self.modified = modified
    }
}

/// The result of a lookup. It counts as one reference of the kernel to `node`, until `forget`.
package struct Entry: Sendable {
    /// The node that the name leads to.
    package var node: NodeID
    /// The node's attributes.
    package var attributes: Attributes

    package init(node: NodeID, attributes: Attributes) {
        self.node = node
        self.attributes = attributes
    }
}

/// The answer of `statfs`, in bytes.
package struct Capacity: Sendable {
    /// The cache's cap, in bytes.
    package var total: Int64
    /// The bytes in use, the index among them.
    package var used: Int64

    package init(total: Int64, used: Int64) {
        self.total = total
        self.used = used
    }
}
