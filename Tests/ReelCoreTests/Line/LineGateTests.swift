import Testing

@testable import ReelCore

@Suite struct LineGateTests {
    private final class Request: GatedRequest {
        var request: OriginRequest
        var rank = LineRank.reader
        let canPause = true
        let silence = Duration.zero
        var payment = LinePayment()

        init(_ reason: OriginRequest.Reason, limit: RateLimit? = nil) {
            request = OriginRequest(url: ResourceURL("http://h/film")!, isDemanded: false, reason: reason)
            request.limit = limit
        }
    }

    @Test func aCommandsOwnLimitHoldsWhileNoReadWaitsForItsRequest() {
        var gate = LineGate<Request>(Line())
        let limit = RateLimit(RateSchedule(rate: 1000), minute: { 0 })
        let request = Request(.prefetch, limit: limit)
        let mayBegin = gate.admits(request, now: .seconds(1))
        gate.took(1 << 20, by: request, now: .seconds(1))
        let isThrottled = gate.throttles(request, now: .seconds(1))
        let ready = gate.takeReady(now: .seconds(1))
        #expect(mayBegin && isThrottled && ready.isEmpty)
        request.request.promote()
        let promoted = gate.takeReady(now: .seconds(1))
        let isThrottledAgain = gate.throttles(request, now: .seconds(1))
        #expect(promoted.first === request && !isThrottledAgain)
    }

    @Test(arguments: [
        (LineRank.player, OriginRequest.Reason.tail, LineRank.player), (.beginner, .head, .beginner),
        (.beginner, .ahead, .beginner), (.beginner, .tail, .reader), (.filler, .tail, .filler),
        (.reader, .tail, .reader), (.reader, .prefetch, .command), (.reader, .head, .command),
    ])
    func theRankOfARequestIsItsReadersButForTheEndOfWhatABeginnerOpens(
        _ reader: LineRank, _ reason: OriginRequest.Reason, _ rank: LineRank
    ) {
        var request = Request(reason).request
        #expect(request.rank(for: reader) == rank)
        request.promote()
        #expect(request.rank(for: reader) == reader)
    }
}
