import Glibc
import ReelCore
import ReelThreads
import Synchronization
import TestKit
import Testing

@testable import ReelVolume

/// What the mount tells of its requests.
@Suite struct RequestLogTests {
    private static func server(_ film: FileOrigin) throws -> ScriptedServer {
        try ScriptedServer { request in
            request.path == "/list.m3u"
                ? ServerStep.answer(
                    200, [("Content-Type", "audio/x-mpegurl")], body: "#EXTM3U\n/film.mkv?token=s3cret\n")
                : film.answer(request)
        }
    }

    @Test func eachRequestIsToldWithItsReasonAndWithoutSecrets() throws {
        let film = FileOrigin(length: 8 << 20)
        let server = try Self.server(film)
        defer { server.stop() }
        let told = Shared<[RequestRecord]>([])
        let fixture = try VolumeFixture(server.url("/list.m3u").text, prebuffer: 0) { record in
            told.value += [record]
        }
        defer { fixture.remove() }
        let file = try fixture.open("film.mkv").get()
        #expect(fixture.read(file, 4 << 20, 200_000).isRight(film, 4 << 20, 200_000))
        fixture.volume.close(file)
        #expect(eventually { Set(told.value.map(\.why)).isSuperset(of: ["listing", "probe", "tail", "demand"]) })
        let records = told.value
        #expect(records.allSatisfy { !"\($0)".contains("s3cret") && $0.host == server.url("/").origin })
        let probe = try #require(records.first { $0.why == "probe" })
        #expect(probe.range == [0, 0] && probe.status == 206 && probe.bytes == 1 && probe.failure == nil)
        #expect(records.first { $0.why == "listing" }?.file == server.url("/list.m3u").text)
        let explained = try fixture.volume.maintenance.explain("film.mkv")
        #expect(explained.length == 8 << 20 && explained.cached > 0)
        #expect(Set(explained.requests.map(\.why)) == Set(records.map(\.why)).subtracting(["listing"]))
        #expect(explained.sums.map(\.requests).reduce(0, +) == explained.requests.count)
        #expect(throws: MaintenanceFailure.self) { try fixture.volume.maintenance.explain("other.mkv") }
        #expect(try fixture.volume.maintenance.explain("").requests.map(\.why) == ["listing"])
    }

    @Test func aFailureIsToldWithItsStatus() throws {
        let film = FileOrigin(length: 1 << 20)
        let server = try ScriptedServer { request in
            request.path == "/list.m3u"
                ? ServerStep.answer(200, [("Content-Type", "audio/x-mpegurl")], body: "/film.mkv\n")
                : ServerStep.answer(403)
        }
        defer { server.stop() }
        let fixture = try VolumeFixture(server.url("/list.m3u").text, prebuffer: 0)
        defer { fixture.remove() }
        _ = fixture.lookup("film.mkv")
        let requests = try fixture.volume.maintenance.explain("film.mkv").requests
        #expect(requests.map(\.status) == [403] && requests.first?.failure?.contains("403") == true)
        _ = film
    }

    @Test func memoryIsBounded() {
        let log = RequestLog(nil)
        let queue = SerialQueue("test")
        defer { queue.stop() }
        let url = ResourceURL("http://h/a")!
        let record = RequestRecord(
            when: "", file: "", range: nil, why: "demand", program: nil, host: "", status: nil, bytes: 0,
            milliseconds: 0, failure: nil)
        for _ in 0..<10_000 { log.add(record, of: url, queue) }
        #expect((3000...4000).contains(log.records(of: url).count))
    }

    @Test func aReaderIsNamedByItsProgram() throws {
        #expect(
            programName(ofThread: getpid())
                == contents(of: "/proc/self/comm").split(separator: "\n").first.map(String.init))
        #expect(programName(ofThread: 0) == nil && programName(ofThread: -1) == nil)
    }
}
