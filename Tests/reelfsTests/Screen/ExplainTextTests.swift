import Testing

@testable import ReelVolume
@testable import reelfs

@Suite("The screen of reelfs explain") struct ExplainTextTests {
    private static func request(_ number: Int, failure: String? = nil) -> RequestRecord {
        RequestRecord(
            when: "2026-11-23T10:00:\(10 + number)Z", file: "https://h/film.mkv",
            range: [Int64(number) << 20, Int64(number) << 20 | 4095], why: "demand", program: "mpv",
            host: "https://cdn.example:8443", status: failure == nil ? 206 : nil, bytes: failure == nil ? 4096 : 0,
            milliseconds: 12, failure: failure)
    }

    private static func told(_ requests: [RequestRecord], _ sums: [Explanation.Sum]) -> Explanation {
        Explanation(
            path: "film.mkv", length: 8 << 20, cached: 1 << 20, openHandles: 1, use: nil, requests: requests, sums: sums
        )
    }

    private static func sum(_ requests: Int) -> Explanation.Sum {
        Explanation.Sum(why: "demand", program: "mpv", requests: requests, failed: 1, bytes: 4096)
    }

    @Test("It shows what was read, the sums, and the requests with the newest first")
    func whole() {
        let requests = [Self.request(1), Self.request(2, failure: "the origin answers 503")]
        var told = Self.told(requests, [Self.sum(2)])
        var use = FileUse()
        (use.demanded, use.speculative, use.unread, use.wasted, use.read) = (4096, 8192, 3072, 1024, 5120)
        told.use = use
        let expected = """
            film.mkv: 1.0 MiB of 8.0 MiB cached, open 1 time
              read: 5.0 KiB
              fetched: 4.0 KiB demanded, 8.0 KiB ahead (3.0 KiB unread, 1.0 KiB wasted)

                 why  requests  failed    bytes  program
              demand         2       1  4.0 KiB  mpv

                  when     why  program       at    bytes   time  from
              \(localTimeOfDay(told.requests[1].when))  demand      mpv  2.0 MiB      0 B  12 ms  the origin answers 503
              \(localTimeOfDay(told.requests[0].when))  demand      mpv  1.0 MiB  4.0 KiB  12 ms  cdn.example:8443
            """
        #expect(explanationText(told) == expected, "\(explanationText(told))")
    }

    @Test("Times are those of the caller's time zone")
    func times() {
        #expect(localTimeOfDay("1970-01-01T00:00:59Z") == localTime(0).suffix(5) + ":59")
        #expect(localTimeOfDay("yesterday") == "?")
    }

    @Test("The pieces of a film are named, and so is a place that is not its origin")
    func pieces() {
        var pieces = [Self.request(1), Self.request(2)]
        (pieces[0].file, pieces[1].file, pieces[1].from) = ("https://h/s1.ts", "https://h/s2.ts", "mirror")
        pieces[1].host = "http://cdn:8443"
        let lines = explanationText(Self.told(pieces, [Self.sum(2)])).split(separator: "\n")
        #expect(lines[4].hasSuffix("  s2.ts mirror cdn:8443"), "\(lines)")
        #expect(lines[5].hasSuffix("  s1.ts cdn.example:8443"), "\(lines)")
    }

    @Test("Hundreds of requests with long names fit a screen of 24 lines and 80 columns")
    func screen() {
        let long = String(repeating: "long\u{1B}", count: 60)
        let requests = (0..<Explanation.mostRequests).map { number in
            var request = Self.request(number, failure: number % 3 == 0 ? long : nil)
            (request.why, request.program, request.from) = ("next item", "a-long-program-", "mirror")
            (request.host, request.bytes, request.milliseconds) = ("https://\(long)", 1 << 60, 1 << 40)
            request.range = [1 << 60, 1 << 61]
            return request
        }
        let sums = (0..<40).map { number in
            Explanation.Sum(
                why: "next item", program: number == 0 ? long : "program-\(number)", requests: 20, failed: 3,
                bytes: 1 << 60)
        }
        var told = Self.told(requests, sums)
        (told.path, told.length, told.cached, told.openHandles) = (long, 1 << 60, 1 << 59, 1000)
        var use = FileUse()
        (use.demanded, use.speculative, use.read) = (1 << 60, 1 << 60, 1 << 60)
        (use.unread, use.wasted) = (1 << 59, 1 << 59)
        told.use = use
        let text = explanationText(told)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count <= 24 && lines.allSatisfy { $0.count <= 80 } && !text.contains("\u{1B}"), "\(text)")
        #expect(lines[0].contains("cached, open 1000 times"), "\(lines[0])")
        // The five largest sums, and what is left of 800 requests.
        #expect(lines.contains { $0.hasPrefix("     others       700     105") }, "\(text)")
        let times = lines.filter { $0.hasPrefix("  10:00:") }.map { String($0.dropFirst(2).prefix(8)) }
        let newest = requests.reversed().map { String($0.when.suffix(9).dropLast()) }
        #expect(times.count >= 8 && times[...] == newest.prefix(times.count))
        #expect(lines.last == "  and \(800 - times.count) requests before these")
    }

    @Test("A folder shows its requests alone")
    func folder() {
        var told = Self.told([Self.request(1)], [Self.sum(1)])
        (told.path, told.length, told.cached, told.openHandles) = ("", nil, 0, 0)
        #expect(explanationText(told).hasPrefix("/\n\n     why"), "\(explanationText(told))")
    }

    @Test("A file without requests says so")
    func none() {
        #expect(explanationText(Self.told([], [])).hasSuffix("\n\nNo request in the last hours."))
    }
}
