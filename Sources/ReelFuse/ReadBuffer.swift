import Glibc
import ReelCore

/// The memory that each worker copies hits into, reused from request to request: a fresh buffer a request costs a third
/// of the throughput (page faults), a shared one a lock.
enum ReadBuffer {
    /// The largest read that the kernel is to send: a block. A longer one would keep a program waiting until all of it has
    /// come: at 100 Mbit/s 40 ms for the 512 KiB of root's readahead, in which a player cannot even jump elsewhere. What
    /// the kernel reads ahead comes as several reads at a time; a first read costs a tenth more processor time so.
    static let capacity = Int(BlockSize.block)

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key) { free($0) }
        return key
    }()

    /// Valid until the next call on this thread.
    static func ofThisThread(_ size: Int) -> UnsafeMutableRawBufferPointer {
        precondition(size <= capacity, "the kernel asks for at most a block")
        var memory = pthread_getspecific(key)
        if memory == nil {
            posix_memalign(&memory, 4096, capacity)
            pthread_setspecific(key, memory)
        }
        return UnsafeMutableRawBufferPointer(start: memory, count: size)
    }
}
