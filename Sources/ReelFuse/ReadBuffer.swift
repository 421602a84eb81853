import Glibc

/// The memory that each worker copies hits into, reused from request to request: a fresh buffer a request costs a third
/// of the throughput (page faults), a shared one a lock.
enum ReadBuffer {
    /// The largest read the kernel sends: 256 pages (FUSE_MAX_MAX_PAGES).
    private static let capacity = 1 << 20

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key) { free($0) }
        return key
    }()

    /// Valid until the next call on this thread.
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
