import Glibc

/// A value inside one lock, with a condition to wait on: what `Mutex` lacks where a thread has to sleep until another
/// has changed something.
///
/// `@unchecked Sendable`: the value is touched only between pthread_mutex_lock and pthread_mutex_unlock.
package final class Monitor<Value: Sendable>: @unchecked Sendable {
    private var value: Value
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    package init(_ value: Value) {
        self.value = value
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        // Deadlines must not move when somebody sets the clock.
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(changed, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(changed)
        pthread_mutex_destroy(mutex)
        changed.deallocate()
        mutex.deallocate()
    }

    /// Changes or reads the value; whoever waits looks again afterwards.
    /// - Parameter notifying: false where nothing is changed that anybody waits for: waking a thread is not free.
    @discardableResult
    package func withLock<Result>(notifying: Bool = true, _ body: (inout Value) -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer {
            if notifying { pthread_cond_broadcast(changed) }
            pthread_mutex_unlock(mutex)
        }
        return body(&value)
    }

    /// Sleeps until `body` returns something.
    package func wait<Result>(_ body: (inout Value) -> Result?) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&value) { return result }
            pthread_cond_wait(changed, mutex)
        }
    }

    /// Sleeps until `body` returns something, nil once `limit` has passed.
    package func wait<Result>(atMost limit: Duration, _ body: (inout Value) -> Result?) -> Result? {
        var deadline = timespec()
        clock_gettime(CLOCK_MONOTONIC, &deadline)
        let nanoseconds = deadline.tv_nsec + Int(limit.components.attoseconds / 1_000_000_000)
        deadline.tv_sec += Int(limit.components.seconds) + nanoseconds / 1_000_000_000
        deadline.tv_nsec = nanoseconds % 1_000_000_000
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&value) { return result }
            if pthread_cond_timedwait(changed, mutex, &deadline) == ETIMEDOUT { return body(&value) }
        }
    }
}
