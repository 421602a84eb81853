import Testing

@testable import ReelHTTP

@Suite struct HeaderCollectorTests {
    private func collect(_ lines: [String]) -> (HeaderCollector, [HeaderCollector.Event]) {
        var collector = HeaderCollector()
        let events = lines.map { line in
            Array((line + "\r\n").utf8).withUnsafeBytes { collector.take($0) }
        }
        return (collector, events)
    }

    @Test func namesAreLoweredValuesTrimmedFoldedLinesJoined() {
        let (collector, events) = collect(["HTTP/1.1 200 OK", "X-A:  b c ", "Empty:", "x-a: d", "\te", ""])
        #expect(events.last == .complete && collector.status == 200)
        #expect(collector.headers.map { "\($0.name)=\($0.value)" } == ["x-a=b c", "empty=", "x-a=d e"])
    }

    @Test(arguments: [
        ("HTTP/1.1 206 Partial Content", 206), ("HTTP/1.0 404", 404), ("HTTP/2 200", 200), ("http/1.1  301  X", 301),
    ])
    func statusLinesAreRead(line: String, status: Int) {
        #expect(collect([line, ""]).0.status == status)
    }

    @Test func interimHeadsAreDroppedAndTrailersSaySo() {
        let (collector, events) = collect(
            ["HTTP/1.1 103 Early", "A: 1", "", "HTTP/1.1 200 OK", "B: 2", "", "C: 3", ""])
        #expect(events == [.more, .more, .more, .more, .more, .complete, .trailer, .trailer])
        #expect(collector.headers.map(\.name) == ["b"])
    }

    @Test func limitsAreForAllHeadsTogether() {
        let hundred = Array(repeating: "A: b", count: HeaderCollector.lineLimit)
        #expect(collect(["HTTP/1.1 200 OK"] + hundred).1.last == .refused("the headers are too large"))
        #expect(collect(["HTTP/1.1 200 OK"] + hundred.dropFirst(2) + [""]).1.last == .complete)
        let interim = Array(repeating: ["HTTP/1.1 103 E", ""], count: 300).flatMap { $0 }
        #expect(collect(interim).1.last == .refused("the headers are too large"))
        let long = "A: " + String(repeating: "x", count: HeaderCollector.byteLimit)
        #expect(collect(["HTTP/1.1 200 OK", long]).1.last == .refused("the headers are too large"))
    }
}
