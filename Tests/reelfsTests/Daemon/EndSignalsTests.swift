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

    @Test(
        "A signal that comes while the mount is made does afterwards what it does to one that serves",
        arguments: [([SIGHUP], 0), ([SIGTERM], 1), ([SIGTERM, SIGHUP], 1), ([SIGHUP, SIGTERM], 1)])
    func kept(_ numbers: [Int32], _ expected: Int) {
        let (signals, ends, reloads) = (EndSignals(), Monitor(0), Monitor(0))
        signals.keep()
        for number in numbers { signals.take(number, nil) }
        signals.serve(reload: { reloads.withLock { $0 += 1 } }, { ends.withLock { $0 += 1 } })
        #expect(ends.withLock { $0 } == expected)
        if expected == 0 { reloads.wait { $0 == 1 ? () : nil } }
    }

    @Test("SIGINT, which a terminal sends to the command as well, ends no daemon that takes the place of another one")
    func successor() {
        for number in [SIGINT, SIGTERM] {
            let (signals, ends) = (EndSignals(), Monitor(0))
            signals.keep(isSuccessor: true)
            signals.take(number, nil)
            signals.keep()
            signals.serve(reload: nil) { ends.withLock { $0 += 1 } }
            #expect(ends.withLock { $0 } == (number == SIGTERM ? 1 : 0))
            signals.take(SIGINT, nil)
            #expect(ends.withLock { $0 } == (number == SIGTERM ? 1 : 0))
        }
    }
}
