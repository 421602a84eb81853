import ReelCore
import Testing

@testable import ReelVolume

@Suite struct MetricsTests {
    private func lines(_ change: (inout VolumeStatus) -> Void = { _ in }) -> [String] {
        var status = VolumeStatus()
        (status.cacheCap, status.hits, status.misses) = (7, 17, 19)
        status.stalls = VolumeStatus.Stalls(origin: 1, queue: 2, disk: 3)
        status.files = [VolumeStatus.File(path: "a", cachedBytes: 1, openHandles: 2, rate: 0)]
        change(&status)
        return metricsText(status).split(separator: "\n").map { String($0) }
    }

    @Test("Every metric has its help and its kind before its values, and no name stands twice")
    func form() {
        let lines = lines { status in
            status.firstByteSeconds = Labelled([("http://a", HistogramCounts())])
            status.reads = Labelled([("disk", 17)])
            status.listingAge = 3
        }
        var names: [String] = []
        for (index, line) in lines.enumerated() where line.hasPrefix("# HELP ") {
            let name = String(line.split(separator: " ")[2])
            names.append(name)
            #expect(lines[index + 1].hasPrefix("# TYPE \(name) "))
            let kind =
                name.hasSuffix("_total")
                ? " counter"
                : name.hasSuffix("first_byte_seconds")
                    || name.hasSuffix("read_seconds") ? " histogram" : " gauge"
            #expect(lines[index + 1].hasSuffix(kind), "\(lines[index + 1])")
            #expect(lines[index + 2].hasPrefix(name))
        }
        #expect(Set(names).count == names.count)
        for line in lines where !line.hasPrefix("#") {
            let name = line.prefix { $0 != " " && $0 != "{" }
            #expect(names.contains { name == $0 || ["_bucket", "_sum", "_count"].contains(name.dropFirst($0.count)) })
        }
        #expect(lines.contains("reelfs_reads_total{answer=\"disk\"} 17"))
        #expect(lines.contains("reelfs_stalls_total{fault=\"queue\"} 2"))
        #expect(lines.contains("reelfs_open_files 1"))
        #expect(lines.contains("reelfs_cache_limit_bytes 7"))
        #expect(lines.contains("reelfs_listing_age_seconds 3"))
    }

    @Test("A histogram counts each duration in its class and all above, and a sample for many")
    func histogram() {
        let histogram = Histogram()
        histogram.add(.microseconds(10))
        histogram.add(.microseconds(11), weight: 64)
        histogram.add(.seconds(90))
        histogram.add(.seconds(-1))
        histogram.add(.seconds(Int64.max))
        let value = histogram.value
        #expect(value.total == 68)
        #expect(value.counts.first == 2 && value.counts[1] == 64 && value.counts.last == 2)
        let lines = lines { $0.readSeconds = Labelled([("mirror", value)]) }
        #expect(lines.contains("reelfs_read_seconds_bucket{answer=\"mirror\",le=\"1e-05\"} 2"))
        #expect(lines.contains("reelfs_read_seconds_bucket{answer=\"mirror\",le=\"2.5e-05\"} 66"))
        #expect(lines.contains("reelfs_read_seconds_bucket{answer=\"mirror\",le=\"30.0\"} 66"))
        #expect(lines.contains("reelfs_read_seconds_bucket{answer=\"mirror\",le=\"+Inf\"} 68"))
        #expect(lines.contains("reelfs_read_seconds_count{answer=\"mirror\"} 68"))
    }

    @Test("A read is counted once it has its answer, and for that answer alone: no counter falls")
    func reads() {
        let names = ["memory", "disk", "origin", "mirror", "tier"]
        func counts(_ change: (inout VolumeStatus) -> Void = { _ in }) -> [Int] {
            let lines = lines(change)
            return names.map { name in
                let begin = "reelfs_reads_total{answer=\"\(name)\"} "
                return lines.first { $0.hasPrefix(begin) }.flatMap { Int($0.dropFirst(begin.count)) } ?? -1
            }
        }
        // The hits and misses of the status are others.
        #expect(counts() == [0, 0, 0, 0, 0])
        #expect(counts { $0.reads.add(Labelled([("memory", 2), ("disk", 15), ("mirror", 1)])) } == [2, 15, 0, 1, 0])
        // The status has bytes of closed files as well, which may still be read.
        #expect(lines { ($0.wasted, $0.neverRead) = (9, 5) }.contains("reelfs_wasted_bytes_total 5"))
    }

    @Test("Names from outside are escaped, and only a limited number of origins has its own rows")
    func labels() {
        let table = OriginTable()
        let lines = lines {
            $0.originCircuits = table.circuits([
                "http://a\"b\\c\nd": .doubtful, "http://away": .away(.unreachable, since: 1),
            ])
        }
        #expect(lines.contains(#"reelfs_origin_circuit{origin="http://a\"b\\c\nd"} 1"#))
        #expect(lines.contains(#"reelfs_origin_circuit{origin="http://away"} 2"#))
        for number in 0..<1000 { table.answered("http://\(number)", after: .milliseconds(1)) }
        #expect(table.firstBytes.items.count == OriginTable.most && table.requests.items.count == OriginTable.most)
        #expect(table.firstBytes.items.allSatisfy { $0.value.total == 1 })
    }

    @Test("The numbers of several sources are added up")
    func sum() {
        let histogram = Histogram()
        histogram.add(.seconds(1))
        var (one, two) = (VolumeNumbers(), VolumeNumbers())
        one.firstByteSeconds = Labelled([("http://a", histogram.value)])
        one.originCircuits = Labelled([("http://a", 2), ("http://c", 0)])
        (one.readSeconds, one.bytesServed, one.listingAge) = (Labelled([("disk", histogram.value)]), 2, 5)
        (two.firstByteSeconds, two.readSeconds, two.bytesServed) = (one.firstByteSeconds, one.readSeconds, 3)
        (two.originCircuits, two.listingAge) = (Labelled([("http://a", 1), ("http://b", 1)]), 7)
        (one.cacheUsed, two.cacheUsed) = (11, 11)
        one.add(two)
        #expect(one.firstByteSeconds["http://a"]?.total == 2 && one.readSeconds["disk"]?.total == 2)
        #expect(one.bytesServed == 5 && one.listingAge == 7 && one.cacheUsed == 11)
        #expect(one.originCircuits.items.map(\.label) == ["http://a", "http://b", "http://c"])
        #expect(one.originCircuits.items.map(\.value) == [2, 1, 0])
    }
}
