import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// Timers, and what becomes of them at the end.
@Suite struct TickerTests {
    @Test func aTimerWhoseVolumeEndsBeforeDoesWhatItHasForTheEnd() {
        let (ticker, done) = (Ticker(), Shared<[String]>([]))
        func set(_ name: String, _ pause: Duration) -> UInt64 {
            ticker.after(pause) {
                done.change { $0.append(name) }
            } atEnd: {
                done.change { $0.append("end of \(name)") }
            }
        }
        _ = set("due", .zero)
        _ = set("late", .seconds(600))
        let cancelled = set("cancelled", .seconds(600))
        #expect(eventually { done.value == ["due"] })
        ticker.cancel(cancelled)
        ticker.stop()
        #expect(done.value == ["due", "end of late"])
        _ = set("later", .zero)
        #expect(done.value == ["due", "end of late", "end of later"])
    }
}
