import ReelCache
import ReelCore
import ReelFilesystem
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// What a mirror gives with nothing cached to compare it with: a version of its own, until the source has the same.
@Suite struct MirrorVersionTests {
    private typealias Pair = MirrorPair

    /// The same length and date as the film's, and other bytes.
    private static let damaged = FileOrigin.Version(seed: 2, length: Pair.length)

    /// The source answers again, and its mirror does not.
    private func swap(_ pair: Pair) { (pair.film.fault, pair.copy.fault) = (nil, Pair.unwell) }

    @Test func aTierGetsNoByteOfAMirrorThatNothingHasProven() throws {
        let bucket = try ScriptedBucket()
        defer { bucket.stop() }
        // Without tags, the mirror's version would have the name of the source's.
        let version = FileOrigin.Version(length: Pair.length, entityTag: nil)
        let damaged = FileOrigin.Version(seed: 2, length: Pair.length, entityTag: nil)
        let pair = try Pair(damaged, of: version, tier: bucket.place())
        defer { pair.end() }
        pair.film.fault = Pair.unwell
        try pair.fixture.play(pair.copy)
        let tier = try #require(pair.fixture.volume.status().tier)
        #expect(tier.writtenBytes + tier.waitingBytes + tier.leftOutBytes == 0 && bucket.writes == 0)
        swap(pair)
        let other = try VolumeFixture(pair.fixture.source, prebuffer: 0, tier: bucket.place())
        defer { other.remove() }
        try other.play(pair.film)
        let slices = Int(Pair.length / TierSlice.size)
        #expect(eventually { bucket.objects.count == slices && other.volume.status().tier!.waitingBytes == 0 })
        // The mount itself shares what it gets of the source.
        bucket.change { $0 = [:] }
        try pair.fixture.play(pair.film)
        #expect(eventually { bucket.objects.count == slices })
        let third = try VolumeFixture(pair.fixture.source, prebuffer: 0, tier: bucket.place())
        defer { third.remove() }
        try third.play(pair.film)
    }

    @Test func theKernelGetsAnotherNodeForTheBytesOfTheSource() throws {
        let pair = try Pair(Self.damaged)
        defer { pair.end() }
        let kernel = Kernel()
        pair.fixture.volume.connect(kernel)
        pair.film.fault = Pair.unwell
        try pair.fixture.play(pair.copy)
        let before = try pair.fixture.lookup("film.mkv").get()
        let forgotten = kernel.forgotten.withLock { $0.count }
        swap(pair)
        try pair.fixture.play(pair.film)
        let after = try pair.fixture.lookup("film.mkv").get()
        // No page of the old node is shown for the new one.
        #expect(after.node != before.node)
        #expect(kernel.forgotten.withLock { $0.dropFirst(forgotten) } == ["film.mkv"])
        // Programs see the same file.
        #expect(after.attributes == before.attributes)
    }

    @Test func aFileThatTheKernelReadsItselfStaysAsItIsAndTheNextOpenGetsTheSourcesBytes() throws {
        let pair = try Pair(Self.damaged)
        defer { pair.end() }
        pair.film.fault = Pair.unwell
        try pair.fixture.play(pair.copy)
        pair.fixture.store.commit()
        let taken = try pair.fixture.open("film.mkv").get()
        #expect(taken.passthroughFile() != nil)
        taken.passthroughBegan()
        let lent = pair.fixture.volume.lend(taken, ByteRange(0, 100_000))
        swap(pair)
        let file = try pair.fixture.open("film.mkv").get()
        #expect(pair.fixture.readAll(file).isRight(pair.film, 0, Pair.length))
        #expect(pair.fixture.readAll(taken).isRight(pair.copy, 0, Pair.length))
        #expect(file.entityTag != taken.entityTag)
        withExtendedLifetime(lent) {}
        pair.fixture.volume.close(taken)
        pair.fixture.volume.close(file)
        try pair.fixture.play(pair.film)
    }

    @Test func whatIsNotProvenPlaysOfflineAfterARemountAndIsComparedThen() throws {
        let pair = try Pair(Self.damaged)
        defer { pair.end() }
        pair.film.fault = Pair.unwell
        try pair.fixture.play(pair.copy)
        pair.copy.fault = Pair.unwell
        for _ in 0..<2 {
            try pair.fixture.restart()
            let view = ViewCaller(filesystem: CachedView(pair.fixture.volume))
            #expect(try view.names().get() == ["film.mkv"])
            let file = try view.open("film.mkv").get()
            #expect(view.readAll(file).isRight(pair.copy, 0, Pair.length))
            pair.fixture.volume.close(file)
            // The usual view, too.
            try pair.fixture.play(pair.copy)
        }
        pair.film.fault = nil
        try pair.fixture.restart()
        try pair.fixture.play(pair.film)
        // Also where the mirror is there as it was.
        pair.copy.fault = nil
        try pair.fixture.restart()
        try pair.fixture.play(pair.film)
    }

