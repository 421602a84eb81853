import Glibc

/// A value, a lock and a condition: what a thread of our own waits on. `Mutex` has no condition to wait for.
final class Monitor<Value>: @unchecked Sendable {
    // pthread_mutex_lock(3) and pthread_cond_wait(3) may be called from any thread, on objects that do not move: these
    // are allocated once.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var value: Value

    init(_ value: Value) {
        self.value = value
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    /// Changes the value and wakes who waits.
    @discardableResult
    func change<Result>(_ body: (inout Value) -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer {
            pthread_cond_broadcast(condition)
            pthread_mutex_unlock(mutex)
        }
        return body(&value)
    }

    /// Waits until `body` gives a result or the time is over. - Parameter limit: nil waits for ever.
    func wait<Result>(atMost limit: Duration? = nil, _ body: (inout Value) -> Result?) -> Result? {
        let end = limit.map { now() + $0 }
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&value) { return result }
            if let end {
                var moment = timespec(end)
                if pthread_cond_timedwait(condition, mutex, &moment) == ETIMEDOUT { return body(&value) }
            } else {
                pthread_cond_wait(condition, mutex)
            }
        }
    }
}

/// Time since some fixed moment, for deadlines and rates: clock_gettime(2), CLOCK_MONOTONIC.
func now() -> Duration {
    var moment = timespec()
    clock_gettime(CLOCK_MONOTONIC, &moment)
    return .seconds(moment.tv_sec) + .nanoseconds(moment.tv_nsec)
}

/// Seconds since 1970.
func wallClock() -> Int64 { Int64(time(nil)) }

extension timespec {
    fileprivate init(_ duration: Duration) {
        let parts = duration.components
        self.init(tv_sec: Int(parts.seconds), tv_nsec: Int(parts.attoseconds / 1_000_000_000))
    }
}

/// A thread of our own that runs `body` to its end.
final class OwnThread: @unchecked Sendable {
    // The handle is written before the object is shared and only read by `join`.
    private var handle = pthread_t()

    init(_ body: @escaping @Sendable () -> Void) {
        let box = Unmanaged.passRetained(ThreadBody(body))
        pthread_create(&handle, nil, runThread, box.toOpaque())
    }

    func join() { pthread_join(handle, nil) }
}

private final class ThreadBody: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

private func runThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    Unmanaged<ThreadBody>.fromOpaque(context!).takeRetainedValue().run()
    return nil
}
