import ReelCore
import ReelThreads

/// The prefetches of a mount: the one place where they start, are listed and end. They end with the mount; what came
/// stays in the cache, and another prefetch of the same goes on from there.
package final class PrefetchJobs: Sendable {
    private struct State: Sendable {
        var jobs: [PrefetchJob] = []
        var last = 0
        var isOver = false
    }

    /// Each has a thread, and up to `PrefetchJob.mostAtOnce` files open.
    private static let mostRunning = 8
    /// The most that are kept when they are over, for people who look later.
    private static let mostKept = 16

    private let state = Monitor(State())

    init() {}

    /// The prefetches that run, and the last of those that are over, in the order of their starts.
    package var all: [PrefetchStatus] { state.withLock(notifying: false) { $0.jobs }.map(\.status) }

    /// Starts a prefetch in the background.
    /// - Parameter commands: of the mount.
    /// - Returns: its number.
    /// - Throws: a sentence for the user.
    package func start(_ request: PrefetchRequest, _ commands: any CacheCommands) throws(MaintenanceFailure) -> Int {
        let over = state.withLock(notifying: false) { $0.jobs }.filter { $0.status.isOver }
        let gone = over.dropLast(Self.mostKept)
        let job: PrefetchJob? = state.withLock { state in
            guard !state.isOver, state.jobs.count - over.count < Self.mostRunning else { return nil }
            state.jobs.removeAll { job in gone.contains { $0 === job } }
            state.last += 1
            let job = PrefetchJob(state.last, request)
            state.jobs.append(job)
            return job
        }
        guard let job else {
            throw MaintenanceFailure("\(Self.mostRunning) prefetches are under way; wait for one, or cancel one")
        }
        guard let thread = Thread("prefetch", { job.run(commands) }) else {
            state.withLock { $0.jobs.removeAll { $0 === job } }
            throw MaintenanceFailure("the system has no thread to spare")
        }
        thread.detach()
        return job.number
    }

    /// Waits until a prefetch is over, and reports its status at each step, and every 200 ms.
    /// - Parameters:
    ///   - hasSeen: true once a status is enough.
    ///   - isOver: true once the client has gone.
    /// - Returns: the last status; nil if there is no prefetch of that number.
    package func watch(
        _ number: Int, until hasSeen: (PrefetchStatus) -> Bool, isOver: () -> Bool,
        _ tell: (PrefetchStatus) -> Void
    ) -> PrefetchStatus? {
        guard let job = job(number) else { return nil }
        while true {
            let status = job.status
            if status.isOver || hasSeen(status) || isOver() { return status }
            tell(status)
            job.waitForEnd(atMost: .milliseconds(200))
        }
    }

    /// Ends a prefetch; what came stays. - Returns: false where there is none of that number that runs.
    @discardableResult
    package func cancel(_ number: Int) -> Bool { job(number)?.cancel() ?? false }

    /// Ends the prefetches of a path: those of which each path is this one, or lies below it.
    /// - Parameter path: inside the mount; empty: all of them. Its names count, however they are written.
    /// - Returns: how many.
    package func cancel(below path: String) -> Int {
        let names = pathNames(path)
        let jobs = state.withLock(notifying: false) { $0.jobs }.filter { job in
            job.status.paths.allSatisfy { path in
                let path = pathNames(path)
                return path.count >= names.count && zip(names, path).allSatisfy { $0.utf8.elementsEqual($1.utf8) }
            }
        }
        return jobs.count { $0.cancel() }
    }

    /// Ends all of them, and waits.
    func stop() {
        let jobs = state.withLock { state in
            state.isOver = true
            return state.jobs
        }
        for job in jobs { job.cancel() }
        for job in jobs { while !job.waitForEnd(atMost: .seconds(1)) {} }
    }

    private func job(_ number: Int) -> PrefetchJob? {
        state.withLock(notifying: false) { $0.jobs.first { $0.number == number } }
    }
}
