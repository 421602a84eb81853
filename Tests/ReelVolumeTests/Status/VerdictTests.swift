import ReelCore
import Testing

@testable import ReelVolume

/// What a mount's state means, as one sentence.
@Suite struct VerdictTests {
    /// A film of 100 MB that a player reads from byte 10,000,000 on.
    private static func film(
        ahead: Int64 = 1_000_000, comes: Int64 = 0, needs: Int64? = 100_000, waits: Int64? = nil, isPlayed: Bool = true,
        map: String = "##>>...."
    ) -> VolumeStatus.File {
        var film = VolumeStatus.File(
            path: "films/Sunrise.mkv", length: 100_000_000, cachedBytes: 11_000_000, openHandles: 1, rate: comes,
            isPlayed: isPlayed)
        (film.neededRate, film.waiting, film.map) = (needs, waits, map)
        film.readers = [.init(position: 10_000_000, ahead: ahead, rate: needs, isPlayer: isPlayed)]
        return film
    }

    private static func origin(
        _ health: String, _ name: String = "http://h", trouble: VolumeStatus.Trouble? = nil, firstByte: Int64? = nil
    ) -> VolumeStatus.Origin {
        VolumeStatus.Origin(
            origin: name, health: health, trouble: trouble, firstByte: firstByte, rate: 0, bytes: 0, requests: 1,
            failed: 0)
    }

    private static let refusal = VolumeStatus.Trouble(culprit: "login", reason: "the origin answers 401", since: 7)

    private static let cases: [(String?, Verdict.Word, String?, String, @Sendable (inout VolumeStatus) -> Void)] = [
        ("nothing is open", .well, nil, "well", { _ in }),
        ("a film plays", .well, nil, "what plays plays on", { $0.files = [film(comes: 200_000)] }),
        ("two films", .well, nil, "all 2 play on", { $0.files = [film(comes: 200_000), film(comes: 200_000)] }),
        ("a copy takes what comes", .well, nil, "well", { $0.files = [film(isPlayed: false)] }),
        (
            "enough is there, and nothing is asked for", .well, nil, "what plays plays on",
            { $0.files = [film(map: "##......")] }
        ),
        (
            "less comes than it needs", .stops, "origin",
            "Sunrise.mkv stops in 20 s: 48.8 KiB/s come, 97.7 KiB/s are needed",
            { $0.files = [film(comes: 50_000)] }
        ),
        (
            "but its end comes first", .well, nil, "what plays plays on",
            { $0.files = [film(ahead: 89_000_000, comes: 99_000)] }
        ),
        (
            "the user's own limit", .stops, "line", "Sunrise.mkv stops in 20 s: 48.8 KiB/s come, 97.7 KiB/s are needed",
            {
                $0.files = [film(comes: 50_000)]
                $0.limitRate = "50K"
            }
        ),
        (
            "a schedule that limits nothing now", .stops, "origin",
            "Sunrise.mkv stops in 20 s: 48.8 KiB/s come, 97.7 KiB/s are needed",
            {
                $0.files = [film(comes: 50_000)]
                $0.limitRate = "08:00,off 23:00,off"
            }
        ),
        (
            "it waits", .stands, "origin", "Sunrise.mkv stands for 8 s: 48.8 KiB/s come, 97.7 KiB/s are needed",
            { $0.files = [film(comes: 50_000, waits: 8100)] }
        ),
        (
            "it waits, behind a limit that lets much in at once", .stands, "line", "Sunrise.mkv stands for 2 s",
            {
                $0.files = [film(comes: 335_000, waits: 2000)]
                $0.limitRate = "100K"
            }
        ),
        (
            "a read of a copy waits", .well, nil, "well",
            { $0.files = [film(comes: 1_600_000, needs: nil, waits: 2000, isPlayed: false)] }
        ),
        (
            "a film that was just opened waits", .stands, "origin", "Sunrise.mkv stands for 2 s",
            { $0.files = [film(needs: nil, waits: 2000, isPlayed: false)] }
        ),
        ("it waits for a moment", .well, nil, "what plays plays on", { $0.files = [film(comes: 200_000, waits: 900)] }),
        (
            "it waits for a login", .stands, "login", "Sunrise.mkv stands for 2 s: http://h: the origin answers 401",
            {
                $0.files = [film(waits: 2000)]
                $0.origins = [origin("refused", trouble: refusal)]
            }
        ),
        (
            "refused", .refused, "login", "http://h: the origin answers 401",
            { $0.origins = [origin("refused", trouble: refusal)] }
        ),
        (
            "away", .away, "origin", "http://h is away (unreachable): what is cached plays",
            { $0.origins = [origin("unreachable")] }
        ),
        (
            "away, and why", .away, "origin", "it cannot be reached (http://h: x): what is cached plays",
            {
                $0.origins = [
                    origin(
                        "unreachable",
                        trouble: .init(culprit: "origin", reason: "it cannot be reached (http://h: x)", since: 7))
                ]
            }
        ),
        (
            "a mirror stands in", .well, nil, "well",
            {
                $0.origins = [origin("unreachable"), origin("well", "http://m")]
                $0.mirrors = [place("http://h"), place("http://m")]
            }
        ),
        (
            "no mirror stands in", .away, "origin", "http://h is away (silent): what is cached plays",
            {
                $0.origins = [origin("silent"), origin("unreachable", "http://m")]
                $0.mirrors = [place("http://h"), place("http://m")]
            }
        ),
        (
            "slow", .slow, "origin", "http://h is slow: its answers begin after 3.1 s",
            { $0.origins = [origin("well", firstByte: 3100)] }
        ),
        (
            "by command", .offline, nil, "nothing is asked for, by command: what is cached whole plays",
            { $0.isOffline = true }
        ),
        (
            "the disk", .disk, "disk", "the disk of the cache takes nothing: 1.0 KiB in memory",
            {
                $0.cacheFailure = "no space left"
                $0.bytesInMemory = 1024
            }
        ),
    ]

