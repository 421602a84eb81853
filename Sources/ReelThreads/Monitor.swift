import Glibc

/// A value inside one lock, with a condition to wait on, for threads that sleep until another one has changed the
/// value. `Mutex` has no condition.
///
/// It keeps to the order of locks (`LockRank`) as `Lock` does, and no thread may wait on it while it holds another
/// lock.
///
/// `@unchecked Sendable`: code reaches the value only between pthread_mutex_lock and pthread_mutex_unlock.
package final class Monitor<Value: Sendable>: @unchecked Sendable {
    private var value: Value
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    #if DEBUG
        private let place: LockPlace
    #endif

    /// - Parameter file: names the lock in the message about a broken order.
    package init(_ value: Value, _ rank: LockRank = .leaf, file: StaticString = #fileID) {
        self.value = value
        #if DEBUG
            place = LockPlace(rank, file)
        #endif
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        // Deadlines must not move when the clock is set.
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

    /// Changes or reads the value; threads that wait look at it again afterwards.
    /// - Parameter notifying: false where no thread waits for this change: waking a thread is not free.
    @discardableResult
    package func withLock<Result>(notifying: Bool = true, _ body: (inout Value) -> Result) -> Result {
        lock(sleeps: false)
        defer {
            if notifying { notify() }
            unlock()
        }
        return body(&value)
    }

    /// Sleeps until `body` returns something.
    package func wait<Result>(_ body: (inout Value) -> Result?) -> Result {
        lock(sleeps: true)
        defer { unlock() }
        while true {
            if let result = body(&value) { return result }
            waitForChange()
        }
    }

    /// Sleeps until `body` returns something, nil once `limit` has passed.
    package func wait<Result>(atMost limit: Duration, _ body: (inout Value) -> Result?) -> Result? {
        let deadline = now() + limit
        lock(sleeps: true)
        defer { unlock() }
        while true {
            if let result = body(&value) { return result }
            if !waitForChange(until: deadline) { return body(&value) }
        }
    }

    private func notify() {
        #if DEBUG
            if let member = Simulation.current { member.simulation.changed(place.door) }
        #endif
        pthread_cond_broadcast(changed)
    }

    /// - Parameter deadline: on the clock of `now()`, nil if there is none.
    /// - Returns: false where that has passed.
    @discardableResult
    private func waitForChange(until deadline: Duration? = nil) -> Bool {
        #if DEBUG
            if let member = Simulation.current {
                pthread_mutex_unlock(mutex)
                member.simulation.leave(place.door, member)
                let isInTime = member.simulation.waitForChange(of: place.door, member, until: deadline)
                member.simulation.enter(place.door, member)
                pthread_mutex_lock(mutex)
                return isInTime
            }
        #endif
        guard let deadline else { return pthread_cond_wait(changed, mutex) == 0 }
        let (seconds, attoseconds) = deadline.components
        var moment = timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
        return pthread_cond_timedwait(changed, mutex, &moment) != ETIMEDOUT
    }

    /// - Parameter sleeps: the thread may wait for a change of the value.
    private func lock(sleeps: Bool) {
        #if DEBUG
            if sleeps { place.sleep() } else { place.enter() }
        #endif
        pthread_mutex_lock(mutex)
    }

    private func unlock() {
        pthread_mutex_unlock(mutex)
        #if DEBUG
            place.leave()
        #endif
    }
}
