import ReelCore

/// Names one inode to the kernel, from the lookup that made it known until it is forgotten. 1 is the root.
///
/// A node is one *version* of one path: when the origin's resource changes, its path gets a new node, so pages that the
/// kernel caches can never mix two versions. The inode number that programs see (`Attributes.inode`) stays the same.
package typealias NodeID = UInt64

/// The node of the mount's root.
package let rootNode: NodeID = 1

/// The attributes of one file, as `stat` tells them. Owner and mode are the same for the whole mount and added by the
/// kernel adapter.
package struct Attributes: Sendable, Hashable {
    /// Stable over remounts: made from the path.
    package var inode: UInt64
    /// Else a regular file.
    package var isDirectory: Bool
    /// Bytes; 0 for a resource whose length is not known yet.
    package var length: Int64
    /// For `st_blocks`, which tells them in units of 512.
    package var cachedBytes: Int64
    /// Seconds since 1970.
    package var modified: Int64
}

/// A name resolved: one kernel reference to `node` is counted until `forget`.
package struct Entry: Sendable {
    package var node: NodeID
    package var attributes: Attributes
}

/// One line of a directory's listing.
package struct DirectoryItem {
    package var name: String
    package var inode: UInt64
    package var isDirectory: Bool
    /// Where to go on behind this item.
    package var nextOffset: Int
    /// With one kernel reference, which counts once the item was added; nil where attributes were not asked for or are
    /// not known without a request.
    package var entry: Entry?
}

/// The answer of `statfs`, in bytes.
package struct Capacity: Sendable {
    /// The cache's cap.
    package var total: Int64
    /// What it holds, index and all.
    package var used: Int64
}

/// Why an operation failed. `ReelFuse` holds the one table that turns these into errnos.
package enum VolumeError: Error, Hashable, Sendable {
    case notFound
    case notDirectory
    case isDirectory
    case readOnly
    /// 401 or 403, also after asking the original URL again.
    case accessDenied
    /// 404 or 410 for a known name, or another version than the open one: reopen.
    case stale
    case timedOut
    /// The origin cannot be reached and the bytes are not cached.
    case unreachable
    /// The same, and known before it was asked for: nothing was tried.
    case offline
    /// A server error after retries, a wrong answer, a cache that cannot be read.
    case failed
    case interrupted
    case noAttribute
    /// An attribute of a kind that the filesystem has none of.
    case unsupported
    case nameTooLong
}

/// A read that waits for its bytes. Data, an interrupt, the deadline and shutdown race for it: the implementation lets
/// the first call through and ignores the others. Callable from any thread.
package protocol ParkedRead: AnyObject, Sendable {
    /// - Parameter bytes: valid during the call; fewer than asked for only at the end of the file.
    func succeed(_ bytes: UnsafeRawBufferPointer)
    func fail(_ error: VolumeError)
}

/// The outcome of a read's first attempt.
package enum ReadAnswer: Sendable {
    /// That many bytes are in the buffer; fewer than asked for only at the end of the file.
    case read(Int)
    /// The parked read was taken; it will be answered exactly once.
    case parked
    case failed(VolumeError)
}

/// Called exactly once, from any thread, perhaps before the call that took it returns.
package typealias Completion<Value> = @Sendable (Result<Value, VolumeError>) -> Void

/// An open file as the kernel adapter holds it, between `open` and `close`.
package protocol FileHandle: AnyObject, Sendable {
    /// True where the length is not known: the kernel then does not stop at `st_size`. Else it may keep the pages it
    /// has from earlier opens, as a node is one version.
    var wantsDirectIO: Bool { get }

    /// The file that holds this one's bytes, for the kernel to read in the filesystem's place; nil where there is none.
    ///
    /// Asked once, on the way from `open` to its answer, and only where passthrough may be possible. While a node has
    /// open handles of which one has begun passthrough, each further handle of the node must offer the same file, or
    /// its open fails with `stale`. See `PassthroughFile` for what an offer promises.
    func passthroughFile() -> PassthroughFile?

    /// The kernel took the offer: reads of this handle go past `Filesystem.read` until `close`, so nothing is seen of
    /// them. Called once or never, after `passthroughFile` and before a program can read. `read` is still asked for
    /// what the kernel reads on its own account, such as posix_fadvise(2)'s WILLNEED, and answers as ever.
    func passthroughBegan()
}

