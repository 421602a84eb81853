import ReelCore
import Testing

@Suite struct ReadWaitTests {
    /// Times in milliseconds after the read began to wait.
    struct Case: Sendable {
        var sent: Int?
        var came: Int?
        var writing = 0
        var end: Int
        var fault: ReadWait.Stall.Fault?
    }

    @Test(
        "What took most of a wait is its fault, and a short one is none",
        arguments: [
            Case(sent: 0, came: 200, end: 210, fault: nil),
            Case(sent: 0, came: 900, end: 901, fault: .origin),
            Case(sent: 700, came: 900, end: 901, fault: .queue),
            Case(sent: 0, came: 100, end: 900, fault: .disk),
            Case(sent: 0, came: 900, writing: 600, end: 901, fault: .disk),
            // It failed: nothing ever came, or not even its request left.
            Case(sent: 10, came: nil, end: 30_000, fault: .origin),
            Case(sent: nil, came: nil, end: 30_000, fault: .queue),
            // The request that was asked first counts, and not its retry.
            Case(sent: 5, came: 500, end: 500, fault: .origin),
        ])
    func faults(_ one: Case) {
        let start = Duration.seconds(1000)
        let moment = { (count: Int) in start + .milliseconds(count) }
        var wait = ReadWait(now: start, isSent: false)
        if let sent = one.sent {
            wait.sent(now: moment(sent))
            wait.sent(now: moment(sent + 300))
        }
        if one.writing > 0 { wait.wrote(.milliseconds(one.writing)) }
        if let came = one.came { wait.came(now: moment(came)) }
        let stall = wait.stall(now: moment(one.end))
        #expect(stall?.fault == one.fault)
        #expect(stall == nil || stall?.length == .milliseconds(one.end) && stall?.end == moment(one.end))
    }

    @Test("A request that has left already is the origin's from the first moment")
    func asked() {
        var wait = ReadWait(now: .zero, isSent: true)
        wait.came(now: .seconds(1))
        #expect(wait.stall(now: .seconds(1))?.fault == .origin)
    }
}
