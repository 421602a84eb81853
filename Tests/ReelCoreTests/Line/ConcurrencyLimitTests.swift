import Testing

@testable import ReelCore

private final class Reader: Sendable {}
private let somebody = Reader()
private let reader = ObjectIdentifier(somebody)

/// How many requests at a time: a scripted clock, a line with a capacity, connections with one each.
@Suite struct ConcurrencyLimitTests {
    private struct Line {
        var limit = ConcurrencyLimit()
        var now = Duration.seconds(100)
        /// Bytes a second.
        var ofAll: Double
        var ofOne: Double

        /// A reader that always waits. - Returns: the bytes it got.
        @discardableResult
        mutating func read(for time: Duration) -> Double {
            let end = now + time
            var total = 0.0
            while now < end {
                _ = limit.underrun(reader, rate: min(ofOne, ofAll / Double(limit.requests)), now: now)
                now += .milliseconds(50)
                let bytes = min(ofAll, ofOne * Double(limit.requests)) * 0.05
                _ = limit.took(Int64(bytes), now: now)
                total += bytes
            }
            return total
        }
    }

    @Test func slowConnectionsAreJoinedBySomeMoreAndFastOnesAreNot() {
        var slow = Line(ofAll: 1e9, ofOne: 12.5e6)
        slow.read(for: .milliseconds(100))
        #expect(slow.limit.requests == 6)
        var fast = Line(ofAll: 1e9, ofOne: 500e6)
        fast.read(for: .seconds(10))
        #expect(fast.limit.requests == 1)
    }

    @Test func withoutAReaderThatWaitsThereIsOne() {
        var limit = ConcurrencyLimit()
        for step in 0..<100 { _ = limit.took(1 << 20, now: .milliseconds(50 * step)) }
        _ = limit.underrun(reader, rate: nil, now: .seconds(5))
        #expect(limit.requests == 1)
    }

    @Test func severalReadersThatUnderrunShareWhatOneHostIsAsked() {
        var limit = ConcurrencyLimit()
        let readers = (0..<30).map { _ in Reader() }
        let expected = [1: 6, 2: 6, 3: 4, 5: 2, 6: 2, 7: 1, 30: 1]
        for (count, reader) in readers.enumerated() {
            _ = limit.underrun(ObjectIdentifier(reader), rate: 5e6, now: .seconds(100))
            if let share = expected[count + 1] { #expect(limit.share == share, "\(count + 1) readers") }
        }
        // Who has not waited for a second has enough.
        _ = limit.underrun(ObjectIdentifier(readers[0]), rate: 5e6, now: .seconds(102))
        #expect(limit.share == 6)
        limit.ended(.status(429, retryAfter: nil), now: .seconds(102))
        #expect(limit.share == 1)
    }

    @Test func connectionsThatGainStay() {
        var line = Line(ofAll: 1e9, ofOne: 5e6)
        let got = line.read(for: .seconds(60))
        #expect(line.limit.requests == 6)
        // What the trials of fewer cost.
        #expect(got > 0.9 * 60 * 30e6)
    }

    @Test func connectionsThatGainNothingGo() {
        var line = Line(ofAll: 5e6, ofOne: 5e6)
        line.read(for: .seconds(12))
        #expect(line.limit.requests == 1)
        line.read(for: .seconds(30))
        #expect(line.limit.requests == 1)
    }

    @Test func threeStayWhereTheyAreEnough() {
        var line = Line(ofAll: 15e6, ofOne: 5e6)
        line.read(for: .seconds(15))
        #expect(line.limit.requests == 3)
    }

    /// A film that was paused is sought in: its first bytes come while a read waits, after a minute without any.
    @Test func aPauseOfAReaderDoesNotCountAsASlowLine() {
        var line = Line(ofAll: 1e9, ofOne: 5e6)
        line.read(for: .seconds(1))
        for round in 0..<3 {
            line.now += .seconds(60)
            line.read(for: .milliseconds(500))
            #expect(line.limit.requests == 6, "pause \(round)")
        }
    }

    @Test func aRefusalLeavesOneForLongerEachTime() {
        var line = Line(ofAll: 1e9, ofOne: 5e6)
        line.read(for: .seconds(1))
        var pauses: [Duration] = []
        for _ in 0..<3 {
            line.limit.ended(.status(429, retryAfter: nil), now: line.now)
            // Six were under way: five more refusals of the same moment count as one.
            for _ in 0..<5 { line.limit.ended(.status(429, retryAfter: nil), now: line.now) }
            #expect(line.limit.requests == 1)
            let start = line.now
            while line.limit.requests == 1 { line.read(for: .milliseconds(500)) }
            pauses.append(line.now - start)
        }
        #expect(pauses[0] >= .seconds(30) && pauses[1] > pauses[0] && pauses[2] > pauses[1])
        line.limit.ended(.status(503, retryAfter: .seconds(3600)), now: line.now)
        line.read(for: .seconds(3000))
        #expect(line.limit.requests == 1)
    }
}
