import Synchronization
import Testing

@testable import ReelCore

/// The limit of a rate: by tables and a scripted clock.
@Suite struct RateTests {
    struct Given: Sendable, CustomTestStringConvertible {
        var testDescription: String { text }
        var text: String
        /// Minutes since midnight, and the rate that holds then; 0: no limit.
        var expected: [Int: Int64]
    }

    static let schedules = [
        Given(text: "2M", expected: [0: 2 << 20, 1439: 2 << 20]),
        Given(text: "500k", expected: [700: 500 << 10]),
        Given(text: "4096", expected: [700: 4096]),
        Given(text: "off", expected: [0: 0, 700: 0]),
        Given(
            text: "08:00,2M 23:00,off",
            expected: [0: 0, 479: 0, 480: 2 << 20, 1379: 2 << 20, 1380: 0, 1439: 0]),
        // The last of the day holds until the first of the next.
        Given(
            text: "22:30,1M 6:05,8M", expected: [0: 1 << 20, 364: 1 << 20, 365: 8 << 20, 1349: 8 << 20, 1350: 1 << 20]),
        Given(text: "12:00,1G", expected: [0: 1 << 30, 719: 1 << 30, 720: 1 << 30]),
    ]

    @Test(arguments: schedules) func theRateThatBeganLastHolds(_ given: Given) throws {
        let schedule = try #require(RateSchedule(given.text))
        for (minute, rate) in given.expected {
            #expect(schedule.rate(at: minute) ?? 0 == rate, "at \(minute)")
        }
        #expect(RateSchedule(schedule.text) == schedule)
    }

    @Test(arguments: [
        "", " ", "M", "-2M", "2X", "1K2", "1023", "0", "99999999999999", "8:0,2M", "24:00,2M", "08:60,2M", "08:00",
        "08:00,", "08:00,2M,3M", "2M 3M", "08:00,2M 23:00", "08:00,2M 08:00,3M", "8,2M", "999999999999G", "008:00,2M",
    ]) func whatIsNoRateIsRefused(_ text: String) { #expect(RateSchedule(text) == nil) }

    @Test(
        arguments: [
            ("0", 0), ("4096", 4096), ("500M", 500 << 20), ("1.5G", 3 << 29), ("20GB", 20 << 30), ("20GiB", 20 << 30),
            ("20gi", 20 << 30), ("0.125k", 128), ("1T", 1 << 40), ("", nil), ("G", nil), ("1.5", nil), ("1.G", nil),
            ("1.2345G", nil), ("-1K", nil), ("1 K", nil), ("1Ki8", nil), ("12B", nil), ("12iB", nil), ("9999999T", nil),
            ("9999999999999T", nil), ("99999999999999999999", nil), ("١K", nil),
        ] as [(String, Int64?)]) func aSizeIsReadAsPeopleWriteIt(_ text: String, expected: Int64?)
    {
        #expect(byteSize(text) == expected)
    }

    @Test func moreTimesThanAnybodyNeedsAreRefused() {
        let words = (0..<97).map { "\($0 / 60):\($0 % 60 < 10 ? "0" : "")\($0 % 60),2M" }
        #expect(RateSchedule(words.joined(separator: " ")) == nil)
        #expect(RateSchedule(words.dropLast().joined(separator: " ")) != nil)
    }

    struct Flow: Sendable, CustomTestStringConvertible {
        var testDescription: String { "\(rate) of \(capacity), \(piece) at a time" }
        var rate: Double
        var capacity: Double
        /// Bytes that come before the bucket is asked again.
        var piece: Int64
    }

    /// Takes pieces as fast as the line brings them, whenever the bucket lets it.
    private func taken(_ line: Flow, _ bucket: inout TokenBucket, from start: Duration, for time: Duration) -> Double {
        var (clock, bytes) = (start, 0.0)
        while clock < start + time {
            if let pause = bucket.pause(now: clock) {
                clock += pause
                continue
            }
            clock += .seconds(Double(line.piece) / line.capacity)
            bucket.took(line.piece, now: clock)
            bytes += Double(line.piece)
        }
        return bytes
    }

    @Test(arguments: [
        Flow(rate: 2e6, capacity: 12e6, piece: 16 << 10), Flow(rate: 2e6, capacity: 1e9, piece: 256 << 10),
        Flow(rate: 10_000, capacity: 1e9, piece: 128 << 10), Flow(rate: 50e6, capacity: 60e6, piece: 256 << 10),
    ]) func overAMinuteTheRateIsExact(_ line: Flow) {
        var bucket = TokenBucket(rate: line.rate)
        let bytes = taken(line, &bucket, from: .seconds(1000), for: .seconds(60))
        // A tenth of a second beforehand, and the last piece.
        #expect(bytes > 0.98 * 60 * line.rate - Double(line.piece))
        #expect(bytes < 1.02 * 60 * line.rate + Double(line.piece))
    }

    @Test func aSlowLineIsNotSlowedFurther() {
        var bucket = TokenBucket(rate: 2e6)
        let line = Flow(rate: 2e6, capacity: 1e6, piece: 16 << 10)
        #expect(taken(line, &bucket, from: .seconds(5), for: .seconds(60)) > 0.99 * 60e6)
    }

    @Test func whatWasNotTakenCannotBeTakenLater() {
        var bucket = TokenBucket(rate: 2e6)
        #expect(bucket.pause(now: .seconds(1)) == nil)
        let line = Flow(rate: 2e6, capacity: 1e9, piece: 16 << 10)
        #expect(taken(line, &bucket, from: .seconds(3600), for: .seconds(1)) < 1.2 * 2e6)
    }

    @Test func aDebtIsPaidAtTheNewRateAndForgottenWithoutOne() {
        var bucket = TokenBucket(rate: 1000)
        bucket.took(100_000, now: .seconds(1))
        bucket.change(to: 1e6, now: .seconds(1))
        let pause = bucket.pause(now: .seconds(1))
        #expect(pause.map { $0 > .milliseconds(50) && $0 < .milliseconds(150) } == true)
        bucket.change(to: nil, now: .seconds(1))
        #expect(bucket.pause(now: .seconds(1)) == nil)
        bucket.change(to: 1000, now: .seconds(2))
        #expect(bucket.pause(now: .seconds(2)) == nil)
    }

    @Test func aChangeOfTheTimeOfDayIsNoticedWithinASecond() throws {
        let minute = Mutex(479)
        let limit = RateLimit(try #require(RateSchedule("08:00,2M 23:00,off"))) { minute.withLock { $0 } }
        #expect(limit.rate(now: .seconds(10)) == nil)
        minute.withLock { $0 = 480 }
        #expect(limit.rate(now: .seconds(11)) == Double(2 << 20))
        limit.took(20 << 20, now: .seconds(11))
        #expect(limit.pause(now: .seconds(11)) != nil)
        // A new one holds at once.
        limit.schedule = .off
        #expect(limit.pause(now: .milliseconds(11_001)) == nil)
    }

    @Test func underALimitOthersHaveAPartOfItBesideAPlayer() {
        final class Film: Sendable {}
        let (film, line) = (Film(), Line(RateSchedule(rate: 800_000)))
        line.tell(ObjectIdentifier(film), ahead: 0, now: .seconds(1))
        line.pay(0, now: .seconds(1))
        line.took(0, charged: 100_000, now: .seconds(1))
        // A sixteenth of the limit, and not a mebibyte a second.
        #expect(line.pause(now: .seconds(1)) == .seconds(1))
        #expect(line.pause(now: .milliseconds(1500)) != nil)
    }
}