extension FileHandle {
    package func passthroughFile() -> PassthroughFile? { nil }
    package func passthroughBegan() {}
}

/// A complete, verified file on the local disk: byte for byte the file of the mount, and exactly as long.
///
/// An offer promises:
/// - The file has `length` bytes, which is the `st_size` that the kernel was told, every one of them verified. The
///   kernel does not clamp, it reads holes as zeros, unseen by the daemon.
/// - `descriptor` stays open until `passthroughBegan` has been called or the handle is closed.
/// - Until the handle is closed no byte of the file is punched, truncated or replaced.
/// - From the first offer on no byte of the file is punched, truncated or replaced while anybody may read it, and
///   `close` does not tell that: a mapping (mmap(2)) outlives it, and handles and mappings outlive the daemon, also one
///   that was killed. What tells is a write lease (`reel_is_open_elsewhere` in CLinux, asked on the only descriptor
///   that the daemon has of the file): where it is not granted, the file may only be unlinked as a whole, and what is
///   fetched again goes to a new file.
/// - Until the last handle that has begun is closed, unlinking the file frees no room.
package struct PassthroughFile: Sendable, Hashable {
    package var descriptor: Int32
    package var length: Int64
}

/// A directory as it was when it was opened.
package protocol DirectoryHandle: AnyObject, Sendable {
    /// True where the kernel was told all of this directory, and a moment ago: it may read what it has kept of it.
    var isHeldByKernel: Bool { get }

    /// Calls `add` with the items from `offset` on (0 is the first) until it says false, which means "did not fit".
    /// - Parameter withAttributes: count a kernel reference for each added item that has an `entry`.
    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool)
}

/// The read-only filesystem without a kernel. Every call is thread-safe and none blocks on the network.
package protocol Filesystem: AnyObject, Sendable {
    func lookup(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>)
    /// Drops `count` of the kernel's references.
    func forget(_ node: NodeID, count: UInt64)
    func attributes(of node: NodeID, _ completion: @escaping Completion<Attributes>)

    func open(_ node: NodeID, _ completion: @escaping Completion<any FileHandle>)
    func close(_ file: any FileHandle)

    /// The hit path: bytes that are cached are copied into `buffer` before it returns, without allocation. On a miss
    /// `park` is called once and its result kept until it is answered.
    func read(
        _ file: any FileHandle, offset: Int64, into buffer: UnsafeMutableRawBufferPointer, park: () -> any ParkedRead
    ) -> ReadAnswer
    /// The kernel no longer waits for this read. It may be answered all the same; the answer is ignored.
    func abandon(_ read: any ParkedRead, of file: any FileHandle)

    func openDirectory(_ node: NodeID, _ completion: @escaping Completion<any DirectoryHandle>)

    func capacity() -> Capacity
    /// Answers from what is known, without a request.
    func extendedAttribute(_ name: String, of node: NodeID) -> Result<[UInt8], VolumeError>
    func extendedAttributeNames(of node: NodeID) -> Result<[String], VolumeError>
}

/// How long the kernel may believe what it was told.
package enum KernelBelief {
    /// The volume revokes what changes (`KernelCache`), so this only bounds what it cannot see, such as the cached
    /// bytes that `du` shows. A minute keeps a library scan of known files away from the daemon.
    package static let known = Duration.seconds(60)
    /// Players probe for neighbours (.srt, .nfo) many times while opening one film; a name that appears is seen soon.
    package static let missing = Duration.seconds(2)
}

/// Makes the kernel forget what it may have cached and is no longer so.
package protocol KernelCache: AnyObject, Sendable {
    func forgetEntry(_ name: String, in parent: NodeID)
    /// Its attributes and the names that were read of it.
    func forgetDirectory(_ node: NodeID)
    /// Complete files are opened for the kernel to read itself (`FileHandle.passthroughFile`), as long as nothing
    /// hinders.
    var readsDataFiles: Bool { get }
    /// Drops the pages of bytes that are not read again soon. No read of them may wait for an answer.
    func forgetPages(of node: NodeID, _ range: ByteRange)
}
