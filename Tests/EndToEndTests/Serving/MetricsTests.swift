import Foundation
import Glibc
import TestKit
import Testing

/// What a monitoring system reads of a server.
@Suite struct ServedMetricsTests {
    /// The metrics of a server that has read a film from its origin and from its cache.
    private func withMetrics(_ body: (String, Scene) throws -> Void) throws {
        let film = FileOrigin(length: 3 << 20)
        let server = try filmServer(film)
        defer { server.stop() }
        try withScene { scene in
            try withServing(server.address, cache: scene.cache) { serving in
                for _ in 0..<6 { #expect(try RawAnswer(serving.port, "GET", "/files/film.mkv").status == 200) }
                let text = try RawAnswer(serving.port, "GET", "/metrics").body
                try body(String(decoding: text, as: UTF8.self), scene)
            }
        }
    }

    @Test("Reads are counted by answer, with their times, and requests by origin")
    func counts() throws {
        try withMetrics { text, _ in
            func value(_ name: String) -> Double? {
                text.split(separator: "\n").first { $0.hasPrefix(name + " ") }
                    .flatMap { Double($0.dropFirst(name.count + 1)) }
            }
            let disk = try #require(value("reelfs_reads_total{answer=\"disk\"}"))
            #expect(disk >= 120)
            #expect(try #require(value("reelfs_reads_total{answer=\"origin\"}")) >= 1)
            #expect(value("reelfs_reads_total{answer=\"mirror\"}") == 0)
            // Every 64th read from the cache counts for 64.
            let timed = try #require(value("reelfs_read_seconds_count{answer=\"disk\"}"))
            #expect(timed > disk - 64 && timed <= disk)
            #expect(try #require(value("reelfs_read_seconds_count{answer=\"origin\"}")) >= 1)
            #expect(text.contains("reelfs_first_byte_seconds_count{origin=\"http://127.0.0.1:"))
            #expect(text.contains("reelfs_origin_circuit{origin=\"http://127.0.0.1:"))
            #expect(try #require(value("reelfs_listing_age_seconds")) < 60)
        }
    }

    @Test("A server of a volume, and of a catalogue of two, has these numbers, with the sums of both sources")
    func names() throws {
        let films = (1...2).map { FileOrigin(length: 1 << 20, seed: UInt64($0)) }
        let servers = try films.map { try filmServer($0) }
        defer { for server in servers { server.stop() } }
        try withScene { scene in
            let catalogue = scene.work("all.toml")
            let tables = zip(["one", "two"], servers).map { name, server in
                "[[source]]\npath = \"\(name)\"\nsource = \"\(server.address)\"\n"
            }
            try writeFile(catalogue, tables.joined().utf8)
            chmod(catalogue, 0o600)
            for (source, paths) in [(servers[0].address, [""]), (catalogue, ["one/", "two/"])] {
                try withServing(source, cache: scene.cache) { serving in
                    for path in paths {
                        #expect(try RawAnswer(serving.port, "GET", "/files/\(path)film.mkv").status == 200)
                    }
                    let metrics = String(decoding: try RawAnswer(serving.port, "GET", "/metrics").body, as: UTF8.self)
                    let lines = metrics.split(separator: "\n")
                    let names = lines.filter { $0.hasPrefix("# TYPE ") }.map { String($0.dropFirst(14)) }
                    #expect(names == Self.names, "\(names)")
                    #expect(lines.contains("reelfs_served_bytes_total \(paths.count << 20)"), "\(metrics)")
                    let origins = Set(lines.filter { $0.hasPrefix("reelfs_origin_requests_total{") })
                    #expect(origins.count == paths.count, "\(metrics)")
                    let status = Data(try RawAnswer(serving.port, "GET", "/api/v1/status").body)
                    let volume = (try JSONSerialization.jsonObject(with: status) as? [String: Any])?["volume"]
                    let keys = try #require(volume as? [String: Any]).keys.sorted()
                    #expect(keys == Self.keys, "\(keys)")
                    #expect((volume as? [String: Any])?["bytesServed"] as? Int == paths.count << 20)
                }
            }
        }
    }

    private static let names = [
        "reads_total counter", "read_seconds histogram", "stalls_total counter", "served_bytes_total counter",
        "origin_bytes_total counter", "demanded_bytes_total counter", "ahead_bytes_total counter",
        "wasted_bytes_total counter", "evicted_bytes_total counter", "damaged_blocks_total counter",
        "cache_bytes gauge", "cache_limit_bytes gauge", "cache_is_failing gauge", "memory_bytes gauge",
        "first_byte_seconds histogram", "origin_requests_total counter", "origin_failures_total counter",
        "origin_circuit gauge", "verdict gauge", "origins_away gauge", "listing_age_seconds gauge",
        "stale_directories gauge",
        "closed_sources gauge", "open_files gauge",
    ]
    private static let keys = [
        "bytesFromOrigin", "bytesInMemory", "bytesServed", "cacheCap", "cacheUsed", "damagedBlocks", "demanded",
        "files", "hits", "isEncrypted", "isOffline", "leaving", "limitRate", "misses", "origins", "outages",
        "prefetches", "programs", "speculative", "staleDirectories", "stalls", "verdict", "wasted",
    ]

    @Test("promtool finds nothing wrong with them", .enabled(if: (try? unpackedProgram("promtool")) != nil || isCI))
    func promtool() throws {
        let promtool = try #require(try unpackedProgram("promtool"))
        try withMetrics { text, scene in
            try writeFile(scene.work("metrics"), text.utf8)
            let end = try ChildProcess.run([
                "sh", "-c", "exec \"$0\" check metrics < \"$1\"", promtool, scene.work("metrics"),
            ])
            #expect(end.status == 0 && end.errors.isEmpty, "\(end)")
        }
    }

    @Test("Each metric that the dashboard names is there")
    func dashboard() throws {
        let path = repository + "/mount-helpers/grafana-dashboard.json.example"
        let document = try JSONSerialization.jsonObject(with: Data(try readWhole(path)))
        let panels = try #require((document as? [String: Any])?["panels"] as? [[String: Any]])
        let targets = panels.flatMap { $0["targets"] as? [[String: Any]] ?? [] }
        let words = targets.compactMap { $0["expr"] as? String }.flatMap { expression in
            expression.split { !($0.isLetter || $0.isNumber || $0 == "_") }.filter { $0.hasPrefix("reelfs_") }
        }
        #expect(words.count >= 20)
        try withMetrics { text, _ in
            for word in Set(words) {
                let isThere = text.split(separator: "\n").contains { line in
                    line.hasPrefix(word) && " {".contains(line.dropFirst(word.count).first ?? "x")
                }
                #expect(isThere, "\(word)")
            }
        }
    }
}