    @Test func whatTurnsOutToBeTheSourcesIsNotFetchedAgain() throws {
        let pair = try Pair()
        defer { pair.end() }
        pair.film.fault = Pair.unwell
        try pair.fixture.play(pair.copy)
        let key = try #require(pair.fixture.store.objects().first?.key)
        #expect(pair.fixture.store.information(for: key)?.information.validator.mirror != 0)
        #expect(try pair.fixture.volume.maintenance.explain("film.mkv").cached == Pair.length)
        pair.film.fault = nil
        try pair.fixture.restart()
        try pair.fixture.play(pair.film)
        #expect(pair.fixture.receivedBytes < 2 * BlockSize.block)
        #expect(pair.fixture.store.information(for: key)?.information.validator.mirror == 0)
        #expect(pair.fixture.store.objects().map(\.key) == [key])
        // It is the source's version in the index as well.
        pair.film.fault = Pair.unwell
        pair.copy.fault = Pair.unwell
        try pair.fixture.restart()
        try pair.fixture.play(pair.film)
    }

    /// A mirror may describe one version in another way: with a weak tag and a date, after a strong tag alone.
    @Test func aFileIsOfTheVersionThatItWasOpenedAsLast() throws {
        let length = Pair.length
        let copy = FileOrigin.Version(length: length, lastModified: nil)
        let pair = try Pair(copy, of: FileOrigin.Version(length: length, entityTag: "W/\"v1\""))
        defer { pair.end() }
        let fixture = pair.fixture
        pair.film.fault = Pair.unwell
        let first = try fixture.open("film.mkv").get()
        defer { fixture.volume.close(first) }
        #expect(fixture.read(first, 0, 100_000).isRight(pair.copy, 0, 100_000))
        // Neither a strong tag nor a date proves that the source has the same.
        swap(pair)
        #expect(fixture.read(first, 5 << 20, 1000) == .failure(.stale))
        let url = try #require(ResourceURL(fixture.source + "film.mkv")).text
        let own = Validator(entityTag: EntityTag("W/\"v1\""), lastModified: 1_700_000_000)
        fixture.store.remember(ContentInformation(length: length, validator: own), for: url, checkedAt: 0)
        // Its mirror gives the same date by now.
        (pair.film.fault, pair.copy.fault) = (Pair.unwell, nil)
        pair.copy.change(to: pair.film.version)
        fixture.volume.close(try fixture.open("film.mkv").get())
        #expect(fixture.store.information(for: url)?.information.validator.mirror != 0)
        // The source has the bytes, which the first handle still reads.
        swap(pair)
        let third = try fixture.open("film.mkv").get()
        defer { fixture.volume.close(third) }
        #expect(fixture.read(third, 5 << 20, 1000).isRight(pair.film, 5 << 20, 1000))
        #expect(fixture.read(first, 4 << 20, 1000).isRight(pair.film, 4 << 20, 1000))
    }

    @Test func anOpenFileBecomesTheSourcesOnceThatHasTheSameBytes() throws {
        let pair = try Pair()
        defer { pair.end() }
        let fixture = pair.fixture
        pair.film.fault = Pair.unwell
        let first = try fixture.open("film.mkv").get()
        #expect(fixture.read(first, 0, 100_000).isRight(pair.copy, 0, 100_000))
        swap(pair)
        let second = try fixture.open("film.mkv").get()
        let url = try #require(ResourceURL(fixture.source + "film.mkv")).text
        #expect(fixture.store.information(for: url)?.information.validator.mirror == 0)
        #expect((first as? OpenFile)?.remote === (second as? OpenFile)?.remote)
        // The end of the file is asked for beside the open, and may reach the server after it.
        #expect(eventually { fixture.volume.files.all.allSatisfy { !$0.isFetching } })
        let asked = pair.first.requests.count
        let third = try fixture.open("film.mkv").get()
        #expect(pair.first.requests.count == asked)
        for (file, offset) in zip([first, second, third], [1 << 20, 3 << 20, 5 << 20] as [Int64]) {
            #expect(fixture.read(file, offset, 1000).isRight(pair.film, offset, 1000))
            fixture.volume.close(file)
        }
        // What it is in the index outlives the mount.
        pair.film.fault = Pair.unwell
        try fixture.restart()
        try fixture.play(pair.film, ByteRange(0, 100_000))
        #expect(fixture.store.objects().count == 1)
    }

    @Test func whatAMirrorIsAskedForIsOfUseAlsoWhereTheSourceIsFoundToHaveTheSameMeanwhile() throws {
        try withServices { services, _, _ in
            let table = FileTable(services)
            let url = ResourceURL("http://a/film.mkv")!
            let (asked, date) = (ByteRange(0, 1000), Int64(1_700_000_000))
            var information = ContentInformation(
                length: 1 << 20, validator: Validator(entityTag: nil, lastModified: date, mirror: 5))
            let file = try #require(try table.openNow(url, information))
            let receiver = StreamReceiver(file, file.adopt(RequestHandle(), asked, isWhole: false), url, asked)
            information.validator.mirror = 0
            file.move(to: nil, information)
            var head = ResponseHead(
                status: 206,
                headers: [
                    ("Content-Range", "bytes 0-999/\(1 << 20)"), ("Content-Length", "1000"),
                    ("Last-Modified", httpDateText(date)),
                ], url: url)
            head.mirror = 5
            #expect(receiver.head(head) == nil)
            receiver.ended(.cancelled)
            table.close(file)
        }
    }

