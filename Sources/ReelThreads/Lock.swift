import Synchronization

/// A value inside one lock that knows its place in the order of locks (`LockRank`).
///
/// A debug build ends the program where a thread takes a lock out of order. A release build compiles this to `Mutex`
/// alone.
///
/// `@usableFromInline`, as `@inlinable` has no effect across modules without it: each lock would be a call of generic
/// code.
@usableFromInline package struct Lock<State: ~Copyable>: ~Copyable, Sendable {
    @usableFromInline let mutex: Mutex<State>
    #if DEBUG
        @usableFromInline let place: LockPlace
    #endif

    /// - Parameter file: names the lock in the message about a broken order.
    @inlinable package init(
        _ state: consuming sending State, _ rank: LockRank = .leaf, file: StaticString = #fileID
    ) {
        mutex = Mutex(state)
        #if DEBUG
            place = LockPlace(rank, file)
        #endif
    }

    /// Runs `body` on the value while no other thread has it.
    @inlinable package borrowing func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout sending State) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        #if DEBUG
            place.enter()
            defer { place.leave() }
        #endif
        return try mutex.withLock(body)
    }
}
