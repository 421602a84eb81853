import ReelThreads

/// A completion of which only the first call counts, as two may end the same wait: an answer and a deadline.
final class Once<Value: Sendable>: Sendable {
    private let completion: Lock<(@Sendable (Value) -> Void)?>

    init(_ completion: @escaping @Sendable (Value) -> Void) { self.completion = Lock(completion) }

    /// Whether it was called.
    var isOver: Bool { completion.withLock { $0 == nil } }

    func callAsFunction(_ value: Value) { take()?(value) }

    /// Ends the wait without a call. - Returns: the completion, for the caller to call; nil if the wait was over.
    func take() -> (@Sendable (Value) -> Void)? { completion.withLock { $0.take() } }
}
