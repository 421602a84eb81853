import ReelCore

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