    /// The source gave the version before it went away.
    @Test(arguments: ["\"v1\"", "\"other\"", nil])
    func aKnownFileOfWhichNothingIsCachedPlaysFromAMirrorWithTheSameAttributes(_ tag: String?) throws {
        let pair = try Pair(FileOrigin.Version(length: Pair.length, entityTag: tag))
        defer { pair.end() }
        try pair.fixture.play(pair.film, ByteRange(0, 100_000))
        try pair.fixture.restart()
        let before = try pair.fixture.lookup("film.mkv").get()
        #expect(try pair.fixture.volume.maintenance.evict("film.mkv").bytes > 0)
        pair.film.fault = Pair.unwell
        try pair.fixture.play(pair.copy)
        #expect(try pair.fixture.lookup("film.mkv").get().attributes == before.attributes)
        #expect(pair.mirror.bytes >= Pair.length && pair.mirror.leftOut == 0)
    }

    @Test func anOpenWaitsForNoSourceThatDripsTheBlockThatIsToBeCompared() throws {
        let pair = try Pair(timeout: .seconds(2))
        defer { pair.end() }
        pair.film.fault = Pair.unwell
        try pair.fixture.play(pair.copy)
        // Days, and never a second without a byte.
        pair.film.fault = .drip(piece: 1, pause: .milliseconds(300))
        try pair.fixture.restart()
        try pair.fixture.play(pair.copy)
        // Nor does the comparison last for longer.
        #expect(eventually { pair.told.value.contains { $0.why == "probe" && $0.range.map { $0[1] > 0 } ?? false } })
    }

    /// Without a byte of it, a head opens nothing that a mirror could not go on with.
    @Test(arguments: [FileOrigin.Fault.stallAfter(0), .resetAfter(0)])
    func aSourceThatAnswersHeadsAloneIsAwayToo(_ fault: FileOrigin.Fault) throws {
        let pair = try Pair()
        defer { pair.end() }
        pair.film.fault = fault
        try pair.fixture.play(pair.copy)
        pair.film.fault = nil
        try pair.fixture.restart()
        try pair.fixture.play(pair.film)
    }

    @Test func aListingOfAMirrorIsNoAnswerToWhetherTheSourcesHasChanged() throws {
        let isDown = Shared(true)
        let first = try ScriptedServer { request in
            if request.path == "/" { return Pair.page(["sub/"]) }
            return isDown.value ? ServerStep.answer(503) : Pair.page(["a.mkv", "b.mkv"])
        }
        defer { first.stop() }
        let second = try ScriptedServer { _ in
            let headers = [
                ("Content-Type", "text/html"), ("Date", httpDateText(1_800_000_000)),
                ("Last-Modified", httpDateText(1_700_000_000)),
            ]
            let page =
                "<html><title>Index of /</title><h1>Index of /</h1><pre><a href=\"../\">../</a>\n"
                + "<a href=\"a.mkv\">a.mkv</a> 01-Jan-2024 10:00 5\n</pre></html>"
            return ServerStep.answer(200, headers, body: page)
        }
        defer { second.stop() }
        // Each look at a listing refreshes it.
        let fixture = try VolumeFixture(first.url("/").text, refresh: .zero, prebuffer: 0, mirrors: [second.url("/")])
        defer { fixture.remove() }
        #expect(try fixture.names("sub").get() == ["a.mkv"])
        isDown.change { $0 = false }
        #expect(eventually { (try? fixture.names("sub").get()) == ["a.mkv", "b.mkv"] })
        let asked = first.requests.filter { $0.path == "/sub/" }
        #expect(asked.count > 1)
        #expect(asked.allSatisfy { $0["if-none-match"] == nil && $0["if-modified-since"] == nil })
    }

    /// A file that several URLs share has the place of its last open.
    @Test func aFailureDoubtsTheURLThatWasAsked() throws {
        let pair = try Pair()
        defer { pair.end() }
        let file = try pair.fixture.open("film.mkv").get()
        defer { pair.fixture.volume.close(file) }
        #expect(pair.fixture.read(file, 0, 100_000).isRight(pair.film, 0, 100_000))
        let remote = try #require(file as? OpenFile).remote
        let (asked, other) = (remote.url, ResourceURL("http://host/other.mkv")!)
        pair.fixture.store.remember(remote.information, for: other.text, checkedAt: 5)
        let handle = RequestHandle()
        let id = remote.adopt(handle, ByteRange(5 << 20, 6 << 20), isWhole: false)
        let receiver = StreamReceiver(remote, id, asked, ByteRange(5 << 20, 6 << 20))
        remote.move(to: other, remote.information)
        receiver.ended(.status(404, retryAfter: nil))
        #expect(pair.fixture.store.information(for: asked.text)?.checkedAt == Services.doubted)
        #expect(pair.fixture.store.information(for: other.text)?.checkedAt == 5)
    }
}

struct ViewCaller: KernelCaller {
    let filesystem: any Filesystem
}
