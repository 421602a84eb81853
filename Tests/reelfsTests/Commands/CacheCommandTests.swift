import Glibc
import Testing

@testable import ReelVolume
@testable import reelfs

@Suite("Commands on the cache")
struct CacheCommandTests {
    @Test("The words of a command are what they say")
    func words() throws {
        let prune =
            try Program.parse(["reelfs", "cache", "prune", "--to", "5G", "--cache-dir", "/c"]) as? CachePruneCommand
        #expect(try prune?.to == "5G" && prune?.options.cacheDirectory() == "/c")
        let verify =
            try Program.parse(["reelfs", "cache", "verify", "--repair", "-q", "a", "b"]) as? CacheVerifyCommand
        #expect(verify?.repair == true && verify?.quiet == true && verify?.paths == ["a", "b"])
        #expect((try Program.parse(["reelfs", "cache", "list", "--json"]) as? CacheListCommand)?.json == true)
        #expect((try Program.parse(["reelfs", "pin", "x"]) as? PinCommand)?.paths == ["x"])
        #expect((try Program.parse(["reelfs", "unpin", "x"]) as? UnpinCommand)?.paths == ["x"])
        #expect((try Program.parse(["reelfs", "evict", "x", "y"]) as? EvictCommand)?.paths == ["x", "y"])
        let refresh = try Program.parse(["reelfs", "refresh", "-r", "x", "y"]) as? RefreshCommand
        #expect(refresh?.recursive == true && refresh?.paths == ["x", "y"])
    }

    static let mistakes = [
        ["pin"], ["unpin"], ["evict"], ["refresh"], ["cache", "prune", "5G"], ["cache", "list", "x"],
        ["cache", "verify", "x", "--cache-dir", "/c"], ["cache", "colour"],
    ]

    @Test("Wrong words are no command", arguments: mistakes)
    func mistake(words: [String]) {
        #expect(throws: (any Error).self) { try Program.parse(["reelfs"] + words) }
    }

    private static func part(_ used: Int64, _ files: (bytes: Int64, use: Int64, stays: Bool)...) -> CacheStatus {
        CacheStatus(
            used: used,
            files: files.map {
                CachedFile(path: nil, url: "", length: 100, cachedBytes: $0.bytes, lastUse: $0.use, isPinned: $0.stays)
            })
    }

    static let plans: [(Int64, [Int64])] = [
        (0, [.max, .max]), (150, [0, 0]), (140, [0, 10]), (110, [20, 20]), (60, [50, 40]), (10, [50, 50]),
    ]

    /// Uses: 10 of the first, 20 and 5 of the second; 30 and 20 bytes are pinned.
    @Test("A size over all sources takes what was used longest ago, wherever it is", arguments: plans)
    func plan(limit: Int64, expected: [Int64]) {
        let parts = [
            Self.part(80, (50, 10, false), (30, 1, true)),
            Self.part(70, (20, 5, false), (30, 20, false), (20, 2, true)),
        ]
        #expect(prunePlan(parts, to: limit) == expected)
    }

    @Test(
        "A bar is as full as the work is done",
        arguments: [(0, "[....]"), (50, "[##..]"), (99, "[###.]"), (100, "[####]")])
    func bar(done: Int64, expected: String) {
        #expect(ProgressBar.bar(MaintenanceProgress(done: done, total: 100), width: 4) == expected)
    }

    @Test(
        "A line of progress fits the terminal, with a bar where there is room",
        arguments: [
            (200, 30), (80, 27), (61, 8), (60, 0), (20, 0),
        ])
    func line(columns: Int, bar: Int) {
        let line = ProgressBar.line(
            "fetching", MaintenanceProgress(done: 0, total: 87 << 20), ", 632 KiB/s, 3m left", columns: columns)
        #expect(line.count < columns, "\(line)")
        #expect(line.count { $0 == "." } - (bar == 0 ? 0 : 1) == bar || bar == 0 && !line.contains("["), "\(line)")
    }

    @Test(
        "A path lies below a directory, not below one that only begins alike",
        arguments: [
            ("/m/a", "/m", true), ("/m", "/m", true), ("/mm", "/m", false), ("/a", "/", true),
            ("/m/a", "/m/a/b", false),
        ])
    func lies(path: String, folder: String, expected: Bool) {
        #expect(MountedPath.lies(path, below: folder) == expected)
    }

    @Test("What verify found is reported with its numbers")
    func verdict() {
        var report = MaintenanceReport()
        report.files = 1
        report.bytes = 1 << 20
        #expect(verifyText(report, repairs: true, isOffline: false) == "1.0 MiB in 1 file verified: no damage.")
        report.damagedBlocks = 3
        report.refetchedBlocks = 2
        report.damagedFiles = ["a\u{1B}[2J"]
        report.failure = "the origin cannot be reached"
        let text = verifyText(report, repairs: true, isOffline: false)
        #expect(text.contains("3 damaged blocks in\n  a?[2J\n2 blocks fetched again.\n1 block removed: the origin"))
        #expect(verifyText(report, repairs: false, isOffline: false).contains("fetches them again; --repair"))
        report.damagedBlocks = 1
        #expect(verifyText(report, repairs: false, isOffline: false).contains("fetches it again; --repair"))
    }

    @Test("What does not fit is one file, or several")
    func refusal() {
        var status = PrefetchStatus(number: 1, PrefetchRequest(paths: []))
        status.refusal = .init(needed: 2 << 30, pinned: 0, cap: 1 << 30)
        status.files = 1
        #expect(refusalText(status).hasPrefix("1 file of 2.0 GiB does not fit into the cache"))
        status.files = 2
        #expect(refusalText(status).hasPrefix("2 files of 2.0 GiB do not fit into the cache"))
    }
}
