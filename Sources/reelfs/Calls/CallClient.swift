import Glibc
import ReelListener
import ReelThreads

/// A client of the HTTP server, or nobody, for whom a thread performs one request: it waits for disks and the network,
/// which a task must not.
final class CallClient: RequestClient {
    private let mark = CancelMark()

    var isOver: Bool { mark.isSet }
    /// No user is known, and no process, so that no request is performed that needs one.
    let user = uid_t.max
    let process: pid_t = 0

    func send(_: ControlAnswer, _: [Int32]) -> Bool { true }
    func takeDescriptors() -> [Int32] { [] }
    func end() { mark.set() }

    /// Does work on a thread of its own, if there is room for it. It is to end once the task is cancelled.
    static func run<Value: Sendable>(
        _ jobs: Jobs, isLong: Bool = true, _ work: @escaping @Sendable (CallClient) -> Value
    ) async throws(RequestFailure) -> Value {
        let client = CallClient()
        let result: Result<Value, RequestFailure> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                do throws(RequestFailure) {
                    try client.start(jobs, isLong: isLong) { continuation.resume(returning: .success(work($0))) }
                } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
        } onCancel: {
            client.end()
        }
        return try result.get()
    }

    /// Begins work on a thread of its own. - Throws: where there is no room for it.
    func start(
        _ jobs: Jobs, isLong: Bool = true, _ work: @escaping @Sendable (CallClient) -> Void
    ) throws(RequestFailure) {
        try jobs.begin(self, isLong: isLong)
        let thread = Thread("maintenance") { [self] in
            work(self)
            jobs.end(self)
        }
        guard let thread else {
            jobs.end(self)
            throw Jobs.busy
        }
        thread.detach()
    }
}
