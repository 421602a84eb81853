import Glibc
import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// The ranges that the first bytes of a media file name are fetched at once, and nothing else is.
@Suite struct ProbeTests {
    /// A file of zeros with a few other bytes in it.
    private struct Film {
        var length: Int64
        var parts: [Int64: [UInt8]]

        func bytes(_ range: ByteRange) -> [UInt8] {
            var bytes = [UInt8](repeating: 0, count: Int(range.count))
            for (offset, part) in parts {
                for (index, byte) in part.enumerated() where range.contains(offset + Int64(index)) {
                    bytes[Int(offset + Int64(index) - range.lower)] = byte
                }
            }
            return bytes
        }

        func answer(_ request: ServerRequest) -> [ServerStep] {
            guard let range = request.range(of: length)?.clamped(to: ByteRange(0, length)) else {
                return ServerStep.answer(416)
            }
            let head = [
                ("Content-Range", "bytes \(range.lower)-\(range.upper - 1)/\(length)"),
                ("Content-Length", "\(range.count)"), ("ETag", "\"film\""),
                ("Content-Type", "application/octet-stream"),
            ]
            return [.head(206, head.map { (name: $0.0, value: $0.1) }), .body(bytes(range))]
        }
    }

    private static let mebibyte: Int64 = 1 << 20

    private static func number(_ value: Int64) -> [UInt8] {
        (0..<4).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }

    private static func box(_ name: String, _ count: Int64, _ body: [UInt8] = []) -> [UInt8] {
        number(count) + Array(name.utf8) + body
    }

    /// 32 bytes of media data for each byte of index; a minute and a half.
    private static func mp4(isBehind: Bool) -> Film {
        let (length, index) = (50 * mebibyte, 1_500_000 as Int64)
        let movie = box(
            "moov", index, box("mvhd", 108, number(0) + number(0) + number(0) + number(600) + number(54_000)))
        let data = length - 24 - index
        if isBehind {
            return Film(length: length, parts: [0: box("ftyp", 24), 24: box("mdat", data), 24 + data: movie])
        }
        return Film(length: length, parts: [0: box("ftyp", 24), 24: movie, 24 + index: box("mdat", data)])
    }

    /// Its cues lie in front of its last mebibyte; nothing else is named.
    private static let matroska: Film = {
        func element(_ id: [UInt8], _ body: [UInt8]) -> [UInt8] { id + [0x40, UInt8(body.count)] + body }
        let entry = element([0x53, 0xAB], [0x1C, 0x53, 0xBB, 0x6B]) + element([0x53, 0xAC], number(49 * mebibyte))
        let start =
            element([0x1A, 0x45, 0xDF, 0xA3], [0]) + [0x18, 0x53, 0x80, 0x67, 0x01] + [UInt8](repeating: 0xFF, count: 7)
        let table = element([0x11, 0x4D, 0x9B, 0x74], element([0x4D, 0xBB], entry))
        let head = start + table + [0x1F, 0x43, 0xB6, 0x75, 0x10, 0, 0, 0] + [UInt8](repeating: 1, count: 40)
        return Film(length: 50 * mebibyte, parts: [0: head])
    }()

