import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// Many requests with every fault, paused, resumed, cancelled and stopped at random places: whatever happens, each ends
/// once, and what it took are the first bytes of what it asked for.
@Suite struct RandomTests {
    @Test(arguments: [UInt64.random(in: 0 ... .max), 1, 2])
    func everyRequestEndsOnceWithTheRightFirstBytes(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let file = FileOrigin(length: 4_000_000, seed: seed)
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) {
            $0.connectionsPerOrigin = 4
        } _: { origin in
            var running: [(id: RequestHandle, range: ByteRange, recorder: Recorder)] = []
            for _ in 0..<150 {
                if Bool.random(using: &random) { file.fail(fault(&random)) }
                let lower = Int64.random(in: 0..<4_000_000, using: &random)
                let range = ByteRange(lower, Int64.random(in: (lower + 1)...4_000_000, using: &random))
                let period = Int.random(in: 1...8, using: &random)
                let stopsAt = Int.random(in: 0...9, using: &random) == 0 ? Int(range.count / 2) : .max
                let recorder = Recorder(
                    judge: { head in head.status == 206 ? nil : .wrongAnswer("no part") },
                    answer: { record in
                        if record.bytes.count > stopsAt { return .stop }
                        return record.pieces.count % period == 0 ? .pause : .more
                    })
                let request = OriginRequest(
                    url: server.url("/film"), range: range, isDemanded: Bool.random(using: &random),
                    stallLimit: .milliseconds(200))
                running.append((origin.start(request, recorder), range, recorder))
                let other = running.randomElement(using: &random)!
                if Int.random(in: 0..<10, using: &random) == 0 {
                    other.id.cancel()
                } else {
                    other.id.resume()
                }
            }
            #expect(
                eventually(within: .seconds(30)) {
                    for (id, _, recorder) in running where !recorder.isEnded { id.resume() }
                    return running.allSatisfy { $0.recorder.isEnded }
                }, "seed \(seed)")
            for (_, range, recorder) in running {
                let record = recorder.finished()
                let taken = ByteRange(range.lower, range.lower + Int64(record.bytes.count))
                #expect(record.bytes.elementsEqual(file.expectedBytes(taken)) && range.contains(taken), "seed \(seed)")
                #expect(record.failure != nil || taken == range, "seed \(seed)")
            }
        }
    }

    private func fault(_ random: inout SeededGenerator) -> FileOrigin.Fault {
        let count = Int64.random(in: 0...2_000_000, using: &random)
        let faults: [FileOrigin.Fault] = [
            .shortBody(after: count), .resetAfter(count), .stallAfter(count), .silent, .noRanges, .gzip, .hugeHeader,
            .status(503, retryAfter: 1), .redirect(to: "/film?x=\(count)"), .redirectLoop, .tooLongBody, .endlessBody,
            .drip(piece: 100_000, pause: .milliseconds(1)),
        ]
        return faults.randomElement(using: &random)!
    }
}