    private static func place(_ origin: String) -> VolumeStatus.Mirror {
        VolumeStatus.Mirror(isSource: origin == "http://h", origin: origin, bytes: 0, isAvoided: false, leftOut: 0)
    }

    @Test(arguments: cases.indices) func aStateHasOneSentence(index: Int) {
        let (name, word, culprit, sentence, change) = Self.cases[index]
        var status = VolumeStatus()
        change(&status)
        let verdict = status.judged
        #expect(verdict.word == word && verdict.culprit == culprit && verdict.sentence == sentence, "\(name ?? "")")
        let isOfFilm = sentence.hasPrefix("Sunrise.mkv ")
        #expect(verdict.path == (isOfFilm ? "films/Sunrise.mkv" : nil), "\(name ?? "")")
    }

    @Test func anOriginIsRefusedUntilItAnswers() {
        let table = OriginTable()
        table.ended("http://h", isUnwell: false)
        let health = { table.status([:]).map(\.health) }
        #expect(health() == ["well"])
        table.judge("http://h", by: .status(401, retryAfter: nil))
        #expect(health() == ["refused"] && table.status([:]).first?.trouble?.reason == "the origin answers 401")
        // These say nothing of a login.
        for failure in [OriginFailure.cancelled, .timedOut, .unreachable("x"), .status(404, retryAfter: nil)] {
            table.judge("http://h", by: failure)
        }
        #expect(health() == ["refused"])
        let away = table.status(["http://h": .away(.unreachable, since: 1)]).first
        #expect(away?.health == "unreachable" && away?.trouble?.reason == "the origin cannot be reached (x)")
        table.judge("http://h", by: nil)
        #expect(health() == ["well"])
        // One file of an origin that gives others.
        for status in [400, 403] { table.judge("http://h", by: .status(status, retryAfter: nil)) }
        #expect(health() == ["well"])
        for (status, word) in [(500, "wrong"), (503, "slow"), (429, "slow"), (401, "refused")] {
            table.judge("http://h", by: .status(status, retryAfter: nil))
            #expect(health() == [word])
        }
        table.judge("http://h", by: .wrongAnswer("x"))
        #expect(health() == ["wrong"])
        table.judge("http://h", by: nil)
        #expect(health() == ["well"])
    }

    @Test func anOriginThatHasOnlyRefusalsIsNotWell() {
        for (status, word) in [(400, "wrong"), (403, "refused")] {
            let table = OriginTable()
            table.judge("http://h", by: .status(status, retryAfter: nil))
            #expect(table.status([:]).map(\.health) == [word])
        }
    }

    @Test func aCatalogueIsAsItsWorstSource() {
        var (one, two, all) = (VolumeStatus(), VolumeStatus(), VolumeStatus())
        two.origins = [Self.origin("unreachable")]
        for place in [one, two] { all.add(place, at: "x") }
        (one.verdict, two.verdict) = (one.judged, two.judged)
        #expect(all.judged(of: [one, two]).word == .away && all.judged(of: [one]).word == .well)
        // The mirrors of one source are none of another's.
        all.mirrors = [Self.place("http://h"), Self.place("http://other")]
        #expect(all.judged(of: [one, two]).word == .away)
        all.closedSources = [VolumeStatus.ClosedSource(path: "three", trouble: "it does not answer", since: 20)]
        #expect(all.judged(of: [one]).sentence == "three: it does not answer")
    }
}
