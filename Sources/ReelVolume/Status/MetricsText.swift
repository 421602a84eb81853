import ReelCore

/// The numbers of a mount in Prometheus' text form, version 0.0.4.
package func metricsText(_ status: VolumeStatus, _ metrics: VolumeMetrics) -> String {
    var text = MetricsText()
    let origins = metrics.origins.prefix(mostOrigins)
    text.add(
        "reads_total", "counter", "Reads, by where their bytes came from.",
        VolumeMetrics.Answer.allCases.map { answer in
            let count =
                switch answer {
                case .memory: metrics.memoryHits
                case .disk: metrics.diskHits
                case .origin, .mirror, .tier: metrics.reads[answer]?.total ?? 0
                }
            return (labels(("answer", answer.rawValue)), count)
        })
    text.add(
        "read_seconds", "Time to answer a read; from the cache, every 64th is timed and counts for 64.",
        VolumeMetrics.Answer.allCases.map { ([("answer", $0.rawValue)], metrics.reads[$0] ?? HistogramCounts()) })
    let stalls = status.stalls.map { [("origin", $0.origin), ("queue", $0.queue), ("disk", $0.disk)] } ?? []
    text.add(
        "stalls_total", "counter", "Reads of a steady reader that waited for long, by what took most of it.",
        stalls.map { (labels(("fault", $0.0)), $0.1) })
    text.counter("served_bytes_total", "Bytes copied to readers.", status.bytesServed)
    text.counter("origin_bytes_total", "Bytes of all bodies from origins.", status.bytesFromOrigin)
    if let tier = status.tier {
        text.counter("tier_read_bytes_total", "Bytes of files from the tier.", tier.readBytes)
        text.counter("tier_written_bytes_total", "Bytes of files written into the tier.", tier.writtenBytes)
        text.gauge("tier_is_avoided", "1 while the tier is not asked.", tier.isAvoided ? 1 : 0)
    }
    text.counter("demanded_bytes_total", "Bytes from origins for which a read waited.", status.demanded)
    text.counter("ahead_bytes_total", "All other bytes from origins.", status.speculative)
    text.counter("wasted_bytes_total", "Bytes that were fetched ahead and never read.", metrics.wastedBytes)
    text.counter("evicted_bytes_total", "Bytes that left the cache.", metrics.evictedBytes)
    text.counter(
        "damaged_blocks_total", "Blocks that had changed on the disk and were fetched again.", status.damagedBlocks)
    text.gauge("cache_bytes", "Size of the cache.", status.cacheUsed)
    text.gauge("cache_limit_bytes", "Cap of the cache.", status.cacheCap)
    text.gauge(
        "cache_is_failing", "1 while the disk of the cache takes nothing.", status.cacheFailure == nil ? 0 : 1)
    text.gauge("memory_bytes", "Bytes in memory because the disk takes none.", status.bytesInMemory)
    text.add(
        "first_byte_seconds", "Time from a request's departure to the head of its answer.",
        origins.map { ([("origin", $0.name)], $0.firstByte) })
    text.add(
        "origin_requests_total", "counter", "Requests to an origin.",
        origins.map { (labels(("origin", $0.name)), $0.requests) })
    text.add(
        "origin_failures_total", "counter", "Requests that failed by the fault of the origin.",
        origins.map { (labels(("origin", $0.name)), $0.failed) })
    text.add(
        "origin_circuit", "gauge", "State of an origin: 0 answers, 1 in doubt, 2 away.",
        circuits(metrics).map { (labels(("origin", $0.name)), $0.state) })
    text.gauge("origins_away", "Origins that do not answer.", Int64(status.outages.count))
    if let age = metrics.listingAge {
        text.gauge("listing_age_seconds", "Time since an origin last confirmed the listing of the root.", age)
    }
    text.gauge(
        "stale_directories", "Directories whose listing could not be refreshed.", Int64(status.staleDirectories.count))
    text.gauge(
        "closed_sources", "Sources of a catalogue that are not open.", Int64(status.closedSources?.count ?? 0))
    text.gauge("open_files", "Files that are open.", Int64(status.files.count { $0.openHandles > 0 }))
    return text.text
}

/// The sources of a catalogue may ask some each.
private let mostOrigins = 64

/// The origins that were asked, or are away, with the states of their circuits; at most some.
private func circuits(_ metrics: VolumeMetrics) -> [(name: String, state: Int64)] {
    let names = Set(metrics.origins.map(\.name)).union(metrics.standings.keys)
    return names.sorted().prefix(mostOrigins).map { name in
        switch metrics.standings[name] {
        case nil: (name, 0)
        case .doubtful: (name, 1)
        case .away: (name, 2)
        }
    }
}

/// `{name="value",…}`; a value comes from outside.
private func labels(_ pairs: (name: String, value: String)...) -> String { labels(pairs) }

private func labels(_ pairs: [(name: String, value: String)]) -> String {
    let words = pairs.map { pair in
        let value = pair.value.unicodeScalars.map { scalar in
            switch scalar {
            case "\\": "\\\\"
            case "\"": "\\\""
            case "\n": "\\n"
            default: String(scalar)
            }
        }
        return "\(pair.name)=\"\(value.joined())\""
    }
    return "{" + words.joined(separator: ",") + "}"
}

/// Metrics as they are written, each behind its help and its kind.
private struct MetricsText {
    private(set) var text = ""

    private mutating func begin(_ name: String, _ kind: String, _ help: String) {
        text += "# HELP reelfs_\(name) \(help)\n# TYPE reelfs_\(name) \(kind)\n"
    }

    mutating func add(_ name: String, _ kind: String, _ help: String, _ values: [(labels: String, value: Int64)]) {
        if values.isEmpty { return }
        begin(name, kind, help)
        for (labels, value) in values { text += "reelfs_\(name)\(labels) \(value)\n" }
    }

    mutating func counter(_ name: String, _ help: String, _ value: Int64) { add(name, "counter", help, [("", value)]) }
    mutating func gauge(_ name: String, _ help: String, _ value: Int64) { add(name, "gauge", help, [("", value)]) }

    /// Adds a histogram.
    mutating func add(
        _ name: String, _ help: String, _ values: [(labels: [(name: String, value: String)], counts: HistogramCounts)]
    ) {
        if values.isEmpty { return }
        begin(name, "histogram", help)
        for (pairs, counts) in values {
            var sum: Int64 = 0
            for (place, count) in counts.counts.enumerated() {
                sum &+= count
                let isLast = place == HistogramCounts.bounds.count
                let bound = isLast ? "+Inf" : "\(Double(HistogramCounts.bounds[place]) / 1_000_000_000)"
                text += "reelfs_\(name)_bucket\(labels(pairs + [("le", bound)])) \(sum)\n"
            }
            text += "reelfs_\(name)_sum\(labels(pairs)) \(Double(counts.nanoseconds) / 1_000_000_000)\n"
            text += "reelfs_\(name)_count\(labels(pairs)) \(sum)\n"
        }
    }
}
