import ReelCore

/// The read-only filesystem without a kernel. Every call is thread-safe and none blocks on the network.
package protocol Filesystem: AnyObject, Sendable {
    /// Finds a directory's entry; fails with `notFound`, or with the error of a listing that has to be fetched.
    func lookup(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>)
    /// Like `lookup`, for a node that the kernel has from an earlier process: finds also what is not shown at present.
    func findAgain(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>)
    /// Drops `count` of the kernel's references.
    func forget(_ node: NodeID, count: UInt64)
    /// The attributes of a node, without a request.
    func attributes(of node: NodeID, _ completion: @escaping Completion<Attributes>)

    /// The place of a node that the kernel knows, except for the root; nil if it has none any more.
    func place(of node: NodeID) -> NodePlace?

    /// Opens a node's file, after a request where its version is not known or no longer fresh.
    /// - Parameter thread: that opens it, of a program (gettid(2)); nil if it is not known.
    func open(_ node: NodeID, by thread: Int32?, _ completion: @escaping Completion<any FileHandle>)
    /// Opens the version of a node's file that is remembered, for a handle that an earlier process had: only missing
    /// bytes are asked for, as they were there. Where none is remembered, as `open`.
    func reopen(_ node: NodeID, _ completion: @escaping Completion<any FileHandle>)
    /// The kernel reads the node of this handle from a file that the handle does not offer: the name leads to a new
    /// node from now on. Called before the open fails with `stale`.
    func supersede(_ file: any FileHandle)
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
    package func findAgain(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>) {
        lookup(name, in: parent, completion)
    }
    package func readLink(_ node: NodeID, _ completion: @escaping Completion<String>) {
        completion(.failure(.unsupported))
    }
    package func supersede(_ file: any FileHandle) {}
    package func lend(_ file: any FileHandle, _ range: ByteRange) -> LentBytes? { nil }
}

/// Called exactly once, from any thread, perhaps before the call that took it returns.
package typealias Completion<Value> = @Sendable (Result<Value, VolumeError>) -> Void
