import ReelCore
import TestKit
import Testing

@testable import ReelHTTP

/// Connections: reuse, priority, many at once; and what is sent on them.
@Suite struct ConnectionTests {
    @Test func oneConnectionServesRequestsInARow() throws {
        let file = FileOrigin(length: 10_000_000)
        file.fail(.status(404, retryAfter: nil))
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) { origin in
            for start in 0..<50 {
                _ = origin.fetch(server.url("/film"), ByteRange(Int64(start) * 1000, Int64(start) * 1000 + 150_000))
            }
            #expect(server.requests.count == 50 && server.connectionCount == 1)
            #expect(origin.counters.connections == 1 && origin.counters.requests == 50)
        }
    }

    @Test func aKeptConnectionThatTheServerClosedIsReplaced() throws {
        let server = try ScriptedServer { _ in ServerStep.answer(body: "x") + [.close] }
        try withTransport(to: server) { origin in
            for _ in 0..<10 { #expect(origin.fetch(server.url("/")).failure == nil) }
        }
    }

    @Test func twoHundredRequestsAtOnceShareSixteenConnections() throws {
        let file = FileOrigin(length: 50_000_000)
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) { origin in
            let recorders = (0..<200).map { number in
                let lower = Int64(number) * 200_000
                let recorder = Recorder()
                let range = ByteRange(lower, lower + 123_457)
                origin.start(
                    OriginRequest(url: server.url("/film"), range: range, isDemanded: number % 2 == 0), recorder)
                return (range, recorder)
            }
            for (range, recorder) in recorders {
                let record = recorder.finished(within: .seconds(30))
                #expect(record.failure == nil && record.bytes.elementsEqual(file.expectedBytes(range)))
            }
            #expect(server.connectionCount <= 16)
        }
    }

    @Test func aProbeGoesOutBesideAllThatWaits() throws {
        let server = try ScriptedServer { $0.path == "/held" ? [.stall] : ServerStep.answer(body: "x") }
        try withTransport(to: server) {
            $0.connectionsPerOrigin = 2
        } _: { origin in
            let held = (0..<5).map { _ in Recorder() }
            for recorder in held { origin.start(OriginRequest(url: server.url("/held")), recorder) }
            #expect(eventually { server.requests.count == 2 })
            let probe = Recorder()
            origin.start(OriginRequest(url: server.url("/"), connectLimit: .seconds(1)), probe)
            #expect(probe.finished().failure == nil)
            #expect(server.requests.count == 3 && server.connectionCount == 3)
        }
    }

    @Test func aHeadThatComesLineByLineMustBeWholeInTime() throws {
        // It takes a minute and a half, which is nine times what the test waits for the end.
        let server = try ScriptedServer { _ in
            let lines = (0..<450).flatMap { [ServerStep.raw("X-\($0): y\r\n"), .pause(.milliseconds(200))] }
            return [.raw("HTTP/1.1 200 OK\r\n")] + lines + [.stall]
        }
        try withTransport(to: server) { origin in
            let recorder = Recorder()
            origin.start(OriginRequest(url: server.url("/"), stallLimit: .milliseconds(500)), recorder)
            #expect(recorder.finished().failure == .timedOut)
        }
    }

    /// One request at a time, and `/held` is answered when the gate opens.
    private func withLineOfOne(_ body: (CurlOrigin, ScriptedServer, Gate) throws -> Void) throws {
        let gate = Gate()
        let server = try ScriptedServer { request in
            request.path == "/held" ? [.wait(gate)] + ServerStep.answer() : ServerStep.answer()
        }
        try withTransport(to: server) {
            $0.connectionsPerOrigin = 1
        } _: {
            try body($0, server, gate)
        }
    }

    /// All that was asked of it stands in line: the line may become free before a busy machine has let its thread look.
    private func letIn(_ origin: CurlOrigin) {
        let isIn = Gate()
        origin.perform { isIn.open() }
        #expect(isIn.wait())
    }

    @Test func demandedRequestsGoFirst() throws {
        try withLineOfOne { origin, server, gate in
            let recorders = (0..<7).map { _ in Recorder() }
            origin.start(OriginRequest(url: server.url("/held")), recorders[0])
            #expect(eventually { server.requests.count == 1 })
            for (number, recorder) in recorders.enumerated().dropFirst() {
                let isDemanded = number > 3
                origin.start(
                    OriginRequest(url: server.url("/\(number)"), isDemanded: isDemanded), recorder)
            }
            letIn(origin)
            gate.open()
            for recorder in recorders { #expect(recorder.finished().failure == nil) }
            #expect(server.requests.map(\.path) == ["/held", "/4", "/5", "/6", "/1", "/2", "/3"])
        }
    }

    @Test func pausedRequestsLeaveTheirSlotsToOthers() throws {
        let file = FileOrigin(length: 50_000_000)
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) {
            $0.connectionsPerOrigin = 2
        } _: { origin in
            let paused = (0..<5).map { _ in Recorder(answer: { $0.pieces.count == 1 ? .pause : .more }) }
            let ids = paused.map { origin.start(OriginRequest(url: server.url("/film")), $0) }
            #expect(eventually { paused.allSatisfy { $0.byteCount > 0 } })
            #expect(origin.fetch(server.url("/film"), ByteRange(0, 1)).failure == nil)
            for id in ids { id.resume() }
            for recorder in paused { #expect(recorder.finished(within: .seconds(30)).bytes.count == 50_000_000) }
        }
    }

    @Test func standingInLineIsNoStallWhileOthersGetBytes() throws {
        let file = FileOrigin(length: 30)
        file.fail(.drip(piece: 1, pause: .milliseconds(100)))
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) {
            $0.connectionsPerOrigin = 1
        } _: { origin in
            let slow = Recorder()
            origin.start(OriginRequest(url: server.url("/film")), slow)
            #expect(eventually { slow.byteCount > 0 })
            #expect(origin.fetch(server.url("/film"), stallLimit: .seconds(2)).failure == nil)
            #expect(slow.finished().failure == nil)
        }
    }

    /// Requests are looked at in no order, so that some of several come behind the one that stalls.
    @Test func theEndOfAStalledRequestTakesNoTimeFromThoseInLineWhileOthersGetBytes() throws {
        let (slow, stalled) = (FileOrigin(length: 40), FileOrigin(length: 1000))
        slow.fault = .drip(piece: 1, pause: .milliseconds(50))
        stalled.fault = .stallAfter(10)
        let names = (0..<12).map { "/f\($0)" }
        var files = ["/slow": slow, "/stalled": stalled]
        for name in names { files[name] = FileOrigin(length: 1000) }
        let server = try ScriptedServer(files)
        try withTransport(to: server) {
            $0.connectionsPerOrigin = 2
        } _: { origin in
            let (flowing, stalling) = (Recorder(), Recorder())
            origin.start(OriginRequest(url: server.url("/slow")), flowing)
            origin.start(OriginRequest(url: server.url("/stalled"), stallLimit: .milliseconds(700)), stalling)
            #expect(eventually { flowing.byteCount > 0 && stalling.byteCount > 0 })
            let waiting = names.map { name in
                let recorder = Recorder()
                origin.start(OriginRequest(url: server.url(name), stallLimit: .milliseconds(600)), recorder)
                return recorder
            }
            #expect(stalling.finished().failure == .timedOut)
            for recorder in waiting { #expect(recorder.finished().failure == nil) }
        }
    }

    @Test func aWaitingRequestBehindAStalledOneEndsToo() throws {
        let file = FileOrigin(length: 30)
        file.fault = .silent
        let server = try ScriptedServer(["/film": file])
        try withTransport(to: server) {
            $0.connectionsPerOrigin = 1
        } _: { origin in
            let held = Recorder()
            origin.start(OriginRequest(url: server.url("/film"), stallLimit: .seconds(60)), held)
            #expect(eventually { server.requests.count == 1 })
            #expect(origin.fetch(server.url("/film"), stallLimit: .milliseconds(300)).failure == .timedOut)
            #expect(!held.isEnded)
        }
    }

    @Test func aPromotedRequestGoesWithTheDemandedOnes() throws {
        try withLineOfOne { origin, server, gate in
            let recorders = (0..<4).map { _ in Recorder() }
            origin.start(OriginRequest(url: server.url("/held")), recorders[0])
            #expect(eventually { server.requests.count == 1 })
            let ids = (1..<4).map { number in
                origin.start(OriginRequest(url: server.url("/\(number)"), isDemanded: false), recorders[number])
            }
            ids[2].promote()
            letIn(origin)
            gate.open()
            for recorder in recorders { #expect(recorder.finished().failure == nil) }
            #expect(server.requests.map(\.path) == ["/held", "/3", "/1", "/2"])
            #expect(recorders.map { $0.record.timesSent } == [1, 1, 1, 1])
        }
    }

    /// Whoever is demanded takes the slot of one whose receiver gives it up: ahead of its time first.
    @Test func aDemandedRequestGetsTheSlotOfOneThatYields() throws {
        let file = FileOrigin(length: 50_000_000)
        file.fault = .drip(piece: 1000, pause: .milliseconds(10))
        let server = try ScriptedServer(["/film": file, "/short": FileOrigin(length: 10)])
        try withTransport(to: server) {
            $0.connectionsPerOrigin = 2
        } _: { origin in
            let waitedFor = Recorder()
            let (demanded, ahead) = (Recorder(yields: true), Recorder(yields: true))
            origin.start(OriginRequest(url: server.url("/film")), demanded)
            origin.start(OriginRequest(url: server.url("/film"), isDemanded: false), ahead)
            #expect(eventually { server.requests.count == 2 })
            #expect(origin.fetch(server.url("/short")).failure == nil)
            #expect(ahead.finished().failure == .cancelled && !demanded.isEnded)
            origin.start(OriginRequest(url: server.url("/film")), waitedFor)
            #expect(eventually { waitedFor.byteCount > 0 })
            #expect(origin.fetch(server.url("/short")).failure == nil)
            #expect(demanded.finished().failure == .cancelled && !waitedFor.isEnded)
        }
    }

    /// What is on its way of an answer is lost with it.
    @Test func ofTheRequestsThatYieldOneWithoutAnAnswerGoesFirst() throws {
        let file = FileOrigin(length: 50_000_000)
        file.fault = .drip(piece: 1000, pause: .milliseconds(10))
        let short = FileOrigin(length: 10)
        let server = try ScriptedServer { request in
            request.path == "/silent" ? [.stall] : (request.path == "/short" ? short : file).answer(request)
        }
        try withTransport(to: server) {
            $0.connectionsPerOrigin = 8
        } _: { origin in
            let answered = (0..<5).map { _ in Recorder(yields: true) }
            for (number, recorder) in answered.enumerated() {
                origin.start(OriginRequest(url: server.url("/\(number)"), isDemanded: false), recorder)
            }
            let silent = Recorder(yields: true)
            origin.start(OriginRequest(url: server.url("/silent"), isDemanded: false), silent)
            #expect(eventually { server.requests.count == 6 })
            let waitedFor = (0..<2).map { _ in Recorder() }
            for (number, recorder) in waitedFor.enumerated() {
                origin.start(OriginRequest(url: server.url("/waited\(number)")), recorder)
            }
            #expect(eventually { (answered + waitedFor).allSatisfy { $0.byteCount > 0 } })
            #expect(origin.fetch(server.url("/short")).failure == nil)
            #expect(silent.finished().failure == .cancelled && answered.allSatisfy { !$0.isEnded })
        }
    }

    /// Requests ahead take six; the next opens a connection of its own.
    @Test func whoFetchesAheadLeavesIdleConnectionsToWhoWaits() throws {
        let gate = Gate()
        let film = FileOrigin(length: 1000)
        let server = try ScriptedServer { request in
            request.path == "/held" ? [.stall] : [.wait(gate)] + film.answer(request)
        }
        try withTransport(to: server) { origin in
            func hold(_ count: Int, isDemanded: Bool) {
                let before = server.requests.count
                for number in 0..<count {
                    let url = server.url("/held?\(before + number)")
                    origin.start(OriginRequest(url: url, isDemanded: isDemanded), Recorder())
                }
                #expect(eventually { server.requests.count == before + count })
            }
            /// Its receiver wants no more once the last byte has come, as a file's does.
            func fetch(isDemanded: Bool) -> Recorder {
                let recorder = Recorder(answer: { $0.bytes.count == 500 ? .stop : .more })
                let range = ByteRange(0, 500)
                origin.start(
                    OriginRequest(url: server.url("/film"), range: range, isDemanded: isDemanded), recorder)
                return recorder
            }
            let first = (0..<9).map { _ in fetch(isDemanded: true) }
            #expect(eventually { server.requests.count == 9 })
            gate.open()
            for recorder in first { #expect(recorder.finished().bytes.count == 500) }
            hold(6, isDemanded: false)
            #expect(server.connectionCount == 9)
            for _ in 1...2 {
                #expect(fetch(isDemanded: false).finished().bytes.count == 500)
                #expect(server.connectionCount == 10)
            }
            hold(4, isDemanded: true)
            #expect(server.connectionCount == 10)
            hold(1, isDemanded: true)
            #expect(server.connectionCount == 11)
        }
    }

    @Test func idleConnectionsAreCountedByTheirUses() {
        var idle = IdleConnections()
        func isScarce() -> Bool { idle.areScarce(running: IdleConnections.crowd) }
        func end(hasTaken: Bool = false, isNew: Bool = false, isKept: Bool = true) {
            idle.ended(hasTaken: hasTaken, isNew: isNew, isKept: isKept)
        }
        func take() -> Bool { idle.take() }
        #expect(isScarce() && !idle.areScarce(running: IdleConnections.crowd - 1))
        let none = take()
        #expect(!none)
        for _ in 0..<IdleConnections.spare { end(isNew: true) }
        #expect(isScarce())
        end(isNew: true)
        #expect(!isScarce())
        let one = take()
        #expect(one && isScarce())
        end(hasTaken: true)
        #expect(!isScarce())
        // Cut off in the middle of a body.
        let another = take()
        end(hasTaken: true, isKept: false)
        #expect(another && isScarce())
        // There was none, after all.
        end()
        let closed = take()
        end(hasTaken: true, isNew: true)
        #expect(closed && isScarce())
        let last = (take(), take())
        #expect(last.0 && !last.1)
    }

    /// However many wait for it.
    @Test func aResourceThatIsNeverAnsweredKeepsNoOtherOut() throws {
        let server = try ScriptedServer { $0.path == "/silent" ? [.stall] : ServerStep.answer(body: "x") }
        try withTransport(to: server) { origin in
            let held = (0..<300).map { _ in Recorder() }
            for (number, recorder) in held.enumerated() {
                let request = OriginRequest(
                    url: server.url("/silent"), isDemanded: number % 3 > 0, stallLimit: .seconds(60))
                origin.start(request, recorder)
            }
            #expect(eventually { server.requests.count == 9 })
            for number in 0..<20 {
                #expect(origin.fetch(server.url("/\(number)"), stallLimit: .seconds(2)).failure == nil)
            }
            // Others that are silent, too: three more, before all slots are taken.
            for path in ["/silent?1", "/silent?2"] {
                for _ in 0..<50 {
                    origin.start(OriginRequest(url: server.url(path), stallLimit: .seconds(60)), Recorder())
                }
                letIn(origin)
                #expect(origin.fetch(server.url("/good"), stallLimit: .seconds(2)).failure == nil)
            }
            #expect(server.openConnectionCount <= 16 && held.allSatisfy { !$0.isEnded })
        }
    }

    /// Loopback has many addresses, and each is an origin.
    @Test func originsThatNeverAnswerLeaveDescriptorsAndKeepNoOtherOut() throws {
        let server = try ScriptedServer(isPublic: true) {
            $0.path == "/silent" ? [.stall] : ServerStep.answer(body: "x")
        }
        try withTransport(to: server) { origin in
            for address in 2..<32 {
                for number in 0..<16 {
                    let url = server.url("/silent?\(number)", host: "127.0.0.\(address)")
                    origin.start(OriginRequest(url: url, stallLimit: .seconds(60)), Recorder())
                }
            }
            // As many as there may be, and one for each origin that came too late for them.
            #expect(eventually { server.requests.count >= 256 })
            #expect(origin.fetch(server.url("/good"), stallLimit: .seconds(5)).failure == nil)
            #expect(server.openConnectionCount <= 256 + 30)
            let probe = Recorder()
            let request = OriginRequest(url: server.url("/", host: "127.0.0.2"), connectLimit: .seconds(1))
            origin.start(request, probe)
            #expect(probe.finished().failure == nil)
        }
    }

    @Test func theQueueKeepsOrderAndASlotForDemand() {
        let queue = HostQueue<Int>(slots: 4)
        func add(_ number: Int, isDemanded: Bool) { queue.add(number, of: "\(number)", isDemanded: isDemanded) }
        for number in 0..<6 { add(number, isDemanded: false) }
        #expect([queue.next(), queue.next(), queue.next(), queue.next()] == [0, 1, 2, nil])
        add(10, isDemanded: true)
        add(11, isDemanded: true)
        #expect([queue.next(), queue.next()] == [10, nil])
        queue.release("0")
        queue.remove(of: "11") { $0 == 11 }
        #expect(queue.next() == nil, "three of four run")
        queue.release("1")
        #expect(queue.next() == 3)
        queue.pause("2")
        #expect(queue.next() == 4)
        queue.resume("2")
        #expect(queue.running == 4 && queue.next() == nil)
        queue.remove(of: "5") { _ in true }
        for resource in ["2", "10", "3"] { queue.release(resource) }
        queue.pause("4")
        #expect(!queue.isIdle, "a paused request still belongs here")
        queue.releasePaused()
        #expect(queue.isIdle)
    }

    @Test func resourcesHaveTheirTurnsAndNoneHasAllSlots() {
        let queue = HostQueue<String>(slots: 16)
        func add(_ resource: String, _ count: Int) {
            for number in 0..<count { queue.add("\(resource)\(number)", of: resource, isDemanded: true) }
        }
        func take() -> [String] {
            var taken: [String] = []
            while let next = queue.next() { taken.append(next) }
            return taken
        }
        add("a", 20)
        #expect(take() == (0..<9).map { "a\($0)" })
        #expect(queue.wouldMakeRoom("a") && !queue.wouldMakeRoom("b"))
        add("b", 2)
        add("c", 2)
        #expect(take() == ["b0", "c0", "b1", "c1"])
        #expect(!queue.wouldMakeRoom("b"), "a would have as many as before, and no more left for others")
        add("d", 5)
        #expect(take() == ["d0", "d1"] && queue.running == 15)
        add("e", 1)
        #expect(take() == ["e0"])
        add("f", 1)
        #expect(take() == [] && queue.wouldMakeRoom("a") && queue.wouldMakeRoom("e"))
        queue.release("a")
        #expect(take() == ["f0"])
        for _ in 0..<8 { queue.release("a") }
        #expect(take() == ["a9", "d2", "a10", "d3", "a11", "a12"])
    }

    @Test func aResourceThatIsFetchedAheadHasAsManySlotsAsOneThatIsDemanded() {
        let queue = HostQueue<Int>(slots: 16)
        for number in 0..<20 { queue.add(number, of: "a", isDemanded: false) }
        while queue.next() != nil {}
        #expect(queue.running == 9)
    }
}
