import ReelCore
import Synchronization
import TestKit
import Testing

@testable import ReelHTTP

/// What is kept in mind of origins, and what other threads hear of it.
@Suite struct OutageWatchTests {
    /// Nothing listens on port 1 of any loopback address; a list may name any number of hosts.
    private func place(_ host: Int) -> ResourceURL { ResourceURL("http://127.9.\(host / 250).\(1 + host % 250):1/")! }

    /// A hundred at a time: hosts of which something is under way are not forgotten.
    private func ask(_ hosts: Range<Int>, _ origin: CurlOrigin) {
        for first in stride(from: hosts.lowerBound, to: hosts.upperBound, by: 100) {
            let asked = first..<min(first + 100, hosts.upperBound)
            let recorders = asked.map { _ in Recorder() }
            for (host, recorder) in zip(asked, recorders) { origin.start(OriginRequest(url: place(host)), recorder) }
            for recorder in recorders { recorder.finished(within: .seconds(60)) }
        }
    }

    @Test func ofHostsThatAreAwayAThousandAreKeptInMind() throws {
        let server = try ScriptedServer([:])
        try withTransport(to: server) { origin in
            origin.watchOutages(deadline: .seconds(10)) { _, _ in }
            #expect(
                eventually(within: .seconds(60)) {
                    ask(0..<1000, origin)
                    return origin.outages.count == 1000
                })
            ask(1000..<3000, origin)
            #expect(origin.outages.count <= HostTable.limit)
        }
    }

    @Test func aHostThatHasAskedForDigestIsKeptInMindWhereAThousandOthersCome() {
        let table = HostTable(slots: 1, TransportNews())
        table.host("http://a").login.wantsDigest()
        for number in 0...HostTable.limit { _ = table.host("http://b\(number)") }
        #expect(table.known("http://a")?.login.asksForDigest == true && table.known("http://b0") == nil)
    }

    @Test func anOriginThatWasNotAskedYetComesIntoNoDoubt() throws {
        let server = try ScriptedServer { _ in ServerStep.answer(body: "x") }
        let silent = try ScriptedServer { _ in [.stall] }
        defer { silent.stop() }
        try withTransport(to: server) {
            // The command never ends.
            $0.tokenSource = { _ in }
            $0.trustedOrigins = [server.url("/").origin]
        } _: { origin in
            origin.watchOutages(deadline: .milliseconds(500)) { _, _ in }
            origin.start(OriginRequest(url: server.url("/")), Recorder())
            // Asked later, so the other one would be away as well by then.
            origin.start(OriginRequest(url: silent.url("/")), Recorder())
            #expect(eventually { origin.outage(of: silent.url("/")) != nil })
            #expect(origin.standings[server.url("/").origin] == nil && server.requests.isEmpty)
        }
    }

    @Test func anOutageIsReportedOnceAndItsEndAndRequestsMeanwhileAreNotSent() throws {
        let reports = Mutex<[Outage?]>([])
        let server = try ScriptedServer { _ in ServerStep.answer(body: "x") }
        try withTransport(to: server) { origin in
            origin.watchOutages(deadline: .seconds(10)) { _, outage in reports.withLock { $0.append(outage) } }
            #expect(origin.fetch(server.url("/")).failure == nil)
            #expect(origin.isWorthAsking(server.url("/")))
            server.stop()
            #expect(eventually { origin.fetch(server.url("/")).failure == .away(.unreachable) })
            #expect(origin.outage(of: server.url("/other")) == .unreachable)
            #expect(!origin.isWorthAsking(server.url("/")) && origin.outages.count == 1)
            let sent = Recorder()
            origin.start(OriginRequest(url: server.url("/")), sent)
            #expect(sent.finished().failure == .away(.unreachable) && sent.record.timesSent == 0)
            let back = try ScriptedServer(port: server.port) { _ in ServerStep.answer(body: "x") }
            defer { back.stop() }
            #expect(eventually { origin.outages.isEmpty })
            #expect(eventually { reports.withLock { $0 } == [.unreachable, nil] })
            #expect(origin.fetch(server.url("/")).failure == nil)
        }
    }
}
