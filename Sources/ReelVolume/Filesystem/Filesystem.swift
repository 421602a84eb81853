import ReelCore

/// Names one inode to the kernel, from the lookup that made it known until it is forgotten. 1 is the root.
///
/// A node is one *version* of one path: when the origin's resource changes, its path gets a new node, so pages that the
/// kernel caches can never mix two versions. The inode number that programs see (`Attributes.inode`) stays the same.
package typealias NodeID = UInt64

/// The node of the mount's root.
package let rootNode: NodeID = 1

/// The attributes of one file, as `stat` shows them. The kernel adapter adds owner and mode, which are the same for the
/// whole mount.
package struct Attributes: Sendable, Hashable {
    /// The inode number, stable over remounts as it is made from the path.
    package var inode: UInt64
    /// A directory; else a link or a regular file.
    package var isDirectory: Bool
    /// A symbolic link; `Filesystem.readLink` tells where it leads.
    package var isLink = false
    /// The length in bytes; 0 for a resource whose length is not known yet.
    package var length: Int64
    /// The date in seconds since 1970.
    package var modified: Int64
}

/// The result of a lookup. It counts as one reference of the kernel to `node`, until `forget`.
package struct Entry: Sendable {
    /// The node that the name leads to.
    package var node: NodeID
    /// The node's attributes.
    package var attributes: Attributes
}

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

/// One line of a directory's listing.
package struct DirectoryItem {
    /// The name in the directory.
    package var name: String
    /// As in `Attributes.inode`.
    package var inode: UInt64
    /// A directory; else a link or a regular file.
    package var isDirectory: Bool
    /// A symbolic link.
    package var isLink = false
    /// The offset of the item after this one.
    package var nextOffset: Int
    /// The node, with one kernel reference that counts once the item was added; nil where attributes were not asked for
    /// or are not known without a request.
    package var entry: Entry?
}

/// The answer of `statfs`, in bytes.
package struct Capacity: Sendable {
    /// The cache's cap, in bytes.
    package var total: Int64
    /// The bytes in use, the index among them.
    package var used: Int64
}

/// Why an operation failed. `ReelFuse` holds the one table that turns these into errnos.
package enum VolumeError: Error, Hashable, Sendable {
    case notFound
    case notDirectory
    case isDirectory
    case readOnly
    /// 401 or 403, also after another request to the original URL.
    case accessDenied
    /// 404 or 410 for a known name, or another version than the open one: reopen.
    case stale
    case timedOut
    /// The origin cannot be reached and the bytes are not cached.
    case unreachable
    /// The same, known before any request: none was made.
    case offline
    /// A server error after retries, a wrong answer, a cache that cannot be read.
    case failed
    case interrupted
    case noAttribute
    /// The filesystem has no attributes of that kind.
    case unsupported
    case nameTooLong
    /// A symbolic link leads out of the tree.
    case leadsOut
}

/// A read that waits for its bytes. Data, an interrupt, the deadline and shutdown race for it: the implementation lets
/// the first call through and ignores the others. Callable from any thread.
package protocol ParkedRead: AnyObject, Sendable {
    /// Answers with bytes. - Parameter bytes: valid during the call; fewer than asked for only at the end of the file.
    func succeed(_ bytes: UnsafeRawBufferPointer)
    /// Answers with an error.
    func fail(_ error: VolumeError)
    /// The number of the thread that reads (gettid(2)); nil where it is not known.
    var thread: Int32? { get }
}

extension ParkedRead {
    /// It is not known.
    package var thread: Int32? { nil }
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
    /// True where the length is not known, so that the kernel must not stop at `st_size`. Else the kernel may keep its
    /// pages from earlier opens, as a node is one version.
    var wantsDirectIO: Bool { get }
    /// Bytes; nil until the end is known.
    var length: Int64? { get }
    /// Names the version for as long as the origin does; weak where only a weak tag names it, nil where nothing does.
    var entityTag: EntityTag? { get }
    /// The date that the origin tells of the version, in seconds since 1970; nil where it tells none.
    var modified: Int64? { get }

