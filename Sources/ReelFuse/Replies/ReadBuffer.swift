import Glibc
import ReelCore

/// The memory into which each worker copies hits, request after request: a fresh buffer a request costs a third of the
/// throughput (page faults), a shared one a lock.
enum ReadBuffer {
    /// The largest read that the kernel may send, in bytes. A longer one would keep a program waiting until all of it
    /// has come: at 100 Mbit/s 40 ms for the 512 KiB of root's readahead, in which a player cannot even jump elsewhere.
    /// A shorter one splits the reads of programs into more requests.
    static let longestRead = 2 * Int(BlockSize.block)
    /// The kernel asks for as much of a directory as a program does, up to 256 pages (FUSE_MAX_MAX_PAGES).
    static let capacity = 1 << 20

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key) { free($0) }
        return key
    }()

    /// This thread's buffer, valid until the next call on the thread.
    static func ofThisThread(_ size: Int) -> UnsafeMutableRawBufferPointer {
        precondition(size <= capacity, "the kernel asks for at most 256 pages")
        var memory = pthread_getspecific(key)
        if memory == nil {
            posix_memalign(&memory, 4096, capacity)
            pthread_setspecific(key, memory)
        }
        return UnsafeMutableRawBufferPointer(start: memory, count: size)
    }
}
