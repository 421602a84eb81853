import ReelCore
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

@Suite struct ConcurrencyLimitsTests {
    @Test("A playlist of a million hosts leaves a thousand limits, and those of open files stay")
    func bound() throws {
        let limits = ConcurrencyLimits()
        let used = limits[ResourceURL("http://used/")!]
        for number in 0..<5000 { _ = limits[ResourceURL("http://host-\(number)/")!] }
        #expect(limits.count <= ConcurrencyLimits.mostIdle + 1)
        #expect(limits[ResourceURL("http://used/film.mkv")!] === used)
    }

    /// Two films play, of an origin that answers no more than two requests at a time.
    @Test func aRefusalLeavesOneRequestAlsoBesideAnotherFilm() throws {
        try withServices { services, _, _ in
            let known = ContentInformation(
                length: 1 << 30, validator: Validator(entityTag: EntityTag("\"1\""), lastModified: 1))
            let table = FileTable(services)
            let file = try #require(try table.openNow(ResourceURL("http://a/film.mkv")!, known))
            let moment = now()
            for block in 0..<8 {
                let range = BlockSize.bytes(of: block, length: 1 << 30)
                try GeneratedBytes(seed: 1).bytes(range).withUnsafeBytes {
                    try file.object.write($0, at: range.lower)
                }
                file.decide { _ = $0.hit(range, now: moment, wasParked: false) }
            }
            let other = ConcurrencyLimits.Shared()
            services.transport.line.tell(ObjectIdentifier(other), ahead: 0, now: moment)
            #expect(file.limits(1, moment).requests == 3)
            file.concurrency.value.withLock { $0.ended(.status(429, retryAfter: nil), now: moment) }
            #expect(file.limits(file.concurrency.share, moment).requests == 1)
            #expect(file.limits(1, moment + .milliseconds(900)).requests == 1)
            table.close(file)
        }
    }
}
