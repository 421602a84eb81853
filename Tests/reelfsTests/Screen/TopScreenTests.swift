import ReelCore
import Testing

@testable import ReelVolume
@testable import reelfs

@Suite struct TopScreenTests {
    private static let map = String(repeating: "#", count: 24) + ">" + String(repeating: ".", count: 71)

    private static func film(_ path: String, _ change: (inout VolumeStatus.File) -> Void = { _ in })
        -> VolumeStatus.File
    {
        var file = VolumeStatus.File(path: path, length: 96 << 20, cachedBytes: 24 << 20, openHandles: 1, rate: 5 << 20)
        (file.isPlayed, file.program, file.map) = (true, "mpv", map)
        file.readers = [VolumeStatus.Reader(position: 12 << 20, ahead: 12 << 20, rate: 1 << 20, isPlayer: true)]
        file.neededRate = 1 << 20
        change(&file)
        return file
    }

    private static func mount(_ files: [VolumeStatus.File]) -> MountStatus {
        var volume = VolumeStatus()
        (volume.cacheUsed, volume.cacheCap, volume.files) = (1 << 30, 2 << 30, files)
        volume.origins = [
            VolumeStatus.Origin(
                origin: "http://h", health: "well", firstByte: 12, rate: 5 << 20, bytes: 1, requests: 1, failed: 0)
        ]
        return MountStatus(source: "http://h/", mountpoint: "/m", pid: 7, volume: volume)
    }

    private static func closed(_ path: String) -> VolumeStatus.File {
        VolumeStatus.File(path: path, length: 10, cachedBytes: 10, openHandles: 0, rate: 0)
    }

    @Test(
        "Each verdict but that all is well has a next step, which suits its culprit",
        arguments: [
            (Verdict.Word.well, nil, nil), (.refused, "login", "`reelfs doctor /m` looks into it"),
            (.refused, "command", "run that command yourself, as the user who mounts"),
            (.stands, "line", "`reelfs limit-rate off /m` lifts the limit"),
            (.stands, "disk", "free space on the disk of the cache, or repair it"),
            (.disk, "disk", "free space on the disk of the cache, or repair it"),
            (.stops, "origin", "`reelfs doctor /m` looks into it"), (.offline, nil, "`reelfs offline off /m` ends it"),
            (.away, "origin", "the mount goes on by itself once it answers"),
        ] as [(Verdict.Word, String?, String?)])
    func next(word: Verdict.Word, culprit: String?, expected: String?) {
        #expect(nextStep(Verdict(word: word, culprit: culprit, sentence: "x"), "/m", isCommanded: true) == expected)
    }

    @Test("The option --only-cached is not ended by a command")
    func nextOfOnlyCached() {
        let step = nextStep(Verdict(word: .offline, sentence: "x"), "/m", isCommanded: false)
        #expect(step == "mount it without --only-cached to end it")
    }

    @Test("A film is described in words, and its parts are a bar in which the reader stands")
    func words() {
        let file = Self.film("a.mkv")
        #expect(mapBar(file, width: 32) == "[####|###>.......................]")
        #expect(mapBar(file, width: 96)?.dropFirst().prefix(14) == "############|#")
        #expect(stateText(file) == "mpv plays")
        #expect(placeText(file) == "read up to about 0:12 of 1:36, 12s ahead")
        #expect(paceText(file, now: 0) == "reads 1.0 MiB/s, needs 1.0 MiB/s")
        let told = Self.film("a.mkv") {
            $0.seconds = 5760
            $0.waiting = 1500
            $0.lastStall = VolumeStatus.Stall(fault: "queue", milliseconds: 1240, when: 100)
        }
        #expect(placeText(told) == "read up to 12:00 of 1:36:00, 12m ahead")
        #expect(stateText(told) == "mpv waits 1.5 s")
        #expect(paceText(told, now: 140)?.hasSuffix("last stall 1.2 s by the queue 40s ago") == true)
        let end = Self.film("a.mkv") { $0.readers![0].ahead = 84 << 20 }
        #expect(placeText(end)?.hasSuffix("cached to its end") == true)
    }

    @Test("A daemon's absurd words about a film are shown, or left out, and end nothing")
    func absurd() {
        for map in ["", "#", String(repeating: "x", count: 96), String(repeating: "é", count: 48)] {
            #expect(mapBar(Self.film("a") { $0.map = map }, width: 10) == nil)
        }
        for number in [Int64.min, -1, 0, .max] {
            let file = Self.film("a\u{1B}[2J") {
                ($0.length, $0.waiting, $0.neededRate, $0.seconds) = (number, number, number, .infinity)
                $0.readers = [VolumeStatus.Reader(position: number, ahead: number, rate: number, isPlayer: true)]
                $0.lastStall = VolumeStatus.Stall(fault: "\u{1B}", milliseconds: number, when: number)
            }
            let screen = TopScreen(mounts: [Self.mount([file])], columns: 40, rows: 12, now: .max)
            #expect(screen.lines.count == 12)
            #expect(!screen.lines.joined().contains("\u{1B}"))
            #expect(!statusText(Self.mount([file])).contains("\u{1B}"))
        }
    }

    @Test("No line is wider than the terminal, and the chosen file is always on the screen", arguments: [1, 7, 24, 80])
    func fits(columns: Int) {
        let files = (0..<40).map { Self.film("フィルム \($0) with a long name.mkv") } + [Self.closed("z")]
        for rows in [1, 2, 5, 24] {
            for chosen in [0, 20, 40] {
                let screen = TopScreen(
                    mounts: [Self.mount(files)], chosen: chosen, columns: columns, rows: rows, now: 0)
                let lines = screen.lines
                #expect(lines.count == rows)
                #expect(lines.allSatisfy { $0.count <= columns })
                if rows > 1, columns > 10 { #expect(lines.contains { $0.hasPrefix("> ") }, "\(lines)") }
            }
        }
        #expect(cut("フィルム", to: 5) == "フィ…" && cut("abc", to: 3) == "abc" && cut("abcd", to: 3) == "ab…")
    }

    @Test("Files that play come first, and colours only where they are wanted")
    func order() {
        let files = [Self.film("scan") { $0.isPlayed = false }, Self.film("play"), Self.closed("closed")]
        var screen = TopScreen(mounts: [Self.mount(files)], chosen: 1, columns: 80, now: 0)
        #expect(screen.choices.map(\.path) == ["play", "scan", "closed"])
        #expect(!screen.lines.joined().contains("\u{1B}"))
        #expect(screen.lines.contains { $0.hasPrefix("  origin   http://h: well, first byte 12 ms, 5.0 MiB/s") })
        screen.hasColour = true
        #expect(screen.lines.contains { $0.hasPrefix("\u{1B}[7m> scan") })
    }
}
