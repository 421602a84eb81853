import ReelThreads
import TestKit
import Testing

/// Runs each test of a suite on one of a few threads. They wait for most of their time, so there are more of them than
/// processors, of which the library's own pool has one each.
struct Workers: TestTrait, SuiteTrait, TestScoping {
    private static let count = 4
    private static let pool = WorkerPool(count)

    var isRecursive: Bool { true }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing body: @Sendable () async throws -> Void
    ) async throws {
        if testCase == nil { return try await body() }
        try await withTaskExecutorPreference(Self.pool) { try await body() }
    }
}

extension Trait where Self == Workers {
    static var onWorkers: Workers { Workers() }
}

/// Threads that run jobs in the order in which they come.
private final class WorkerPool: TaskExecutor {
    private let jobs = Monitor<[UnownedJob]>([])

    init(_ count: Int) {
        for _ in 0..<count {
            startThread { [self] in
                while true {
                    jobs.wait { $0.isEmpty ? nil : $0.removeFirst() }.runSynchronously(on: asUnownedTaskExecutor())
                }
            }
        }
    }

    func enqueue(_ job: UnownedJob) { jobs.withLock { $0.append(job) } }
}
