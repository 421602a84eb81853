import Glibc
import ReelThreads
import TestKit
import Testing

@testable import reelfs

@Suite("Signals that end a mount")
struct EndSignalsTests {
    @Test("SIGTERM is heard while a reload hangs, and a SIGHUP that came meanwhile has one more follow")
    func hungReload() {
        let (signals, ends) = (EndSignals(), Monitor(0))
        let (begun, disk) = (Monitor(0), Gate())
        signals.serve(
            reload: {
                begun.withLock { $0 += 1 }
                _ = disk.wait(within: .seconds(60))
            }, { ends.withLock { $0 += 1 } })
        for _ in 0..<3 { signals.take(SIGHUP, nil) }
        begun.wait { $0 > 0 ? () : nil }
        signals.take(SIGTERM, nil)
        #expect(ends.withLock { $0 } == 1)
        #expect(begun.withLock { $0 } == 1)
        disk.open()
        begun.wait { $0 > 1 ? () : nil }
    }

    @Test("Without anything to reload, SIGHUP ends the mount")
    func hangUp() {
        let (signals, ends) = (EndSignals(), Monitor(0))
        signals.serve(reload: nil) { ends.withLock { $0 += 1 } }
        signals.take(SIGHUP, nil)
        #expect(ends.withLock { $0 } == 1)
    }
}