    /// The local file that holds this one's bytes, for the kernel to read instead; nil where there is none.
    ///
    /// The adapter asks once, between `open` and its answer, and only where passthrough may be possible. While one open
    /// handle of a node has begun passthrough, each further handle of the node must offer the same file, or its open
    /// fails with `stale`. `PassthroughFile` lists the promises of an offer.
    func passthroughFile() -> PassthroughFile?

    /// The kernel took the offer: until `close` it reads this handle itself, and the filesystem sees nothing of it.
    /// Called once or never, after `passthroughFile` and before a program can read. `Filesystem.read` still serves the
    /// kernel's reads on its own account, such as posix_fadvise(2)'s WILLNEED.
    func passthroughBegan()
}

extension FileHandle {
    package var length: Int64? { nil }
    package var entityTag: EntityTag? { nil }
    package var modified: Int64? { nil }
    package func passthroughFile() -> PassthroughFile? { nil }
    package func passthroughBegan() {}
}

/// A complete, verified file on the local disk: byte for byte the file of the mount, and exactly as long.
///
/// An offer promises:
/// - The file has `length` bytes, which is the `st_size` that the kernel was told, and each is verified. The kernel
///   does not clamp, and reads holes as zeros; the daemon sees neither.
/// - `descriptor` stays open until `passthroughBegan` has been called or the handle is closed.
/// - Until the handle is closed no byte of the file is punched, truncated or replaced.
/// - From the first offer on no byte of the file is punched, truncated or replaced while a process may read it. `close`
///   does not tell that: a mapping (mmap(2)) outlives it, and handles and mappings outlive the daemon, also one that
///   was killed. A write lease tells it (`reel_is_open_elsewhere` in CLinux, asked on the only descriptor that the
///   daemon has of the file): where the kernel grants none, the file may only be unlinked as a whole, and bytes that
///   are fetched again go to a new file.
/// - Until the last handle that has begun is closed, unlinking the file frees no space.
package struct PassthroughFile: Sendable, Hashable {
    /// The daemon's descriptor of the file.
    package var descriptor: Int32
    /// The file's length in bytes.
    package var length: Int64
}

/// Bytes of a local file that stay as they are while this lives. Keep it until they are sent, and no longer: a full
/// cache cannot evict them meanwhile.
package struct LentBytes: Sendable {
    /// Open while this lives.
    package let descriptor: Int32
    /// In the local file as in the file of the mount.
    package let range: ByteRange
    private let owner: any AnyObject & Sendable

    /// - Parameter owner: ends the loan when it goes.
    package init(descriptor: Int32, range: ByteRange, owner: any AnyObject & Sendable) {
        self.descriptor = descriptor
        self.range = range
        self.owner = owner
    }
}

/// A directory as it was when a program opened it.
package protocol DirectoryHandle: AnyObject, Sendable {
    /// Whether the kernel was told all of this directory a moment ago, and may use the names that it has kept.
    var isHeldByKernel: Bool { get }

    /// Calls `add` with the items from `offset` on (0 is the first) until it says false, which means "did not fit".
    /// - Parameter withAttributes: count a kernel reference for each added item that has an `entry`.
    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool)
}

