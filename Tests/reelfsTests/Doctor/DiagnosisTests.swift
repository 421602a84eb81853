import Glibc
import ReelCache
import ReelCore
import ReelSources
import TestKit
import Testing

@testable import ReelVolume
@testable import reelfs

/// What facts mean, without a network, a disk or a mount.
@Suite("A diagnosis")
struct DiagnosisTests {
    private static func lines(_ body: (inout Diagnosis) -> Void) -> [String] {
        var diagnosis = Diagnosis()
        body(&diagnosis)
        return diagnosis.findings.map { "\($0.mark) \($0.fact)" }
    }

    // MARK: The system

    private static func system(_ change: (inout SystemFacts) -> Void) -> SystemFacts {
        var facts = SystemFacts()
        facts.kernel = "6.9.0-amd64"
        change(&facts)
        return facts
    }

    static let possible = "ok passthrough is possible: the kernel reads complete files itself"
    static let none = "note no passthrough: complete files are read through reelfs: "
    static let root = "ok root can mount, and other users have access"

    static let systems: [(SystemFacts, [String])] = [
        (system { _ in }, [root, possible]),
        (system { $0.kernel = "6.8.12" }, [root, none + "it needs Linux 6.9, this is 6.8.12"]),
        (system { $0.kernel = "5.10.0" }, [root, none + "it needs Linux 6.9, this is 5.10.0"]),
        (system { $0.kernel = "7.0-rc1" }, [root, possible]),
        (system { $0.kernel = "6.18" }, [root, possible]),
        (system { $0.libraryHasPassthrough = false }, [root, none + "it needs libfuse 3.13 or newer"]),
        (
            system { $0.isFirstUserNamespace = false },
            [root, none + "the kernel refuses it in a container with its own user namespace"]
        ),
        (
            system { $0.mayAdminister = false },
            ["bad root without CAP_SYS_ADMIN cannot mount", none + "only root's mounts have it"]
        ),
        (
            system { $0.isRoot = false },
            [
                "ok this user can mount, through fusermount3; other users have no access",
                none + "only root's mounts have it",
            ]
        ),
        (
            system { ($0.isRoot, $0.allowsOther) = (false, true) },
            [
                "ok this user can mount, through fusermount3; allow_other gives other users access",
                none + "only root's mounts have it",
            ]
        ),
        (
            system { ($0.isRoot, $0.lack) = (false, "there is no /dev/fuse") },
            ["bad there is no /dev/fuse", none + "only root's mounts have it"]
        ),
    ]

    @Test("says who can mount, and whether passthrough is possible", arguments: systems.indices)
    func system(index: Int) {
        let (facts, expected) = Self.systems[index]
        #expect(Self.lines { $0.add(facts) } == expected)
    }

