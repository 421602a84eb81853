import ReelCore
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
}
