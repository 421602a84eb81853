import ReelCore

/// An open file as the kernel adapter holds it, between `open` and `close`.
package protocol FileHandle: AnyObject, Sendable {
    /// True where the length is not known, or grows, so that the kernel must not stop at `st_size`. Else the kernel may
    /// keep its pages from earlier opens, as a node is one version.
    var wantsDirectIO: Bool { get }
    /// Bytes; nil until the end is known.
    var length: Int64? { get }
    /// Whether the node's attributes, if they have a length, have this one.
    var isLengthShown: Bool { get }
    /// Names the version for as long as the origin does; weak where only a weak tag names it, nil where nothing does.
    var entityTag: EntityTag? { get }
    /// Names the resource whose bytes these are, whatever its version; nil where nothing does.
    var resource: UInt64? { get }
    /// The date that the origin states for the version, in seconds since 1970; nil where it states none.
    var modified: Int64? { get }

    /// The local file that holds this one's bytes, for the kernel to read instead; nil where there is none.
    ///
    /// The adapter asks once, between `open` and its answer, and only where passthrough may be possible. While one open
    /// handle of a node has begun passthrough, each further handle of the node must offer the same file, or its open
    /// fails with `stale` after `Filesystem.supersede`. `PassthroughFile` lists the promises of an offer.
    func passthroughFile() -> PassthroughFile?

    /// The kernel took the offer: until `close` it reads this handle itself, and the filesystem sees nothing of it.
    /// Called once or never, after `passthroughFile` and before a program can read. `Filesystem.read` still serves the
    /// kernel's reads on its own account, such as posix_fadvise(2)'s WILLNEED.
    func passthroughBegan()
}

extension FileHandle {
    package var length: Int64? { nil }
    package var isLengthShown: Bool { true }
    package var entityTag: EntityTag? { nil }
    package var resource: UInt64? { nil }
    package var modified: Int64? { nil }
    package func passthroughFile() -> PassthroughFile? { nil }
    package func passthroughBegan() {}
}
