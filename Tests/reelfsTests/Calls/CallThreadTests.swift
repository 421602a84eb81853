import ReelThreads
import Testing

@testable import reelfs

@Suite struct CallThreadTests {
    @Test("Calls over HTTP and requests on the control socket share one bound")
    func bound() async {
        let jobs = Slots(2)
        let threads = CallThreads(jobs)
        // As the control socket does.
        #expect(jobs.take() && jobs.take() && !jobs.take())
        #expect(await threads.run(needsSlot: false) { _ in true } == true)
        #expect(!jobs.take())
        #expect(await threads.run { _ in 1 } == nil)
        #expect(!threads.begin { _ in })
        jobs.give()
        #expect(await threads.run { _ in !jobs.take() } == true)
        threads.stop()
        // Its slot is free again, and none is taken after the end.
        #expect(await threads.run { _ in 1 } == nil)
        #expect(jobs.take() && !jobs.take())
    }
}
