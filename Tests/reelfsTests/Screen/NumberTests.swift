import FoundationEssentials
import ReelCore
import ReelListener
import TestKit
import Testing

@testable import ReelVolume
@testable import reelfs

/// What `/metrics` and `reelfs status` say of a mount, to the letter: other programs read it.
@Suite struct NumberTests {
    private func golden(_ name: String) -> String {
        contents(of: repository + "/Tests/reelfsTests/Golden/" + name)
    }

    /// A volume all of whose numbers differ, with those that only `/metrics` has.
    private func filled() throws -> (VolumeStatus, VolumeMetrics) {
        func times(_ count: Int64, _ time: Duration) -> HistogramCounts {
            let histogram = Histogram()
            histogram.add(time, weight: count)
            return histogram.value
        }
        var metrics = VolumeMetrics()
        metrics.reads = [
            .memory: times(64, .microseconds(20)), .disk: times(128, .microseconds(30)), .origin: times(7, .seconds(1)),
            .mirror: times(8, .milliseconds(20)), .tier: times(9, .milliseconds(40)),
        ]
        (metrics.memoryHits, metrics.diskHits) = (66, 130)
        (metrics.wastedBytes, metrics.evictedBytes, metrics.listingAge) = (524_288, 77, 6)
        metrics.origins = [
            VolumeMetrics.Origin(name: "http://a", firstByte: times(5, .milliseconds(3)), requests: 9, failed: 1),
            VolumeMetrics.Origin(name: "http://c", firstByte: times(6, .milliseconds(4)), requests: 10, failed: 2),
        ]
        metrics.standings = ["http://b": .away(.silent, since: 40), "http://c": .doubtful]
        let status = try JSONDecoder().decode(VolumeStatus.self, from: Data(golden("volume.json").utf8))
        return (status, metrics)
    }

    /// A catalogue of that volume, and of another with the same numbers, whose sources share the cache.
    private func catalogue() throws -> (VolumeStatus, VolumeMetrics) {
        let (one, metrics) = try filled()
        var sum = VolumeStatus(
            cacheUsed: one.cacheUsed, cacheCap: one.cacheCap, bytesInMemory: one.bytesInMemory,
            damagedBlocks: one.damagedBlocks, bytesFromOrigin: 0, bytesServed: 0, hits: 0, misses: 0, demanded: 0,
            speculative: 0, wasted: 0, files: [])
        var all = VolumeMetrics()
        sum.add(one, at: "one")
        all.add(metrics)
        sum.add(one, at: "two")
        var other = metrics
        other.origins[0].name = "http://0"
        (other.listingAge, other.standings["http://c"]) = (8, .away(.unreachable, since: 1))
        all.add(other)
        all.evictedBytes = metrics.evictedBytes
        sum.closedSources = [VolumeStatus.ClosedSource(path: "three", trouble: "No login.", since: 20)]
        return (sum, all)
    }

    private func expect(_ name: String, _ status: VolumeStatus, _ metrics: VolumeMetrics) {
        let mount = MountStatus(source: "http://a/", mountpoint: "/m", pid: 7, volume: status)
        let texts = [
            "json": String(decoding: encodeLine(status), as: UTF8.self), "txt": statusText(mount) + "\n",
            "metrics": metricsText(status, metrics),
        ]
        for (kind, text) in texts { #expect(text == golden("\(name).\(kind)"), "\(name).\(kind)") }
    }

    @Test("A volume")
    func volume() throws {
        let (status, metrics) = try filled()
        expect("volume", status, metrics)
    }

    @Test("A catalogue of two volumes")
    func two() throws {
        let (status, metrics) = try catalogue()
        expect("catalogue", status, metrics)
    }

    @Test("A mount of which nothing is known yet")
    func zero() throws {
        let status = VolumeStatus(
            cacheUsed: 0, cacheCap: 0, bytesInMemory: 0, damagedBlocks: 0, bytesFromOrigin: 0, bytesServed: 0,
            hits: 0, misses: 0, demanded: 0, speculative: 0, wasted: 0, files: [])
        expect("zero", status, VolumeMetrics())
    }
}
