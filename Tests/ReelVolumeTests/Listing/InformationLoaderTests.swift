import ReelCache
import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// The queue of requests for lengths, without a server.
@Suite struct InformationLoaderTests {
    private func withLoader(
        timeout: Duration = .seconds(60), clock: @escaping @Sendable () -> Duration = now,
        _ body: (InformationLoader, HeldOrigin, Store) throws -> Void
    ) throws {
        try withServices(VolumeOptions(timeout: timeout)) { services, origin, store in
            try body(InformationLoader(FileTable(services), services, clock: clock), origin, store)
        }
    }

    private func url(_ path: String, host: String = "a") -> ResourceURL { ResourceURL("http://\(host)/\(path)")! }

    @Test func whatCallsWaitForGoesFirstInFirstOutAndBeforeWhatIsAskedInAdvance() throws {
        try withLoader { loader, origin, _ in
            for number in 0..<8 { loader.load(url("ahead \(number)"), isDemanded: false) }
            for number in 0..<8 { loader.load(url("\(number)")) }
            // One that a call waits for after all goes behind those that came before.
            loader.load(url("ahead 7"))
            var expected = (0..<6).map { "ahead%20\($0)" }
            #expect(origin.paths == expected)
            for number in 0..<6 { origin.answer("ahead%20\(number)") }
            expected += (0..<6).map { "\($0)" }
            #expect(eventually { origin.paths == expected })
            for number in 0..<6 { origin.answer("\(number)") }
            expected += ["6", "7", "ahead%207", "ahead%206"]
            #expect(eventually { origin.paths == expected }, "\(origin.paths)")
        }
    }

    @Test func aSilentHostHoldsUpNoOther() throws {
        try withLoader { loader, origin, _ in
            for number in 0..<100 { loader.load(url("\(number)"), isDemanded: number % 2 == 0) }
            #expect(origin.paths.count == 6)
            loader.load(url("demanded", host: "b"))
            loader.load(url("in advance", host: "c"), isDemanded: false)
            #expect(origin.paths.suffix(2) == ["demanded", "in%20advance"])
            // Nor is there one request for each host of a long list.
            for number in 0..<1000 { loader.load(url("x", host: "host\(number)"), isDemanded: false) }
            #expect(origin.paths.count < 80)
        }
    }

    @Test func aCallEndsAtItsDeadlineAlsoInTheQueue() throws {
        try withLoader(timeout: .milliseconds(300)) { loader, origin, _ in
            let ended = Monitor<[Result<ContentInformation, VolumeError>]>([])
            for number in 0..<60 {
                loader.load(url("\(number)")) { result in ended.withLock { $0.append(result) } }
            }
            let all = ended.wait(atMost: .seconds(30)) { $0.count == 60 ? $0 : nil }
            #expect(all?.allSatisfy { $0 == .failure(.timedOut) } == true)
        }
    }

    @Test func nothingIsAskedOnceItsDeadlineHasPassed() throws {
        let moment = Shared(Duration.zero)
        try withLoader(clock: { moment.value }) { loader, origin, _ in
            let ended = Monitor<[Result<ContentInformation, VolumeError>]>([])
            for number in 0..<60 {
                loader.load(url("\(number)")) { result in ended.withLock { $0.append(result) } }
            }
            moment.change { $0 = .seconds(60) }
            origin.answer("0")
            let due = ended.wait(atMost: .seconds(30)) { $0.count == 55 ? $0 : nil }
            #expect(due?.count { $0 == .failure(.timedOut) } == 54)
            #expect(origin.paths.count == 6)
        }
    }

    @Test func theEndOfTheMountEndsAllCalls() throws {
        let ended = Monitor(0)
        try withLoader { loader, _, _ in
            for number in 0..<60 {
                loader.load(url("\(number)"), isDemanded: number % 2 == 0) { _ in ended.withLock { $0 += 1 } }
            }
        }
        #expect(ended.withLock { $0 } == 60)
    }

    @Test func answersFromTheCacheSayNothingOfTheOrigin() throws {
        try withLoader { loader, origin, store in
            let ended = Shared(0)
            for number in 0..<40 {
                let known = ContentInformation(length: 1000, validator: Validator(entityTag: nil, lastModified: nil))
                store.remember(known, for: url("known\(number)").text, checkedAt: wallClock())
                loader.load(url("known\(number)")) { _ in ended.change { $0 += 1 } }
            }
            #expect(ended.value == 40 && origin.paths.isEmpty)
            for number in 0..<40 { loader.load(url("\(number)")) }
            #expect(origin.paths.count == 6)
        }
    }

    @Test("Fast answers raise the limit, and slow ones do not", arguments: [(0, 16), (500, 6)])
    func limit(milliseconds: Int, requests: Int) throws {
        // So long passes between a request and its answer.
        let looks = Shared(0)
        let clock = { @Sendable in
            looks.change { $0 += 1 }
            return Duration.milliseconds(looks.value * milliseconds)
        }
        try withLoader(clock: clock) { loader, origin, _ in
            for number in 0..<32 { loader.load(url("\(number)")) }
            for number in 0..<32 {
                #expect(eventually { origin.paths.contains("\(number)") })
                origin.answer("\(number)")
            }
            for number in 32..<64 { loader.load(url("\(number)")) }
            #expect(eventually { origin.paths.count == 32 + requests })
        }
    }
}
