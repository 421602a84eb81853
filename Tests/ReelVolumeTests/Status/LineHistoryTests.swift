import FoundationEssentials
import Synchronization
import Testing

@testable import ReelVolume

@Suite struct LineHistoryTests {
    private final class Source: Sendable {
        let progress = Mutex(LineProgress())
    }

    /// What a page reads.
    private func past(_ history: LineHistory, _ moment: Duration) throws -> [[Int64]] {
        let text = "{" + String(decoding: history.member(moment), as: UTF8.self) + "}"
        return try #require(try JSONDecoder().decode([String: [[Int64]]].self, from: Data(text.utf8))["past"])
    }

    @Test("Each second shows what has come since the last one, and how long ago that was")
    func seconds() throws {
        let source = Source()
        let history = LineHistory { source.progress.withLock { $0 } }
        history.add(.seconds(10))
        #expect(try past(history, .seconds(10)).isEmpty, "a single look tells no rate")
        source.progress.withLock { ($0.bytes, $0.needs, $0.stalls.queue) = (3000, 7, 2) }
        history.add(.seconds(11))
        source.progress.withLock { ($0.bytes, $0.needs, $0.stalls.disk) = (9000, 0, 1) }
        history.add(.milliseconds(12500))
        // A source has left the catalogue.
        source.progress.withLock { ($0.bytes, $0.stalls.queue) = (0, 0) }
        history.add(.milliseconds(13500))
        #expect(
            try past(history, .seconds(14)) == [
                [3000, 3000, 7, 0, 2, 0], [1500, 4000, 0, 0, 0, 1], [500, 0, 0, 0, 0, 0],
            ])
    }

    @Test("Only the last minutes are kept, in their order")
    func bounds() throws {
        let source = Source()
        let history = LineHistory { source.progress.withLock { $0 } }
        for second in 0...Int64(LineHistory.most * 2 + 7) {
            source.progress.withLock { $0.bytes += second }
            history.add(.seconds(second))
        }
        let last = Int64(LineHistory.most * 2 + 7)
        let past = try past(history, .seconds(last))
        #expect(past.map { $0[0] } == (0..<Int64(LineHistory.most)).reversed().map { $0 * 1000 })
        let first = last - Int64(LineHistory.most) + 1
        #expect(past.map { $0[1] } == Array(first...last))
    }
}