    /// - Parameter gate: that the answer to a range waits for, nil if it waits for none.
    private func withFilms(
        _ films: [String: Film], gate: @escaping @Sendable (ByteRange) -> Gate? = { _ in nil },
        _ body: (VolumeFixture, ScriptedServer) throws -> Void
    ) throws {
        let lines = films.sorted { $0.key < $1.key }.map {
            "<a href=\"\($0.key)\">\($0.key)</a>      21-Nov-2026 10:00      \($0.value.length)\n"
        }
        let page =
            "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><hr><pre><a href=\"../\">../</a>\n"
            + lines.joined() + "</pre><hr></body></html>"
        let server = try ScriptedServer { request in
            guard let film = films[String(request.path.dropFirst())] else {
                return ServerStep.answer(200, [("Content-Type", "text/html")], body: page)
            }
            let gate = request.range(of: film.length).flatMap { gate($0) }
            return (gate.map { [.wait($0)] } ?? []) + film.answer(request)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/").text)
        defer { fixture.remove() }
        try body(fixture, server)
    }

    private func ranges(_ server: ScriptedServer, _ name: String) -> [ByteRange] {
        server.requests.filter { $0.path == "/" + name }.compactMap { $0.range(of: 50 * Self.mebibyte) }
    }

    private func expect(
        _ fixture: VolumeFixture, _ file: any FileHandle, _ film: Film, _ offset: Int64, _ count: Int
    ) {
        let wanted = film.bytes(ByteRange(offset, offset + Int64(count)))
        #expect((try? fixture.read(file, offset, count).get()) == wanted, "at \(offset)")
    }

    /// Reads as ffprobe does, with what the kernel asks for by itself: its beginning, its index, its beginning.
    @Test(arguments: [true, false]) func anIndexIsFetchedInOneRequestOnceItsPlaceIsKnown(isBehind: Bool) throws {
        let film = Self.mp4(isBehind: isBehind)
        try withFilms(["film.mp4": film]) { fixture, server in
            let file = try fixture.open("film.mp4").get()
            expect(fixture, file, film, 0, 64 << 10)
            // Who reads on before the head has been looked at asks by himself.
            #expect(eventually { fixture.volume.status().files.first?.seconds == 90 })
            let index = isBehind ? film.length - 1_500_000 : 24
            for offset in stride(from: index, to: index + 1_500_000, by: 100_000) {
                expect(fixture, file, film, offset, Int(min(100_000, film.length - offset)))
            }
            if isBehind { expect(fixture, file, film, 64 << 10, 192 << 10) }
            #expect(ranges(server, "film.mp4").count <= 3, "\(ranges(server, "film.mp4"))")
            let fetched = fixture.volume.files.all[0].statistics.sums.all
            #expect(fetched <= 1_500_000 * 3 / 2, "\(ranges(server, "film.mp4"))")
            fixture.volume.close(file)
        }
    }

    /// Also where its name is no media name.
    @Test(arguments: ["film.mkv", "film"]) func cuesAreFetchedForAReaderWhoReadsOn(name: String) throws {
        let film = Self.matroska
        try withFilms([name: film]) { fixture, server in
            let file = try fixture.open(name).get()
            for offset in stride(from: Int64(0), to: 448 << 10, by: 64 << 10) {
                expect(fixture, file, film, offset, 64 << 10)
            }
            let cues = ByteRange(49 * Self.mebibyte, 50 * Self.mebibyte)
            func hasCues() -> Bool {
                ranges(server, name).contains { $0.lower <= cues.lower + 100 && $0.upper > cues.lower + 600_000 }
            }
            #expect(!hasCues())
            for offset in stride(from: Int64(448 << 10), to: 12 << 20, by: 64 << 10) {
                expect(fixture, file, film, offset, 64 << 10)
            }
            #expect(eventually { hasCues() })
            #expect(eventually { fixture.volume.files.all[0].object.present.covers(cues) })
            // What runs ahead of the reader elsewhere is asked for at any time.
            func asked() -> [ByteRange] { ranges(server, name).filter { $0.overlaps(cues) } }
            let before = asked()
            expect(fixture, file, film, cues.lower + 500_000, 64 << 10)
            #expect(asked() == before)
            fixture.volume.close(file)
        }
    }

    /// All that its read waits for is asked for before any of it comes, while nothing of the first seek has come; also
    /// where its name is no media name.
    @Test(arguments: ["film.mkv", "film"]) func aSecondSeekRightAfterAFirstCostsOneRoundTrip(name: String) throws {
        let film = Self.matroska
        let (first, second) = (Gate(), Gate())
        let places = [first, second].enumerated().map { index, gate in
            (ByteRange((20 + 20 * Int64(index)) * Self.mebibyte, (30 + 19 * Int64(index)) * Self.mebibyte), gate)
        }
        try withFilms([name: film], gate: { range in places.first { $0.0.overlaps(range) }?.1 }) { fixture, server in
            let file = try fixture.open(name).get()
            for offset in stride(from: Int64(0), to: 6 << 20, by: 64 << 10) {
                expect(fixture, file, film, offset, 64 << 10)
            }
            let cues = ByteRange(49 * Self.mebibyte, 50 * Self.mebibyte)
            #expect(eventually { fixture.volume.files.all[0].object.present.covers(cues) })
            let targets = [20, 40].map { $0 * Self.mebibyte + 300_000 }
            let readers = targets.enumerated().map { index, target in
                let range = ByteRange(target, target + 200_000)
                let reader = startThread { expect(fixture, file, film, target, 200_000) }
                #expect(
                    eventually {
                        var asked = ByteRangeSet()
                        for range in ranges(server, name) { asked.insert(range) }
                        return asked.ranges.contains { $0.contains(range) }
                    }, "\(ranges(server, name))")
                let asked = ranges(server, name).filter { $0.overlaps(range) }
                #expect(asked.count <= 2, "\(asked)")
                return reader
            }
            second.open()
            readers[1].join()
            first.open()
            readers[0].join()
            fixture.volume.close(file)
        }
    }

