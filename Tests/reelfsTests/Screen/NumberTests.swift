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
    private func filled() throws -> VolumeStatus {
        func times(_ count: Int64, _ time: Duration) -> HistogramCounts {
            let histogram = Histogram()
            histogram.add(time, weight: count)
            return histogram.value
        }
        var status = try JSONDecoder().decode(VolumeStatus.self, from: Data(golden("volume.json").utf8))
        status.reads = Labelled([("memory", 66), ("disk", 130), ("origin", 7), ("mirror", 8), ("tier", 9)])
        status.readSeconds = Labelled([
            ("memory", times(64, .microseconds(20))), ("disk", times(128, .microseconds(30))),
            ("origin", times(7, .seconds(1))), ("mirror", times(8, .milliseconds(20))),
            ("tier", times(9, .milliseconds(40))),
        ])
        (status.neverRead, status.evictedBytes, status.listingAge) = (524_288, 77, 6)
        status.firstByteSeconds = Labelled([
            ("http://a", times(5, .milliseconds(3))), ("http://c", times(6, .milliseconds(4))),
        ])
        status.originRequests = Labelled([("http://a", 9), ("http://c", 10)])
        status.originFailures = Labelled([("http://a", 1), ("http://c", 2)])
        status.originCircuits = Labelled([("http://a", 0), ("http://b", 2), ("http://c", 1)])
        return status
    }

    /// A catalogue of that volume, and of another with almost the same numbers, whose sources share the cache.
    private func catalogue() throws -> VolumeStatus {
        let one = try filled()
        var two = one
        two.firstByteSeconds = Labelled([
            ("http://0", one.firstByteSeconds["http://a"]!), ("http://c", one.firstByteSeconds["http://c"]!),
        ])
        two.originRequests = Labelled([("http://0", 9), ("http://c", 10)])
        two.originFailures = Labelled([("http://0", 1), ("http://c", 2)])
        two.originCircuits = Labelled([("http://0", 0), ("http://b", 2), ("http://c", 2)])
        two.listingAge = 8
        var sum = VolumeStatus()
        (sum.cacheUsed, sum.cacheCap, sum.evictedBytes) = (one.cacheUsed, one.cacheCap, one.evictedBytes)
        (sum.bytesInMemory, sum.damagedBlocks) = (one.bytesInMemory, one.damagedBlocks)
        sum.add(one, at: "one")
        sum.add(two, at: "two")
        sum.closedSources = [VolumeStatus.ClosedSource(path: "three", trouble: "No login.", since: 20)]
        return sum
    }

    private func expect(_ name: String, _ status: VolumeStatus) {
        let mount = MountStatus(source: "http://a/", mountpoint: "/m", pid: 7, volume: status)
        let texts = [
            "json": String(decoding: encodeLine(status), as: UTF8.self), "txt": statusText(mount) + "\n",
            "metrics": metricsText(status),
        ]
        for (kind, text) in texts { #expect(text == golden("\(name).\(kind)"), "\(name).\(kind)") }
    }

    @Test("A volume")
    func volume() throws { expect("volume", try filled()) }

    @Test("A catalogue of two volumes")
    func two() throws { expect("catalogue", try catalogue()) }

    @Test("A mount of which nothing is known yet")
    func zero() { expect("zero", VolumeStatus()) }
}
