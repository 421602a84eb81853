/// Names one inode to the kernel, from the lookup that made it known until it is forgotten. 1 is the root.
///
/// A node is one *version* of one path: when the origin's resource changes, its path gets a new node, so pages that the
/// kernel caches can never mix two versions. The inode number that programs see (`Attributes.inode`) stays the same.
package typealias NodeID = UInt64

/// The node of the mount's root.
package let rootNode: NodeID = 1

/// The directory of a node, and its name there.
package struct NodePlace: Sendable {
    package var parent: NodeID
    package var name: String
    package var isDirectory: Bool

    package init(parent: NodeID, name: String, isDirectory: Bool) {
        self.parent = parent
        self.name = name
        self.isDirectory = isDirectory
    }
}
