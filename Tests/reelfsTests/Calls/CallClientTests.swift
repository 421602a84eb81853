import Glibc
import ReelThreads
import TestKit
import Testing

@testable import reelfs

@Suite struct CallClientTests {
    @Test("Calls over HTTP and requests on the control socket share one limit")
    func limit() async throws {
        let jobs = Jobs(limit: 2)
        let clients = [CallClient(), CallClient(), CallClient()]
        // As the control socket does.
        try jobs.begin(clients[0])
        try jobs.begin(clients[1])
        #expect(throws: Jobs.busy) { try jobs.begin(clients[2]) }
        #expect(try await CallClient.run(jobs, isLong: false) { _ in true })
        await #expect(throws: Jobs.busy) { try await CallClient.run(jobs) { _ in 1 } }
        #expect(throws: Jobs.busy) { try CallClient().start(jobs) { _ in } }
        jobs.end(clients[0])
        let isFull = try await CallClient.run(jobs) { _ in (try? jobs.begin(clients[2])) == nil }
        #expect(isFull)
        jobs.end(clients[1])
        jobs.stop()
        await #expect(throws: RequestFailure(status: 503, sentence: MountTable.ending)) {
            try await CallClient.run(jobs) { _ in 1 }
        }
    }

    @Test("The end reaches what runs, and waits for it")
    func end() throws {
        let (jobs, hasBegun, hasEnded) = (Jobs(), Monitor(false), Shared(false))
        try CallClient().start(jobs) { client in
            hasBegun.withLock { $0 = true }
            while !client.isOver { sched_yield() }
            hasEnded.change { $0 = true }
        }
        hasBegun.wait { $0 ? () : nil }
        jobs.stop()
        #expect(hasEnded.value)
    }
}