    @Test func endsThatFilmsOfAKindDoNotNeedAreAskedForNoMore() throws {
        let films = Dictionary(uniqueKeysWithValues: (0..<6).map { ("\($0).mkv", Self.matroska) })
        try withFilms(films) { fixture, server in
            for name in films.keys.sorted() {
                let file = try fixture.open(name).get()
                expect(fixture, file, Self.matroska, 0, 192 << 10)
                expect(fixture, file, Self.matroska, 192 << 10, 256 << 10)
                #expect(eventually { fixture.volume.files.all.allSatisfy { $0.layout.isOver } })
                fixture.volume.close(file)
            }
            let asked = films.keys.sorted().map { ranges(server, $0) }
            #expect(asked[0].contains { $0.upper == 50 * Self.mebibyte })
            for ranges in asked[3...] {
                #expect(
                    ranges.sorted { $0.lower < $1.lower } == [ByteRange(0, 256 << 10), ByteRange(256 << 10, 512 << 10)])
            }
        }
    }

    @Test func anIndexThatIsTooLargeOrBehindTheEndIsNotBelieved() throws {
        let (huge, far) = (Self.box("moov", 1 << 31), Self.box("mdat", 49 * Self.mebibyte))
        let films = [
            "huge.mp4": Film(length: 50 * Self.mebibyte, parts: [0: huge]),
            "far.mp4": Film(length: 50 * Self.mebibyte, parts: [0: far, 49 * Self.mebibyte: huge]),
        ]
        try withFilms(films) { fixture, server in
            for (name, film) in films {
                let file = try fixture.open(name).get()
                expect(fixture, file, film, 0, 4096)
                let isIdle = { fixture.volume.files.all.allSatisfy { $0.ask { $0.ledger.isIdle } } }
                #expect(eventually { fixture.volume.files.all.allSatisfy { $0.layout.isOver } && isIdle() })
                #expect(fixture.volume.files.all[0].statistics.sums.all <= Container.mostBytes + 4 * BlockSize.block)
                fixture.volume.close(file)
            }
        }
    }

    @Test func aProgramThatBeginsManyFilesIsAScannerForAMinute() {
        let programs = ProgramTallies()
        let scanner = programs["scan"]
        for second in 0..<8 {
            #expect(!scanner.isScanning(now: .seconds(second)))
            scanner.reads()
            scanner.begins(now: .seconds(second))
        }
        #expect(scanner.isScanning(now: .seconds(59)) && !scanner.isScanning(now: .seconds(60)))
        #expect(programs["scan"] === scanner && scanner.status.files == 8)
        scanner.add(read: 5, fetched: 7)
        #expect(programs.status == [VolumeStatus.Program(name: "scan", files: 8, readBytes: 5, fetchedBytes: 7)])
    }

    /// A slow program at a quick origin.
    @Test func aProgramWhoseReadsNeverWaitIsAScannerToo() throws {
        let films = Dictionary(uniqueKeysWithValues: (0..<8).map { ("\($0).mkv", Self.matroska) })
        try withFilms(films) { fixture, _ in
            let beginning = ByteRange(0, Self.mebibyte)
            for name in films.keys {
                let file = try #require(try fixture.open(name).get() as? OpenFile)
                file.remote.prefetch([beginning], as: .nextItem)
                #expect(eventually { file.remote.object.present.covers(beginning) })
                fixture.volume.close(file)
            }
            let programs = fixture.volume.services.programs
            for name in films.keys {
                #expect(!programs.areScanning(now: now()))
                let file = try fixture.open(name, by: getpid()).get()
                for lower in stride(from: 0, to: beginning.upper, by: 64 << 10) {
                    expect(fixture, file, Self.matroska, lower, 64 << 10)
                }
                fixture.volume.close(file)
            }
            #expect(programs.areScanning(now: now()))
        }
    }

    @Test func threeFilesOfAKindTellWhatAProgramReadsOfEach() throws {
        let program = ProgramTallies()["scan"]
        for bytes in [4_000_000, 5_000_000] as [Int64] { program.ends("mp4", bytes: bytes) }
        #expect(program.reach("mp4") == 0)
        program.ends("mp4", bytes: 3_000_000)
        #expect(program.reach("mp4") == 3_000_000 && program.reach("mkv") == 0)
        // The least of the last eight counts; if all of them were read on through, they show nothing.
        for _ in 0..<8 { program.ends("mp4", bytes: 3_500_000) }
        #expect(program.reach("mp4") == 3_500_000)
        for _ in 0..<7 { program.ends("mp4", bytes: 100 << 20) }
        #expect(program.reach("mp4") == 3_500_000)
        program.ends("mp4", bytes: 100 << 20)
        #expect(program.reach("mp4") == 0)
        // Names that anybody makes up.
        for number in 0..<100 { for _ in 0..<3 { program.ends("\(number)", bytes: 1) } }
        #expect((0..<100).count { program.reach("\($0)") == 1 } < 20)
    }

    @Test func theKernelIsToldOfAScanWhenItBeginsAndAMinuteAfterItsLastFile() {
        let (programs, kernel, ticker) = (ProgramTallies(), Kernel(), Ticker())
        defer { ticker.stop() }
        let watch = ScanWatch(programs)
        // The clock of the ticker's own calls.
        let start = now()
        for file in 0..<12 {
            programs[file % 2 == 0 ? "scan" : "play \(file)"].begins(now: start)
            watch.look(kernel, ticker, now: start)
        }
        #expect(kernel.scans.withLock { $0 }.isEmpty, "six files are no scan")
        for _ in 0..<4 {
            programs["scan"].begins(now: start)
            watch.look(nil, ticker, now: start)
            watch.look(kernel, ticker, now: start)
        }
        #expect(kernel.scans.withLock { $0 } == [true])
        #expect(watch.tick(start + .seconds(59)) && !watch.tick(start + .seconds(60)))
        #expect(kernel.scans.withLock { $0 } == [true, false])
    }

    @Test func oneProgramHasHalfOfWhatIsFetchedAheadInAMinute() {
        let programs = ProgramTallies()
        let (scanner, player) = (programs["scan"], programs["play"])
        scanner.add(early: SpeculationBudget.perMinute / 2)
        #expect(!scanner.allowsEarly(now: .zero) && player.allowsEarly(now: .zero))
        #expect(scanner.allowsEarly(now: .seconds(60)))
    }

    @Test func ofTooManyProgramsTheOneUnusedForLongestIsForgotten() {
        let programs = ProgramTallies()
        let (first, player) = (programs["first"], programs["player"])
        for number in 0..<200 {
            _ = programs["program \(number)"]
            #expect(programs["player"] === player)
        }
        #expect(programs.status.count == 64)
        #expect(programs["first"] !== first)
        for _ in 0..<8 { programs["scanner"].begins(now: .zero) }
        #expect(programs.areScanning(now: .zero), "the 203rd program is known as a scanner as well")
    }
}
