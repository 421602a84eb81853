import ReelThreads

/// The last requests that failed, for people who look what is wrong. One that fails again and again is there once.
final class LastFailures: Sendable {
    static let most = 10

    private let state = Lock<[RequestRecord]>([])

    func add(_ record: RequestRecord) {
        guard let failure = record.failure else { return }
        state.withLock { records in
            records.removeAll { $0.file == record.file && $0.host == record.host && $0.failure == failure }
            records.append(record)
            if records.count > Self.most { records.removeFirst() }
        }
    }

    /// The oldest first.
    var all: [RequestRecord] { state.withLock { $0 } }
}
