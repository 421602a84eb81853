/// A complete, verified file on the local disk: byte for byte the file of the mount, and exactly as long.
///
/// An offer promises:
/// - The file has `length` bytes, which is the `st_size` that the kernel was sent, and each is verified. The kernel
///   does not clamp, and reads holes as zeros; the daemon sees neither.
/// - `descriptor` stays open until `passthroughBegan` has been called or the handle is closed.
/// - Until the handle is closed no byte of the file is punched, truncated or replaced.
/// - From the first offer on no byte of the file is punched, truncated or replaced while a process may read it. `close`
///   does not show that none does: a mapping (mmap(2)) outlives it, and handles and mappings outlive the daemon, also
///   one that was killed. A write lease shows it (`reel_is_open_elsewhere` in CLinux, asked on the only descriptor that
///   the daemon has of the file): where the kernel grants none, the file may only be unlinked as a whole, and bytes
///   that are fetched again go to a new file.
/// - Until the last handle that has begun is closed, unlinking the file frees no space.
package struct PassthroughFile: Sendable, Hashable {
    /// The daemon's descriptor of the file.
    package var descriptor: Int32
    /// The file's length in bytes.
    package var length: Int64

    package init(descriptor: Int32, length: Int64) {
        self.descriptor = descriptor
        self.length = length
    }
}
