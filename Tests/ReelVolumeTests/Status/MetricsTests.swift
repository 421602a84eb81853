import FoundationEssentials
import ReelCore
import Testing

@testable import ReelVolume

@Suite struct MetricsTests {
    private func lines(_ metrics: VolumeMetrics = VolumeMetrics()) throws -> [String] {
        let json = """
            {"cacheUsed":5,"cacheCap":7,"bytesInMemory":0,"damagedBlocks":1,"bytesFromOrigin":11,"bytesServed":13,
            "hits":17,"misses":19,"demanded":23,"speculative":29,"wasted":31,"outages":[],"staleDirectories":[],
            "stalls":{"origin":1,"queue":2,"disk":3},
            "files":[{"path":"a","cachedBytes":1,"openHandles":2,"rate":0}]}
            """
        let status = try JSONDecoder().decode(VolumeStatus.self, from: Data(json.utf8))
        return metricsText(status, metrics).split(separator: "\n").map { String($0) }
    }

    @Test("Every metric has its help and its kind before its values, and no name stands twice")
    func form() throws {
        var metrics = VolumeMetrics()
        metrics.origins = [VolumeMetrics.Origin(name: "http://a", firstByte: HistogramCounts())]
        (metrics.listingAge, metrics.diskHits) = (3, 17)
        let lines = try lines(metrics)
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
    func histogram() throws {
        let histogram = Histogram()
        histogram.add(.microseconds(10))
        histogram.add(.microseconds(11), weight: 64)
        histogram.add(.seconds(90))
        histogram.add(.seconds(-1))
        histogram.add(.seconds(Int64.max))
        let value = histogram.value
        #expect(value.total == 68)
        #expect(value.counts.first == 2 && value.counts[1] == 64 && value.counts.last == 2)
        var metrics = VolumeMetrics()
        metrics.reads = [.mirror: value]
        let lines = try lines(metrics).filter { $0.contains("answer=\"mirror\"") }
        #expect(lines.contains("reelfs_read_seconds_bucket{answer=\"mirror\",le=\"1e-05\"} 2"))
        #expect(lines.contains("reelfs_read_seconds_bucket{answer=\"mirror\",le=\"2.5e-05\"} 66"))
        #expect(lines.contains("reelfs_read_seconds_bucket{answer=\"mirror\",le=\"30.0\"} 66"))
        #expect(lines.contains("reelfs_read_seconds_bucket{answer=\"mirror\",le=\"+Inf\"} 68"))
        #expect(lines.contains("reelfs_read_seconds_count{answer=\"mirror\"} 68"))
    }

    @Test("A read is counted once it has its answer, and for that answer alone: no counter falls")
    func reads() throws {
        let names = ["memory", "disk", "origin", "mirror", "tier"]
        func counts(_ metrics: VolumeMetrics) throws -> [Int] {
            let lines = try lines(metrics)
            return names.map { name in
                let begin = "reelfs_reads_total{answer=\"\(name)\"} "
                return lines.first { $0.hasPrefix(begin) }.flatMap { Int($0.dropFirst(begin.count)) } ?? -1
            }
        }
        // 17 hits and 19 misses of the status: what they are is known only here.
        var metrics = VolumeMetrics()
        #expect(try counts(metrics) == [0, 0, 0, 0, 0])
        let histogram = Histogram()
        histogram.add(.seconds(1))
        metrics.reads = [.mirror: histogram.value, .disk: histogram.value]
        (metrics.memoryHits, metrics.diskHits, metrics.wastedBytes) = (2, 15, 5)
        #expect(try counts(metrics) == [2, 15, 0, 1, 0])
        // The status has bytes of closed files as well, which may still be read.
        #expect(try lines(metrics).contains("reelfs_wasted_bytes_total 5"))
    }

    @Test("Names from outside are escaped, and only so many origins are told apart")
    func labels() throws {
        var metrics = VolumeMetrics()
        metrics.standings = ["http://a\"b\\c\nd": .doubtful, "http://away": .away(.unreachable, since: 1)]
        let lines = try lines(metrics)
        #expect(lines.contains(#"reelfs_origin_circuit{origin="http://a\"b\\c\nd"} 1"#))
        #expect(lines.contains(#"reelfs_origin_circuit{origin="http://away"} 2"#))
        let table = OriginTable()
        for number in 0..<1000 { table.answered("http://\(number)", after: .milliseconds(1)) }
        #expect(table.metrics.count == OriginTable.most)
        #expect(table.metrics.allSatisfy { $0.firstByte.total == 1 })
    }

    @Test("The numbers of several sources are added up")
    func sum() {
        let histogram = Histogram()
        histogram.add(.seconds(1))
        var (one, two) = (VolumeMetrics(), VolumeMetrics())
        one.origins = [VolumeMetrics.Origin(name: "http://a", firstByte: histogram.value)]
        (one.reads, one.diskHits, one.listingAge) = ([.disk: histogram.value], 2, 5)
        (two.origins, two.reads, two.diskHits, two.listingAge) = (one.origins, one.reads, 3, 7)
        one.add(two)
        #expect(one.origins.map { $0.firstByte.total } == [2] && one.reads[.disk]?.total == 2)
        #expect(one.diskHits == 5 && one.listingAge == 7)
    }
}