    @Test(
        "knows the first user namespace by its map",
        arguments: [("         0          0 4294967295\n", true), ("0 100000 65536\n", false), ("", true)])
    func namespace(map: String, expected: Bool) { #expect(mapsEverybody(map) == expected) }

    // MARK: The cache

    private static func cache(_ change: (inout CacheFacts) -> Void) -> CacheFacts {
        var facts = CacheFacts()
        (facts.path, facts.folder, facts.fileSystem) = ("/c/reelfs", "/c", "ext4")
        (facts.free, facts.total) = (100 << 30, 200 << 30)
        change(&facts)
        return facts
    }

    /// The caches with a cap of 10 GiB and a floor of 5 %.
    static let caches: [(CacheFacts, String)] = [
        (cache { _ in }, "ok the cache /c/reelfs on ext4 has room for 10.0 GiB"),
        (cache { $0.fileSystem = nil }, "ok the cache /c/reelfs has room for 10.0 GiB"),
        (cache { $0.free = 15 << 30 }, "note the cache /c/reelfs on ext4 has room for 5.0 GiB of 10.0 GiB"),
        (
            cache { $0.free = 10 << 30 },
            "bad the cache /c/reelfs on ext4 has no room: 10.0 GiB free, and 10.0 GiB must stay free"
        ),
        (
            cache { ($0.free, $0.held) = (10 << 30, 3 << 30) },
            "note the cache /c/reelfs on ext4 has room for 3.0 GiB of 10.0 GiB"
        ),
        (
            cache { $0.hasHoles = false },
            "bad the cache /c/reelfs on ext4: this filesystem has no holes, so a full cache cannot evict data"
        ),
        (
            cache { $0.failure = EACCES },
            "bad the cache /c/reelfs: cannot write to /c (Permission denied)"
        ),
        (
            cache { $0.fileSystem = "tmpfs" },
            "note the cache /c/reelfs on tmpfs is in memory: a reboot empties it"
        ),
    ]

    @Test("says what the cache's disk has", arguments: caches.indices)
    func cache(index: Int) {
        let (facts, expected) = Self.caches[index]
        let limits = CacheLimits(MountOptions())
        #expect(Self.lines { $0.add(facts, limits) } == [expected])
    }

    @Test("The place of a cache is tried, and nothing of that is left")
    func place() throws {
        try withTemporaryDirectory { folder in
            let facts = CacheFacts.gather(folder + "/not/yet", source: "http://h/")
            #expect(facts.failure == nil && facts.hasHoles && facts.folder == folder && facts.free > 0)
            // `withTemporaryDirectory` removes it, which works only if it is empty.
            #expect(rmdir(folder) == 0)
            #expect(CacheFacts.gather("/proc/nothing", source: nil).failure != nil)
        }
    }

    @Test("What a source has in the cache counts as its room, what others have does not")
    func held() throws {
        try withTemporaryDirectory { folder in
            let objects = "\(folder)/\(sourceDirectoryName("http://h/"))/objects"
            defer {
                for path in [objects + "/file", objects, folder + "/" + sourceDirectoryName("http://h/")] {
                    remove(path)
                }
            }
            mkdir(folder + "/" + sourceDirectoryName("http://h/"), 0o700)
            mkdir(objects, 0o700)
            let file = open(objects + "/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
            // 128 KiB at its end: a hole takes nothing.
            #expect(pwrite(file, [UInt8](repeating: 1, count: 131_072), 131_072, 8 << 20) == 131_072)
            fsync(file)
            close(file)
            #expect((131_072...262_144).contains(CacheFacts.gather(folder, source: "http://h/").held))
            #expect(CacheFacts.gather(folder, source: "http://other/").held == 0)
        }
    }

    // MARK: An origin

    private static let url = ResourceURL("https://host/Film.mkv?sig=secret")!

    private static func information(
        tag: String? = "\"a\"", date: Int64? = nil, length: Int64? = 20_000_000_000, ranges: Bool = true
    ) -> ContentInformation {
        ContentInformation(
            length: length, validator: Validator(entityTag: tag.flatMap { EntityTag($0) }, lastModified: date),
            mediaType: "video/mp4", acceptsRanges: ranges)
    }

    private static func origin(
        _ first: Result<ContentInformation, OriginFailure>, _ change: (inout OriginFacts) -> Void = { _ in }
    ) -> OriginFacts {
        var facts = OriginFacts(url: url, first: .init(outcome: first, place: url, latency: .milliseconds(50)))
        if case .success(let information) = first {
            facts.second = .init(outcome: .success(information), place: url, latency: .milliseconds(20))
        }
        change(&facts)
        return facts
    }

    private static func speed(_ connections: Int, _ bytes: Double, _ failure: OriginFailure? = nil) -> OriginFacts.Speed
    {
        OriginFacts.Speed(
            connections: connections, bytes: bytes, received: 4 << 20, elapsed: .milliseconds(500), failure: failure)
    }

    private static func place(_ text: String, _ redirects: Int) -> OriginFacts.Probe {
        .init(outcome: .success(information()), redirects: redirects, place: ResourceURL(text), latency: .zero)
    }

    static let reached = "ok the origin answers: 30 ms to connect, 20 ms to the first byte, TLS"
    static let ranged = "ok ranges work: 206 with exactly the requested bytes; 18.6 GiB, video/mp4"
    static let same = "ok validator: a strong ETag, the same twice"

    static let origins: [(OriginFacts, [String])] = [
        (origin(.success(information())), [reached, ranged, same]),
        (
            origin(.success(information())) { $0.speeds = [speed(1, 1e6), speed(2, 2e6), speed(4, 3e6)] },
            [
                reached, ranged, same,
                "ok speed: 8.0 Mbit/s with 1 connection, 16 Mbit/s with 2, 24 Mbit/s with 4 (12.0 MiB in 1.5 s)",
                "ok plays up to 19 Mbit/s: a 2h film of 16.1 GiB; this one if it lasts 2h18m or longer",
            ]
        ),
        (
            origin(.success(information())) { ($0.speeds, $0.duration) = ([speed(1, 3e6)], 7200) },
            [
                reached, ranged, same, "ok speed: 24 Mbit/s with 1 connection (4.0 MiB in 500 ms)",
                "bad it will stall: 18.6 GiB in 2h need 22 Mbit/s, 19 Mbit/s are available",
            ]
        ),
        (
            origin(.success(information())) { ($0.speeds, $0.duration) = ([speed(1, 4e6)], 7200) },
            [
                reached, ranged, same, "ok speed: 32 Mbit/s with 1 connection (4.0 MiB in 500 ms)",
                "ok it will play: 18.6 GiB in 2h need 22 Mbit/s, 26 Mbit/s are available",
            ]
        ),
        (
            origin(.success(information())) {
                $0.speeds = [speed(1, 1e6), speed(2, 0, .status(429, retryAfter: nil))]
            },
            [
                reached, ranged, same, "note 2 connections at a time are too many: the origin answers 429",
                "ok speed: 8.0 Mbit/s with 1 connection (8.0 MiB in 1.0 s)",
                "ok plays up to 6.4 Mbit/s: a 2h film of 5.36 GiB; this one if it lasts 6h56m or longer",
            ]
        ),
        (
            origin(.success(information())) { $0.speeds = [speed(1, 0, .timedOut)] },
            [reached, ranged, same, "bad cannot measure speed: the origin did not answer in time"]
        ),
        (
            origin(.success(information(ranges: false))) { $0.keepsConnections = false },
            [
                "ok the origin answers: 50 ms to the first byte, TLS",
                "note no ranges: each request gets 200 with the whole file; 18.6 GiB, video/mp4", same,
            ]
        ),
        (
            origin(.success(information(length: nil, ranges: false))) { $0.keepsConnections = false },
            [
                "ok the origin answers: 50 ms to the first byte, TLS",
                "note no ranges: each request gets 200 with the whole file; length unknown, video/mp4",
                "note the length is not given: programs see it only once the whole file has arrived", same,
            ]
        ),
        (
            origin(.success(information())) { $0.keepsConnections = false },
            [
                "note the origin answers: 50 ms to the first byte, TLS; it closes each connection, so every request "
                    + "opens a new connection",
                ranged, same,
            ]
        ),
        (
            origin(.success(information(tag: "W/\"a\""))),
            [reached, ranged, "ok validator: a weak ETag, the same twice"]
        ),
        (
            origin(.success(information(tag: nil, date: 1))),
            [reached, ranged, "ok validator: Last-Modified, the same twice"]
        ),
        (
            origin(.success(information(tag: nil))),
            [reached, ranged, "note no validator: a change that keeps the length would not be noticed"]
        ),
        (
            origin(.success(information())) { $0.second?.outcome = .success(information(tag: "\"b\"")) },
            [reached, ranged, "bad the validator differs in each answer, as if the file changed all the time"]
        ),
        (
            // As Apache does with a fresh file: no change.
            origin(.success(information(tag: "W/\"a\""))) { $0.second?.outcome = .success(information()) },
            [reached, ranged, "ok validator: a weak ETag, the same twice"]
        ),
        (
            origin(.success(information())) { $0.second?.outcome = .failure(.status(500, retryAfter: nil)) },
            [
                reached,
                "bad a range at the start works, one at the end does not: the origin answers 500",
                "ok validator: a strong ETag",
            ]
        ),
        (
            origin(.success(information())) { $0.first = place("https://cdn/a?sig=secret", 2) },
            [
                "ok the origin answers: 0.0 ms to connect and be redirected, 20 ms to the first byte, TLS",
                "ok it redirects to https://cdn (2 redirects), which gets no credentials", ranged, same,
            ]
        ),
        (
            origin(.success(information())) { $0.first = place("http://cdn:81/a", 1) },
            [
                "ok the origin answers: 0.0 ms to connect and be redirected, 20 ms to the first byte, no TLS",
                "note it redirects to http://cdn:81, which has no TLS", ranged, same,
            ]
        ),
        (
            origin(.success(information())) { $0.first = place("https://host/other", 1) },
            [
                "ok the origin answers: 0.0 ms to connect and be redirected, 20 ms to the first byte, TLS",
                "ok it redirects to the same host", ranged, same,
            ]
        ),
    ]

    @Test("says what an origin's answers mean", arguments: origins.indices)
    func origin(index: Int) {
        let (facts, expected) = Self.origins[index]
        #expect(Self.lines { $0.add(facts) } == expected)
    }

    static let failures: [(OriginFailure, String, String)] =
        [
            (400, "--cert"),
            (401, "~/.netrc"), (403, "--credentials"), (404, "path of the URL"), (410, "path of the URL"),
            (408, "administrator"), (418, "browser"), (423, "try later"), (425, "try later"),
            (429, "try later"), (500, "administrator"), (501, "browser"), (503, "try later"), (600, "administrator"),
        ].map { (.status($0, retryAfter: nil), "bad https://host: the origin answers \($0)", $1) } + [
            (.timedOut, "bad https://host: the origin did not answer in time", "firewall"),
            (
                .unreachable("https://host: refused"), "bad the origin cannot be reached (https://host: refused)",
                "host and port"
            ),
            (
                .untrusted("no TLS (https://host: bad)"), "bad no TLS (https://host: bad)",
                "--cacert"
            ),
            (.wrongAnswer("x"), "bad https://host: the origin's answer is of no use (x)", "login page"),
            (.interrupted("x"), "bad https://host: the answer broke off (x)", "Try again"),
            (.hostKey("https://host has another key"), "bad https://host has another key", "administrator"),
            (.changed, "bad https://host: it has changed meanwhile", "Try again"),
            (.away(.silent), "bad https://host: the origin is away", "Try again"),
            (
                .away(.offline), "bad https://host: --only-cached or `reelfs offline on` lets nothing be asked for",
                "Try again"
            ),
            (.unresolved, "bad https://host: the resolver tells no place", "Try again"),
            (.noLogin, "bad https://host: there is no login for it: what gives it has failed", "who mounts"),
            (.cancelled, "bad https://host: the request was cancelled", "Try again"),
        ]

    @Test("says what to do if no answer helps", arguments: failures.indices)
    func failure(index: Int) throws {
        let (failure, expected, remedy) = Self.failures[index]
        #expect(Self.lines { $0.add(Self.origin(.failure(failure))) } == [expected])
        var diagnosis = Diagnosis()
        diagnosis.add(Self.origin(.failure(failure)))
        #expect(try #require(diagnosis.findings[0].remedy).contains(remedy) && !diagnosis.isWell)
    }

    @Test("A length of any number and a rate of next to nothing are reported")
    func extremes() {
        let facts = Self.origin(.success(Self.information(length: .max))) { $0.speeds = [Self.speed(1, 0.1)] }
        #expect(Self.lines { $0.add(facts) }.last?.contains("or longer") == true)
    }

    @Test("A failure behind a redirect is reported as one")
    func behindRedirect() {
        let facts = Self.origin(.failure(.status(403, retryAfter: nil))) { $0.first.redirects = 1 }
        #expect(Self.lines { $0.add(facts) } == ["bad https://host: the origin answers 403, behind a redirect"])
    }

    @Test("Credentials that are refused are named, those that only a daemon has are no fault")
    func credentials() {
        let refused = OriginFailure.status(401, retryAfter: nil)
        var diagnosis = Diagnosis()
        diagnosis.add(Self.origin(.failure(refused)) { $0.login = .password })
        #expect(diagnosis.findings[0].remedy?.hasPrefix("The origin refused user and password: check both") == true)
        diagnosis = Diagnosis()
        diagnosis.add(
            Self.origin(.failure(refused)) {
                ($0.url, $0.first.place) = (SourceKinds.url(of: "sftp://host/films/")!, nil)
            })
        #expect(diagnosis.findings[0].remedy?.contains("--ssh-key") == true, "\(diagnosis.text)")
        diagnosis = Diagnosis()
        diagnosis.add(
            Self.origin(.failure(refused)) {
                ($0.login, $0.loginFailure) = (.tokenCommand, "print, the token command, ended with status 3")
            })
        #expect(diagnosis.findings[0].fact == "print, the token command, ended with status 3")
        diagnosis = Diagnosis()
        diagnosis.add(Self.origin(.failure(refused)) { $0.isOfMount = true })
        #expect(diagnosis.isWell)
        #expect(diagnosis.findings[0].fact.hasSuffix("only the daemon knows the mount's own credentials"))
        diagnosis = Diagnosis()
        // It counts where they are sent to, not where the file is.
        for (source, isTold) in [
            ("http://host/list.m3u", true), ("https://host/a", false), ("http://127.0.0.1/", false),
        ] {
            diagnosis.addSecrets(sentTo: ResourceURL(source)!)
            #expect(diagnosis.findings.map(\.fact) == (isTold ? ["credentials cross the network unencrypted"] : []))
            diagnosis = Diagnosis()
        }
    }

    // MARK: A mount

    private static func mount(_ change: (inout VolumeStatus) -> Void) -> MountFacts {
        var volume = VolumeStatus()
        (volume.cacheUsed, volume.cacheCap) = (1 << 30, 10 << 30)
        change(&volume)
        let status = MountStatus(source: "http://h/", mountpoint: "/m", pid: 7, passthrough: true, volume: volume)
        return MountFacts(mountpoint: "/m", health: .alive, status: status)
    }

    static let alive = "ok /m is mounted, its daemon (pid 7) answers"
    static let passes = "ok passthrough: the kernel reads complete files itself"

    static let mounts: [(MountFacts, [String])] = [
        (mount { _ in }, [alive, "ok cache: 1.0 GiB of 10.0 GiB", passes]),
        (mount { $0.cacheFailure = "full" }, [alive, "bad the cache cannot be written: full", passes]),
        (
            mount {
                $0.tier = .init(
                    name: "s3://b", readBytes: 0, writtenBytes: 0, waitingBytes: 0, leftOutBytes: 9, isAvoided: false,
                    damagedObjects: 0, trouble: "the bucket answers 404")
            },
            [
                alive, "ok cache: 1.0 GiB of 10.0 GiB", passes,
                "bad the tier s3://b: the bucket answers 404; mounts go on without it",
            ]
        ),
        (mount { $0.cacheCap = 0 }, [alive, "bad the cache has no room on its disk", passes]),
        (
            mount {
                ($0.bytesFromOrigin, $0.demanded, $0.speculative, $0.wasted) = (12 << 20, 4 << 20, 8 << 20, 2 << 20)
            },
            [
                alive, "ok cache: 1.0 GiB of 10.0 GiB",
                "ok origin: 12.0 MiB fetched: 4.0 MiB demanded, 8.0 MiB ahead, of which 2.0 MiB wasted (25 %)", passes,
            ]
        ),
        (
            mount { $0.damagedBlocks = 1 },
            [
                alive, "ok cache: 1.0 GiB of 10.0 GiB", "note 1 damaged block of the cache found and fetched again",
                passes,
            ]
        ),
        (
            mount {
                $0.outages = [.init(origin: "http://h", kind: "silent", since: 0)]
                $0.staleDirectories = [.init(path: "", trouble: "timed out", since: 0)]
            },
            [
                alive, "ok cache: 1.0 GiB of 10.0 GiB", passes,
                "bad http://h is offline (silent); cached data can be read",
                "note the last good listing is shown for 1 directory: / (timed out)",
            ]
        ),
        (
            MountFacts(mountpoint: "/m", health: .dead),
            ["bad the daemon of /m has ended and the mount is dead (ENOTCONN)"]
        ),
        (
            MountFacts(mountpoint: "/m", health: .silent),
            ["bad the daemon of /m does not answer: it is stopped, or its disk hangs"]
        ),
        (
            MountFacts(mountpoint: "/m", health: .alive),
            ["bad /m is mounted, but its daemon does not report its status"]
        ),
        (
            MountFacts(mountpoint: "/m", health: .alive, isOwn: false),
            ["note /m is mounted; its daemon answers only the user who mounted it"]
        ),
    ]

    @Test("Status says what was fetched, and wasted, in the same words")
    func wasted() throws {
        let status = try #require(Self.mounts[4].0.status)
        let line = "origin  12.0 MiB fetched: 4.0 MiB demanded, 8.0 MiB ahead, of which 2.0 MiB wasted (25 %)\n"
        #expect(statusText(status).contains(line))
    }

    @Test("says how a mount is", arguments: mounts.indices)
    func mount(index: Int) {
        let (facts, expected) = Self.mounts[index]
        #expect(Self.lines { $0.add(facts) } == expected)
    }

    // MARK: The screen

    @Test("The longest one fits a screen of 24 lines and 80 columns, and no name controls the terminal")
    func screen() {
        var diagnosis = Diagnosis()
        diagnosis.add(Self.system { ($0.isRoot, $0.lack) = (false, String(repeating: "what is missing ", count: 8)) })
        diagnosis.add(Self.cache { $0.path = String(repeating: "/long", count: 50) }, CacheLimits(MountOptions()))
        let name = "\u{1B}[2J" + String(repeating: "x", count: 300)
        diagnosis.add(SourceFacts.tree(kind: "directory listing (HTML)", entries: 100_000, chosen: name))
        diagnosis.add(
            Self.origin(.success(Self.information(tag: nil, length: 1 << 50))) {
                $0.first = Self.place("http://\(String(repeating: "h", count: 200))/", 9)
                ($0.keepsConnections, $0.login) = (false, .password)
                $0.speeds = [Self.speed(1, 1e9), Self.speed(2, 1e9), Self.speed(4, 0, .timedOut)]
                $0.duration = 1
            })
        let lines = diagnosis.text.split(separator: "\n")
        #expect(lines.count <= 24, "\(diagnosis.text)")
        #expect(lines.allSatisfy { $0.count <= 80 }, "\(diagnosis.text)")
        #expect(lines.contains { $0.hasPrefix("bad   it will stall") } && !diagnosis.text.contains("\u{1B}"))
    }

    @Test("A mark stands before each fact, and the remedy below it")
    func form() {
        var diagnosis = Diagnosis()
        diagnosis.ok("one")
        diagnosis.bad("two " + String(repeating: "and more ", count: 9), "Do this.")
        let expected = """
            ok    one
            bad   two and more and more and more and more and more and more and more and
                  more and more
                  Do this.
            """
        #expect(diagnosis.text == expected)
    }

    @Test(
        "Rates are shown in three digits at most",
        arguments: [
            (0, "0.0 kbit/s"), (1000, "8.0 kbit/s"), (125_000, "1.0 Mbit/s"), (1_237_500, "9.9 Mbit/s"),
            (1_245_000, "10 Mbit/s"), (124_900_000, "999 Mbit/s"), (124_950_000, "1.0 Gbit/s"), (1e12, "8000 Gbit/s"),
        ])
    func rate(bytes: Double, expected: String) { #expect(bitRate(bytes) == expected) }

    @Test(
        "A film's length is read as people write it",
        arguments: [("2h10m", 7800), ("45m", 2700), ("90", 90), ("1h0m5s", 3605), ("1d", 86_400)])
    func length(text: String, expected: Int64) throws { #expect(try playingTime("--duration", text) == expected) }

    @Test("What is no length is refused", arguments: ["", "h", "2x", "-1", "0", "2h10q", "9999999h", "²h"])
    func noLength(text: String) { #expect(throws: Failure.self) { try playingTime("--duration", text) } }

    @Test(
        "Connections read next to each other, and where nothing was read before",
        arguments: [
            (0, 1, 100, [ByteRange(0, 8)]), (1, 2, 100, [ByteRange(8, 12), ByteRange(12, 16)]),
            (2, 4, 24, [ByteRange(16, 18), ByteRange(18, 20), ByteRange(20, 22), ByteRange(22, 24)]),
            (2, 1, 23, [ByteRange(0, 8)]), (0, 2, 6, [ByteRange(0, 3), ByteRange(3, 6)]),
        ])
    func ranges(stage: Int, connections: Int, length: Int64, expected: [ByteRange]) {
        #expect(speedRanges(stage: stage, connections: connections, length: length, bytes: 8) == expected)
    }
}
