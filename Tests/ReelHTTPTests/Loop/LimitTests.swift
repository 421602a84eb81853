import Glibc
import ReelCore
import ReelThreads
import TestKit
import Testing

@testable import ReelHTTP

/// The limit of a mount's rate, and its switch to offline, on the line of a transport.
@Suite struct LimitTests {
    private static let length: Int64 = 40_000_000

    private func withLine(
        _ schedule: RateSchedule = .off, _ body: (CurlOrigin, ScriptedServer, Line) throws -> Void
    ) throws {
        let server = try ScriptedServer(["/a": FileOrigin(length: Self.length), "/b": FileOrigin(length: Self.length)])
        defer { server.stop() }
        let line = Line(schedule)
        try withTransport(to: server) {
            $0.line = line
        } _: {
            try body($0, server, line)
        }
    }

    @Test func allRequestsTogetherKeepToTheRateAndAChangeHoldsAtOnce() throws {
        let rate: Int64 = 4_000_000
        try withLine(RateSchedule(rate: rate)) { origin, server, line in
            let all = ["/a", "/b", "/a", "/b"].map { ($0, Recorder()) }
            let start = ContinuousClock.now
            for (path, recorder) in all { origin.start(OriginRequest(url: server.url(path)), recorder) }
            let came = { all.reduce(0) { $0 + $1.1.byteCount } }
            #expect(eventually { came() >= Int(3 * rate) })
            let seconds = (ContinuousClock.now - start) / .seconds(1)
            // Of the first pieces as much is on its way at once as there are requests.
            #expect(seconds > 2.2, "\(seconds)")
            // Each has its turn.
            for (_, recorder) in all { #expect(recorder.byteCount > 0) }
            // With this one the rest would take the better part of an hour.
            line.limit.schedule = RateSchedule(rate: 50_000)
            line.limit.schedule = .off
            for (_, recorder) in all {
                #expect(recorder.finished(within: .seconds(30)).bytes.count == Int(Self.length))
            }
        }
    }

    @Test func aRequestMayHaveALimitOfItsOwnBesideOthers() throws {
        try withLine { origin, server, _ in
            let limit = RateLimit(RateSchedule(rate: 1_000_000)) { 0 }
            var request = OriginRequest(url: server.url("/a"))
            request.limit = limit
            let (slow, fast) = (Recorder(), Recorder())
            let handle = origin.start(request, slow)
            origin.start(OriginRequest(url: server.url("/b")), fast)
            #expect(fast.finished().bytes.count == Int(Self.length))
            #expect(slow.byteCount < 15_000_000 && !slow.isEnded)
            handle.cancel()
            _ = slow.finished()
        }
    }

    @Test func aPlayerGoesFirstWithinALimitAndOthersAreNotForgotten() throws {
        try withLine(RateSchedule(rate: 2_000_000)) { origin, server, _ in
            let (player, other) = (Recorder(), Recorder())
            let handle = RequestHandle()
            handle.rank = .player
            origin.start(handle, OriginRequest(url: server.url("/a")), player)
            let second = origin.start(OriginRequest(url: server.url("/b"), isDemanded: false), other)
            #expect(eventually { player.byteCount > 8_000_000 })
            #expect(player.byteCount > 3 * other.byteCount)
            // It has waited for five seconds at most.
            let before = other.byteCount
            #expect(eventually { other.byteCount > before })
            for id in [handle, second] { id.cancel() }
        }
    }

    @Test func offlineNothingLeavesAndBackOnAllDoes() throws {
        try withLine { origin, server, line in
            origin.watchOutages(deadline: .seconds(5)) { _, _ in }
            line.limit.schedule = RateSchedule(rate: 1_000_000)
            let running = Recorder()
            origin.start(OriginRequest(url: server.url("/a")), running)
            #expect(eventually { running.byteCount > 0 })
            line.setOffline(true)
            origin.perform {}
            #expect(running.finished().failure == .away(.offline))
            let count = server.requests.count
            #expect(origin.fetch(server.url("/a")).failure == .away(.offline))
            #expect(!origin.isWorthAsking(server.url("/a")) && origin.outage(of: server.url("/a")) == .offline)
            #expect(server.requests.count == count)
            line.limit.schedule = .off
            line.setOffline(false)
            #expect(origin.fetch(server.url("/b")).bytes.count == Int(Self.length))
            #expect(origin.isWorthAsking(server.url("/a")))
        }
    }

    @Test func theTimeOfDayIsThatOfTheTimeZone() {
        // 2026-03-29 00:30 UTC: half an hour before summer time begins in Europe; the process's own zone stays.
        let zone = getenv("TZ").map { String(cString: $0) }
        defer {
            if let zone { setenv("TZ", zone, 1) } else { unsetenv("TZ") }
            tzset()
        }
        let moments: [(Int64, String, Int)] = [
            (1_774_744_200, "UTC0", 30), (1_774_744_200, "CET-1CEST,M3.5.0,M10.5.0/3", 90),
            (1_774_744_200 + 3600, "CET-1CEST,M3.5.0,M10.5.0/3", 210), (1_774_744_200, "EST5EDT,M3.2.0,M11.1.0", 1230),
        ]
        for (moment, zone, minute) in moments {
            setenv("TZ", zone, 1)
            #expect(minuteOfDay(moment) == minute, "\(zone)")
        }
    }
}
