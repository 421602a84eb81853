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
