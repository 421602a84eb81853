import ReelCore
import ReelThreads

/// The numbers of a mount at one moment; all are 0 until they are read. ``NumberTable`` says what each of them is.
package struct VolumeNumbers: Sendable {
    package var reads: Labelled<Int64> = ReadTimes.labelled { _ in 0 }
    package var readSeconds: Labelled<HistogramCounts> = ReadTimes.labelled { _ in HistogramCounts() }
    package var hits: Int64 = 0
    package var misses: Int64 = 0
    package var bytesServed: Int64 = 0
    package var bytesFromOrigin: Int64 = 0
    package var demanded: Int64 = 0
    package var speculative: Int64 = 0
    package var wasted: Int64 = 0
    package var neverRead: Int64 = 0
    package var evictedBytes: Int64 = 0
    package var damagedBlocks: Int64 = 0
    package var cacheUsed: Int64 = 0
    package var cacheCap: Int64 = 0
    package var bytesInMemory: Int64 = 0
    package var firstByteSeconds = Labelled<HistogramCounts>()
    package var originRequests = Labelled<Int64>()
    package var originFailures = Labelled<Int64>()
    package var originCircuits = Labelled<Int64>()
    package var listingAge: Int64?

    package init() {}
}

/// All numbers of a mount. `/metrics`, the plain numbers in the JSON of `status`, the sums of a catalogue and the page
/// Metrics.md come from these rows.
package enum NumberTable {
    /// In the order of `/metrics`.
    package static let rows: [NumberRow] = [
        .volume(
            "reads_total", .counter, .reads, label: "answer", "Reads, by where their bytes came from.", \.reads
        ) { volume in
            let (counters, times) = (volume.services.counters, volume.services.times)
            return ReadTimes.labelled { answer in
                switch answer {
                case .memory: counters.memoryHits.value
                case .disk: counters.diskHits.value
                case .origin, .mirror, .tier: times[answer].value.total
                }
            }
        },
        .volume(
            "read_seconds", .histogram, .seconds, label: "answer",
            "Time to answer a read; from the cache, every 64th is timed and counts for 64.", \.readSeconds
        ) { volume in
            ReadTimes.labelled { volume.services.times[$0].value }
        },
        .volume(nil, .counter, .reads, key: "hits", "Reads answered from the cache.", \.hits) {
            $0.services.counters.diskHits.value &+ $0.services.counters.memoryHits.value
        },
        .volume(nil, .counter, .reads, key: "misses", "Reads that had to wait for the origin.", \.misses) {
            $0.services.counters.misses.value
        },
        .status(
            "stalls_total", .counter, .reads, label: "fault",
            "Reads of a steady reader that waited for long, by what took most of it."
        ) { status in
            Labelled(status.stalls.map { [("origin", $0.origin), ("queue", $0.queue), ("disk", $0.disk)] } ?? [])
        },
        // Without the bytes that the kernel reads itself.
        .volume(
            "served_bytes_total", .counter, .bytes, key: "bytesServed", "Bytes copied to readers.", \.bytesServed
        ) { $0.services.counters.bytesServed.value },
        // Of files, listings and requests for information.
        .volume(
            "origin_bytes_total", .counter, .bytes, key: "bytesFromOrigin", "Bytes of all bodies from origins.",
            \.bytesFromOrigin
        ) { $0.bytesFromOrigin },
        .status("tier_read_bytes_total", .counter, .bytes, "Bytes of files from the tier.") { $0.tier?.readBytes },
        .status("tier_written_bytes_total", .counter, .bytes, "Bytes of files written into the tier.") {
            $0.tier?.writtenBytes
        },
        .status("tier_is_avoided", .gauge, .flag, "1 while the tier is not asked.") { status in
            status.tier.map { $0.isAvoided ? 1 : 0 }
        },
        .volume(
            "demanded_bytes_total", .counter, .bytes, key: "demanded", "Bytes from origins for which a read waited.",
            \.demanded
        ) { $0.services.counters.demanded.value },
        .volume(
            "ahead_bytes_total", .counter, .bytes, key: "speculative", "All other bytes from origins.", \.speculative
        ) { $0.services.counters.speculative.value },
        .volume(
            nil, .gauge, .bytes, key: "wasted",
            "Bytes that were fetched ahead and never read, or whose file was closed before a read.", \.wasted
        ) { $0.services.counters.wasted.value &+ $0.files.unreadInVain },
        // Those of a closed file may still find a reader.
        .volume(
            "wasted_bytes_total", .counter, .bytes, "Bytes that were fetched ahead and never read.", \.neverRead
        ) { $0.services.counters.wasted.value },
        // To make room, for their age, or by a command.
        .cache("evicted_bytes_total", .counter, .bytes, "Bytes that left the cache.", \.evictedBytes) {
            $0.evictedBytes
        },
        .cache(
            "damaged_blocks_total", .counter, .blocks, key: "damagedBlocks",
            "Blocks that had changed on the disk and were fetched again.", \.damagedBlocks
        ) { $0.damagedBlocks },
        .cache("cache_bytes", .gauge, .bytes, key: "cacheUsed", "Size of the cache.", \.cacheUsed) { $0.usage.used },
        .cache("cache_limit_bytes", .gauge, .bytes, key: "cacheCap", "Cap of the cache.", \.cacheCap) { $0.usage.cap },
        .status("cache_is_failing", .gauge, .flag, "1 while the disk of the cache takes nothing.") {
            $0.cacheFailure == nil ? 0 : 1
        },
        .cache(
            "memory_bytes", .gauge, .bytes, key: "bytesInMemory", "Bytes in memory because the disk takes none.",
            \.bytesInMemory
        ) { $0.bytesInMemory },
        .volume(
            "first_byte_seconds", .histogram, .seconds, label: "origin",
            "Time from a request's departure to the head of its answer.", \.firstByteSeconds
        ) { $0.services.upstream.origins.firstBytes },
        .volume(
            "origin_requests_total", .counter, .requests, label: "origin", "Requests to an origin.", \.originRequests
        ) { $0.services.upstream.origins.requests },
        .volume(
            "origin_failures_total", .counter, .requests, label: "origin",
            "Requests that failed by the fault of the origin.", \.originFailures
        ) { $0.services.upstream.origins.failures },
        // If two sources report different states, the worse one is newer: the other has not noticed yet.
        .volume(
            "origin_circuit", .gauge, .state, label: "origin",
            "State of an origin: 0 answers, 1 in doubt, 2 away.", \.originCircuits,
            sum: { sum, part in
                sum.merge(part) { $0 = max($0, $1) }
                sum.sort()
            }
        ) { $0.services.upstream.origins.circuits($0.services.transport.standings) },
        .status("verdict", .gauge, .flag, label: "word", "1 for the word of the mount's verdict.") { status in
            let word = status.verdict?.word
            return Labelled(word == nil ? [] : Verdict.Word.allCases.map { ($0.rawValue, $0 == word ? 1 : 0) })
        },
        .status("origins_away", .gauge, .origins, "Origins that do not answer.") { Int64($0.outages.count) },
        .volume(
            "listing_age_seconds", .gauge, .seconds, "Time since an origin last confirmed the listing of the root.",
            \.listingAge, sum: { age, other in age = [age, other].compactMap { $0 }.max() }
        ) { volume in
            volume.tree.root.directory?.listing.map { max(0, wallClock() - $0.fetchedAt) }
        },
        .status("stale_directories", .gauge, .folders, "Directories whose listing could not be refreshed.") {
            Int64($0.staleDirectories.count)
        },
        .status("closed_sources", .gauge, .sources, "Sources of a catalogue that are not open.") {
            Int64($0.closedSources?.count ?? 0)
        },
        .status("open_files", .gauge, .files, "Files that are open.") {
            Int64($0.files.count { $0.openHandles > 0 })
        },
    ]
}
