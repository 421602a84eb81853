import Glibc
import ReelCache
import ReelCore
import ReelThreads
import Synchronization
import TestKit
import Testing

@testable import ReelVolume

/// What a person does with a cache beside its readers.
@Suite(.plainAndEncrypted) struct MaintenanceTests {
    private static let length: Int64 = 5 << 20 + 77

    // MARK: Verify and repair

    @Test(
        "Verify finds exactly the block that was flipped, and a repair fetches exactly that block",
        arguments: [0, 7, 40])
    func repair(_ block: Int) throws {
        try withFilms { fixture, films, server in
            let film = try #require(films["/a.mkv"])
            try readWhole(fixture, "a.mkv", film)
            try fixture.restart()
            try flip(fixture, at: Int64(block) * BlockSize.block + 5)

            // This opens the data file, and looks whether it is open elsewhere.
            let found = try withoutStartingChildren { try fixture.volume.maintenance.verify(nil, repairs: false) }
            #expect(found.files == 1 && found.bytes == Self.length && found.damagedFiles == ["a.mkv"])
            #expect(found.damagedBlocks == 1 && found.refetchedBlocks == 0)

            let before = (server.requests.count, server.bodyBytesSent)
            let repaired = try fixture.volume.maintenance.verify("a.mkv", repairs: true)
            #expect(repaired.damagedBlocks == 1 && repaired.refetchedBlocks == 1 && repaired.failure == nil)
            let expected = BlockSize.bytes(of: block, length: Self.length)
            #expect(server.requests.count - before.0 == 1)
            // The server counts what it has sent, which its client may have read before.
            #expect(eventually { server.bodyBytesSent - before.1 == expected.count })
            #expect(server.requests.last?["range"] == "bytes=\(expected.lower)-\(expected.upper - 1)")

            let again = try fixture.volume.maintenance.verify(nil, repairs: true)
            #expect(again.damagedBlocks == 0 && again.bytes == Self.length)
            server.stop()
            let file = try fixture.open("a.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, Self.length))
            fixture.volume.close(file)
        }
    }

    @Test("A file that another program has open is not repaired, and the report says so")
    func repairOfAFileInUse() throws {
        try withFilms { fixture, films, _ in
            try readWhole(fixture, "a.mkv", try #require(films["/a.mkv"]))
            try fixture.restart()
            try flip(fixture, at: 5)
            let other = open(try dataFiles(fixture)[0], O_RDONLY | O_CLOEXEC)
            let refused = try fixture.volume.maintenance.verify("a.mkv", repairs: true)
            #expect(refused.damagedBlocks == 1 && refused.refetchedBlocks == 0)
            #expect(refused.failure?.contains("another program has a damaged file open") == true)
            close(other)
            let repaired = try withoutStartingChildren {
                try fixture.volume.maintenance.verify("a.mkv", repairs: true)
            }
            #expect(repaired.damagedBlocks == 1 && repaired.refetchedBlocks == 1 && repaired.failure == nil)
        }
    }

    @Test("A repair of a file that is half cached fetches nothing behind the bad block")
    func repairOfAPart() throws {
        try withFilms { fixture, films, server in
            let film = try #require(films["/a.mkv"])
            func look() throws {
                let file = try fixture.open("a.mkv").get()
                #expect(fixture.read(file, 0, 1000).isRight(film, 0, 1000))
                fixture.volume.close(file)
            }
            // A data file that somebody has open is not cut, and a handle has it as long as it lives.
            try look()
            #expect(eventually { fixture.volume.files.all.allSatisfy { $0.isDone } })
            try fixture.restart()
            // The first block and the end of the file, and nothing between them.
            #expect(fixture.store.objects()[0].cachedBytes < Self.length / 2)
            try flip(fixture, at: BlockSize.block / 2)
            let before = (server.requests.count, server.bodyBytesSent)
            #expect(try fixture.volume.maintenance.verify(nil, repairs: true).refetchedBlocks == 1)
            #expect(eventually { fixture.volume.files.all.allSatisfy { $0.isDone } })
            #expect(eventually { server.bodyBytesSent - before.1 == BlockSize.block })
            #expect(server.requests.count - before.0 == 1)
        }
    }

    @Test("A block that goes bad after it was read is not served once verify has seen it, repaired or not")
    func notServed() throws {
        try withFilms { fixture, films, server in
            let film = try #require(films["/a.mkv"])
            let file = try fixture.open("a.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, Self.length))
            let before = server.bodyBytesSent(atLeast: fixture.receivedBytes)
            try flip(fixture, at: 3 * BlockSize.block)
            #expect(try fixture.volume.maintenance.verify("a.mkv", repairs: false).damagedBlocks == 1)
            #expect(fixture.readAll(file).isRight(film, 0, Self.length))
            #expect(eventually { server.bodyBytesSent - before == BlockSize.block })
            fixture.volume.close(file)
        }
    }

    @Test("While an open file is repaired its readers get right bytes")
    func readersDuringRepair() throws {
        try withFilms { fixture, films, _ in
            let film = try #require(films["/a.mkv"])
            try readWhole(fixture, "a.mkv", film)
            try fixture.restart()
            let file = try fixture.open("a.mkv").get()
            for block in stride(from: Int64(0), to: 40, by: 3) { try flip(fixture, at: block * BlockSize.block + 9) }
            let readers = (0..<2).map { _ in
                startJoinable { (0..<4).allSatisfy { _ in fixture.readAll(file).isRight(film, 0, Self.length) } }
            }
            let report = try fixture.volume.maintenance.verify(nil, repairs: true)
            #expect(readers.allSatisfy { $0.join() })
            // What a reader met first it had fetched itself.
            #expect(report.refetchedBlocks == report.damagedBlocks && report.failure == nil)
            #expect(try fixture.volume.maintenance.verify(nil, repairs: false).damagedBlocks == 0)
            fixture.volume.close(file)
        }
    }

    @Test("With the origin away a repair takes bad blocks out, says so, and spares the others")
    func repairOffline() throws {
        try withFilms { fixture, films, server in
            let film = try #require(films["/a.mkv"])
            try readWhole(fixture, "a.mkv", film)
            try fixture.restart()
            try flip(fixture, at: 2 * BlockSize.block)
            try flip(fixture, at: 9 * BlockSize.block)
            server.stop()
            let report = try fixture.volume.maintenance.verify(nil, repairs: true)
            #expect(report.damagedBlocks == 2 && report.refetchedBlocks == 0 && report.failure != nil)
            #expect(fixture.store.objects()[0].cachedBytes == Self.length - 2 * BlockSize.block)
            let file = try fixture.open("a.mkv").get()
            #expect(fixture.read(file, 4 * BlockSize.block, 1000).isRight(film, 4 * BlockSize.block, 1000))
            guard case .failure = fixture.read(file, 2 * BlockSize.block, 1000) else {
                Issue.record("bytes that nobody has")
                return
            }
            fixture.volume.close(file)
        }
    }

    @Test("A data file that is gone is reported as damage, and repaired as a whole")
    func fileGone() throws {
        try withFilms { fixture, films, _ in
            let film = try #require(films["/a.mkv"])
            try readWhole(fixture, "a.mkv", film)
            try fixture.restart()
            unlink(try dataFiles(fixture)[0])
            let report = try fixture.volume.maintenance.verify(nil, repairs: true)
            #expect(report.damagedBlocks == 41 && report.refetchedBlocks == 41 && report.failure == nil)
            #expect(fixture.store.objects()[0].cachedBytes == Self.length)
        }
    }

    @Test("Verify is no use of a file, and ends when nobody wants it any more")
    func verifyEnds() throws {
        try withFilms { fixture, films, _ in
            try readWhole(fixture, "a.mkv", try #require(films["/a.mkv"]))
            try fixture.restart()
            let use = fixture.store.objects()[0].lastUse
            let told = Mutex<[MaintenanceProgress]>([])
            _ = try fixture.volume.maintenance.verify(
                nil, repairs: true, MaintenanceWatch { news in told.withLock { $0.append(news) } })
            #expect(fixture.store.objects()[0].lastUse == use)
            #expect(told.withLock { $0.last } == MaintenanceProgress(done: Self.length, total: Self.length))
            let calls = Mutex(0)
            let watch = MaintenanceWatch(
                progress: { _ in calls.withLock { $0 += 1 } }, isOver: { calls.withLock { $0 >= 3 } })
            #expect(try fixture.volume.maintenance.verify(nil, repairs: true, watch).bytes == 3 * BlockSize.block)
        }
    }

    // MARK: Pins

    @Test("What is pinned survives prune and the pressure of the cap; what is unpinned does not")
    func pins() throws {
        try withFilms(cap: 12 << 20) { fixture, films, server in
            for name in ["a.mkv", "b.mkv"] { try readWhole(fixture, name, try #require(films["/" + name])) }
            #expect(try fixture.volume.maintenance.pin("a.mkv", true).files == 1)
            #expect(fixture.volume.maintenance.cachedFiles().filter(\.isPinned).map(\.path) == ["a.mkv"])
            for name in ["sub/c.mkv", "sub/d.mkv"] { try readWhole(fixture, name, try #require(films["/" + name])) }
            #expect(cached(fixture, "a.mkv") == Self.length)
            #expect(cached(fixture, "b.mkv") < Self.length)
            try fixture.restart()
            // The volume before may still let go of its files, and what somebody has open elsewhere is left alone.
            let isPruned = eventually {
                _ = try? fixture.volume.maintenance.prune(freeing: .max)
                return fixture.volume.maintenance.cachedFiles().map(\.path) == ["a.mkv"]
            }
            #expect(isPruned, "\(fixture.volume.maintenance.cachedFiles())")
            server.stop()
            #expect(cached(fixture, "a.mkv") == Self.length)
            #expect(try fixture.volume.maintenance.pin("a.mkv", false).files == 1)
            _ = try fixture.volume.maintenance.prune(freeing: .max)
            #expect(fixture.volume.maintenance.cachedFiles().isEmpty)
        }
    }

    @Test("A directory's pin is one of what is listed below it, cached or not; unlisted ones are reported")
    func directoryPin() throws {
        try withFilms { fixture, films, _ in
            #expect(try fixture.names().get().contains("sub"))
            let early = try fixture.volume.maintenance.pin("sub", true)
            #expect(early.files == 0 && early.unlistedDirectories == 1)
            #expect(try fixture.names("sub").get() == ["c.mkv", "d.mkv"])
            try readWhole(fixture, "sub/c.mkv", try #require(films["/sub/c.mkv"]))
            #expect(try fixture.volume.maintenance.pin("sub", true).files == 2)
            #expect(
                Set(fixture.volume.maintenance.cachedFiles().filter(\.isPinned).map(\.path)) == [
                    "sub/c.mkv", "sub/d.mkv",
                ])
            try readWhole(fixture, "sub/d.mkv", try #require(films["/sub/d.mkv"]))
            _ = try fixture.volume.maintenance.prune(freeing: .max)
            #expect(cached(fixture, "sub/c.mkv") == Self.length && cached(fixture, "sub/d.mkv") == Self.length)
            #expect(try fixture.volume.maintenance.pin("", false).files == 4)
            _ = try fixture.volume.maintenance.prune(freeing: .max)
            #expect(eventually { fixture.store.objects().allSatisfy { $0.cachedBytes == 0 } })
        }
    }

    @Test("A name that is not listed is a sentence", arguments: ["c.mkv", "sub/x", "a.mkv/b", "sub/../a.mkv"])
    func unknown(_ path: String) throws {
        try withFilms { fixture, _, _ in
            _ = fixture.names("sub")
            #expect(throws: MaintenanceFailure.self) { try fixture.volume.maintenance.pin(path, true) }
            #expect(throws: MaintenanceFailure.self) { try fixture.volume.maintenance.evict(path) }
            #expect(throws: MaintenanceFailure.self) { try fixture.volume.maintenance.verify(path, repairs: false) }
        }
    }

    // MARK: Evict and prune

    @Test("Evicting an open file keeps what its readers wait for, and every read stays right")
    func evictOpen() throws {
        try withFilms { fixture, films, _ in
            let film = try #require(films["/a.mkv"])
            let file = try fixture.open("a.mkv").get()
            let reader = startJoinable {
                (0..<12).allSatisfy { _ in fixture.readAll(file).isRight(film, 0, Self.length) }
            }
            var freed: Int64 = 0
            for _ in 0..<20 { freed += try fixture.volume.maintenance.evict("a.mkv").bytes }
            #expect(reader.join())
            #expect(fixture.readAll(file).isRight(film, 0, Self.length))
            freed += try fixture.volume.maintenance.evict("a.mkv").bytes
            #expect(freed > 0)
            fixture.volume.close(file)
            _ = try fixture.volume.maintenance.evict("")
            #expect(fixture.store.objects().allSatisfy { $0.cachedBytes == 0 })
        }
    }

    @Test("Prune leaves alone what is open, and stops at the size that was asked for")
    func prune() throws {
        try withFilms { fixture, films, _ in
            let film = try #require(films["/a.mkv"])
            let file = try fixture.open("a.mkv").get()
            #expect(fixture.readAll(file).isRight(film, 0, Self.length))
            for name in ["b.mkv", "sub/c.mkv", "sub/d.mkv"] {
                try readWhole(fixture, name, try #require(films["/" + name]))
            }
            let report = try fixture.volume.maintenance.prune(freeing: 6 << 20)
            #expect(report.bytes >= 6 << 20 && report.bytes <= 6 << 20 + BlockSize.extent)
            #expect(cached(fixture, "b.mkv") == 0 && cached(fixture, "sub/d.mkv") > 0)
            // A client may ask for anything.
            _ = try fixture.volume.maintenance.prune(freeing: .min)
            #expect(fixture.volume.maintenance.cachedFiles().count > 1)
            _ = try fixture.volume.maintenance.prune(freeing: .max)
            #expect(fixture.volume.maintenance.cachedFiles().map(\.path) == ["a.mkv"])
            #expect(fixture.volume.maintenance.cachedFiles()[0].openHandles == 1)
            #expect(cached(fixture, "a.mkv") == Self.length)
            fixture.volume.close(file)
        }
    }

    @Test("The list has no user, password or query")
    func noSecrets() throws {
        let film = FileOrigin(length: 1000)
        let server = try ScriptedServer { request in
            request.path == "/film.mkv" ? film.answer(request) : ServerStep.answer(404)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture("http://user:word@127.0.0.1:\(server.port)/film.mkv?sig=hidden")
        defer { fixture.remove() }
        let file = try fixture.open("film.mkv").get()
        #expect(fixture.readAll(file).isRight(film, 0, 1000))
        fixture.volume.close(file)
        let shown = fixture.volume.maintenance.cachedFiles()
        #expect(shown.map(\.path) == ["film.mkv"])
        #expect(!shown.contains { $0.url.contains("word") || $0.url.contains("hidden") || $0.url.contains("user") })
    }
}
