import ReelSources
import TestKit
import Testing

@testable import ReelVolume

/// The marks of directories whose listings could not be refreshed.
@Suite struct ListingHealthTests {
    private func health(marking key: String) -> ListingHealth {
        let health = ListingHealth(refresh: .seconds(60))
        _ = health.settle(.path(key), .timedOut)
        return health
    }

    @Test(
        "A directory that the tree has no longer takes its own mark along and those below it",
        arguments: [
            ("http://h/a/", "http://h/a/", true), ("http://h/a/b/", "http://h/a/", true),
            ("http://h/a/b", "http://h/a", true), ("http://h/a/b/", "http://h/a/b/c/", false),
            ("http://h/ab/", "http://h/a", false), ("http://h/ab/", "http://h/b/", false),
            ("http://h/a", "http://h/a/", false), ("http://h/ä/b/", "http://h/ä/", true),
        ])
    func forget(_ marked: String, _ gone: String, isForgotten: Bool) {
        let health = health(marking: marked)
        health.forget { [gone, "http://o/"] }
        #expect(health.isWell == isForgotten)
    }

    @Test("A directory of many levels is forgotten in time that grows with its depth") func depth() {
        let work = Work(size: 8 << 10, input: { String(repeating: "/", count: $0) }) { key in
            health(marking: key).forget { ["http://h/a/"] }
        }
        #expect(work.isLinear, "\(work)")
    }
}