/// The read-only filesystem without a kernel. Every call is thread-safe and none blocks on the network.
package protocol Filesystem: AnyObject, Sendable {
    /// Finds a directory's entry; fails with `notFound`, or with the error of a listing that has to be fetched.
    func lookup(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>)
    /// Drops `count` of the kernel's references.
    func forget(_ node: NodeID, count: UInt64)
    /// The attributes of a node, without a request.
    func attributes(of node: NodeID, _ completion: @escaping Completion<Attributes>)

    /// The place of a node that the kernel knows, but for the root; nil: it has none any more.
    func place(of node: NodeID) -> NodePlace?

    /// Opens a node's file, after a request where its version is not known or no longer fresh.
    /// - Parameter thread: that opens it, of a program (gettid(2)); nil: it is not known.
    func open(_ node: NodeID, by thread: Int32?, _ completion: @escaping Completion<any FileHandle>)
    /// Opens the version of a node's file that is remembered, for a handle that an earlier process had: only missing
    /// bytes are asked for, as they were there. Where none is remembered, as `open`.
    func reopen(_ node: NodeID, _ completion: @escaping Completion<any FileHandle>)
    /// Ends a handle; called once for each success of `open` and `reopen`.
    func close(_ file: any FileHandle)

    /// Reads. Bytes that are cached are in `buffer` when it returns, without an allocation. On a miss it calls `park`
    /// once, and keeps the result until it has answered it.
    /// - Parameters:
    ///   - offset: bytes from the start of the file.
    ///   - buffer: as long as the range to read.
    func read(
        _ file: any FileHandle, offset: Int64, into buffer: UnsafeMutableRawBufferPointer, park: () -> any ParkedRead
    ) -> ReadAnswer
    /// Lends bytes of the file for sendfile(2), and counts that as a read of them; nil where they have to be read.
    /// - Parameter range: within the file, and within one multiple of `BlockSize.extent`.
    func lend(_ file: any FileHandle, _ range: ByteRange) -> LentBytes?
    /// The kernel no longer waits for this read, which ignores any later answer.
    func abandon(_ read: any ParkedRead, of file: any FileHandle)

    /// The target of a symbolic link: a path from the link's folder, which does not leave the tree.
    func readLink(_ node: NodeID, _ completion: @escaping Completion<String>)

    /// Opens a directory, after a request where its listing is not known.
    func openDirectory(_ node: NodeID, _ completion: @escaping Completion<any DirectoryHandle>)

    /// The size and use of the cache, for statfs(2).
    func capacity() -> Capacity
    /// The value of an extended attribute, without a request.
    func extendedAttribute(_ name: String, of node: NodeID) -> Result<[UInt8], VolumeError>
    /// The names of a node's extended attributes, without a request.
    func extendedAttributeNames(of node: NodeID) -> Result<[String], VolumeError>
}

extension Filesystem {
    /// Opens a node's file for no program that is known.
    package func open(_ node: NodeID, _ completion: @escaping Completion<any FileHandle>) {
        open(node, by: nil, completion)
    }
    package func readLink(_ node: NodeID, _ completion: @escaping Completion<String>) {
        completion(.failure(.unsupported))
    }
    package func lend(_ file: any FileHandle, _ range: ByteRange) -> LentBytes? { nil }
}

/// How long the kernel may keep an answer.
package enum KernelBelief {
    /// For entries and attributes. The volume revokes those that change (`KernelCache`), so this only bounds how long a
    /// lost notice has effects. A minute keeps a library scan of known files away from the daemon.
    package static let known = Duration.seconds(60)
    /// For names that do not exist. Players look for neighbours (.srt, .nfo) many times while they open one film, and a
    /// new name is seen soon.
    package static let missing = Duration.seconds(2)
}

/// Makes the kernel forget answers that no longer hold.
package protocol KernelCache: AnyObject, Sendable {
    /// Forgets a name, or that there was no such name.
    func forgetEntry(_ name: String, in parent: NodeID)
    /// Forgets a directory's attributes, and the names that were read of it.
    func forgetDirectory(_ node: NodeID)
    /// Whether the kernel reads complete files itself (`FileHandle.passthroughFile`).
    var readsDataFiles: Bool { get }
    /// Whether programs look into many files one after another now: the kernel then reads little ahead in files that
    /// are opened, where its reading ahead can be chosen.
    func setScanned(_ isScanned: Bool)
    /// Drops the pages of bytes that no program reads again soon. No read of them may be parked.
    func forgetPages(of node: NodeID, _ range: ByteRange)
}
