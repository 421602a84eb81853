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

extension Ticker {
    /// A completion of which the first call counts, where it comes within `limit`; or else it gets `late` then, and
    /// what was asked goes on for those that ask later.
    /// - Parameter perform: calls it in that case: timers wait for no disk.
    func once<Answer: Sendable>(
        within limit: Duration, elseOnly late: Answer,
        by perform: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void = { $0() },
        _ body: @escaping @Sendable (Answer) -> Void
    ) -> @Sendable (Answer) -> Void {
        let once = Once(body)
        let giveUp: @Sendable () -> Void = {
            if let body = once.take() { perform { body(late) } }
        }
        let timer = after(max(.zero, limit), giveUp, atEnd: giveUp)
        return { [self] answer in
            cancel(timer)
            once(answer)
        }
    }
}
