import Testing

@testable import ReelCore

/// The circuit as a table: what happens when, on a clock of the test's own, and what comes of it.
@Suite struct CircuitTests {
    enum Event: Sendable {
        /// Somebody asks for bytes: nil where the request goes out.
        case ask(refused: Outage? = nil)
        case answered
        case ended(OriginFailure?)
        /// Runs the clock, tick by tick, to this moment.
        case until(Double)
        case probed(OriginFailure?)
        /// The probe tries a connection.
        case connects
        case knocked(OriginFailure?)
        case interest(isWorth: Bool)
        case state(Circuit.State)
        /// Actions since the last look.
        case actions([Circuit.Action])
    }

    struct Story: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var events: [Event]

        init(_ name: String, _ events: [Event]) { (testDescription, self.events) = (name, events) }
    }

    private static let refused = OriginFailure.unreachable("refused")
    private static func probe(_ answer: Double = 1.5, connect: Double = 1) -> Circuit.Action {
        .probe(connect: .seconds(connect), answer: .seconds(answer))
    }

    private static func knock(_ answer: Double = 1.5) -> Circuit.Action {
        .knock(connect: .milliseconds(500), answer: .seconds(answer))
    }

    static let stories = [
        Story(
            "One refusal is a server that restarts",
            [.ask(), .ended(refused), .state(.closed), .until(0.3), .ask(), .ended(nil), .until(5), .state(.closed)]),
        Story(
            "Refusals for half a second open it, and what runs is cut",
            [
                .ask(), .ended(refused), .until(0.2), .ask(), .ended(refused), .state(.closed), .until(0.5), .ask(),
                .ended(refused), .state(.open(.unreachable)), .actions([.opened(.unreachable), .cut]),
                .ask(refused: .unreachable), .interest(isWorth: false),
            ]),
        Story(
            "Refusals far apart are no row",
            [
                .ask(), .ended(refused), .until(8), .ask(), .ended(refused), .state(.closed), .until(16), .ask(),
                .ended(refused), .state(.closed),
            ]),
        Story(
            "Bytes between refusals end the row",
            [
                .ask(), .ask(), .ended(refused), .until(0.3), .answered, .until(0.6), .ask(), .ended(refused),
                .state(.closed),
            ]),
        Story(
            "Open, it is looked for after half a second, again and again, and an answer closes it",
            [
                .ask(), .ended(refused), .until(0.5), .ask(), .ended(refused), .actions([.opened(.unreachable), .cut]),
                .until(0.9), .actions([]), .until(1.1), .actions([probe()]), .state(.halfOpen(.unreachable)),
                .until(1.3), .actions([]), .probed(refused), .until(1.7), .actions([]), .until(1.9),
                .actions([probe()]), .probed(refused), .until(2.8), .actions([probe()]), .probed(nil), .state(.closed),
                .actions([.closed]), .ask(),
            ]),
        Story(
            "Any status is an answer",
            [
                .ask(), .ended(refused), .until(0.5), .ask(), .ended(refused), .until(1.1),
                .probed(.status(503, retryAfter: nil)), .state(.closed),
            ]),
        Story(
            "Two seconds of silence are a doubt: requests go out, confirmations do not, and probes begin",
            [
                .ask(), .until(1.9), .state(.closed), .interest(isWorth: true), .until(2.1), .state(.doubtful),
                .actions([probe()]), .interest(isWorth: false), .ask(),
            ]),
        Story(
            "Silence for the whole deadline opens it",
            [
                .ask(), .until(2.1), .probed(.timedOut), .until(9.8), .state(.doubtful), .until(10),
                .state(.halfOpen(.silent)), .ask(refused: .silent),
            ]),
        Story(
            "A deadline that no transfer outlives counts as well",
            [
                .ask(), .until(3), .ended(.timedOut), .until(3.2), .ask(), .until(6), .ended(.timedOut), .until(10.2),
                .state(.halfOpen(.silent)),
            ]),
        Story(
            "A slow resource opens nothing while a probe is answered",
            [
                .ask(), .until(2.1), .actions([probe()]), .probed(nil), .state(.closed), .until(4.2),
                .state(.doubtful), .probed(nil), .until(6.3), .probed(nil), .until(8.4), .probed(nil), .until(10.5),
                .probed(nil), .ended(.timedOut), .state(.closed), .until(20), .state(.closed),
            ]),
        Story(
            "Bytes on another stream keep it closed",
            [
                .ask(), .ask(), .until(1.5), .answered, .until(3), .answered, .until(4.5), .answered, .until(6),
                .answered, .until(7.5), .answered, .until(9), .answered, .until(10.5), .answered, .ended(.timedOut),
                .state(.closed), .actions([]),
            ]),
        Story(
            "Who leaves early has learned nothing",
            [.ask(), .until(1), .ended(.cancelled), .until(20), .state(.closed), .actions([])]),
        Story(
            "An origin that connects and is slow is heard out longer each time",
            [
                .ask(), .until(2.05), .actions([probe()]), .until(3.6), .probed(.timedOut), .until(4.15),
                .actions([probe(3)]), .until(7.2), .probed(.timedOut), .until(8), .actions([probe(6)]), .probed(nil),
                .state(.closed),
            ]),
        Story(
            "A connection that does not come about is given longer each time, until something is answered",
            [
                .ask(), .until(2.05), .actions([probe()]), .until(3.05), .probed(.timedOut), .until(3.6),
                .actions([probe(2.5, connect: 2)]), .until(5.6), .probed(.timedOut), .until(6.4),
                .actions([probe(4.5, connect: 4)]), .until(10.4), .probed(.timedOut), .until(11.45),
                .actions([.opened(.silent), probe(8.5, connect: 8)]), .until(19.4), .probed(.timedOut), .until(20.45),
                .actions([probe(10.5, connect: 10)]), .until(30.4), .probed(.timedOut), .until(31.45),
                .actions([probe(10.5, connect: 10)]), .until(33), .probed(nil), .actions([.closed]), .until(35.05),
                .actions([probe()]),
            ]),
        Story(
            "While a probe waits for its connection knocks try others, one at a time, until something is answered",
            [
                .ask(), .until(2.05), .actions([probe()]), .connects, .until(2.5), .actions([]), .until(2.55),
                .actions([knock()]), .until(3), .knocked(.timedOut), .until(3.05), .actions([knock()]),
                .probed(.timedOut), .knocked(.timedOut), .until(3.55), .actions([probe(2.5, connect: 2)]),
                .connects, .until(4.05), .actions([knock(2.5)]), .until(5), .actions([]), .knocked(.timedOut),
                .until(5.05), .actions([knock(2.5)]), .until(10), .actions([.opened(.silent)]),
                .ask(refused: .silent), .knocked(nil), .actions([.closed]), .state(.closed), .ask(), .until(11.95),
                .probed(.timedOut), .actions([]),
            ]),
        Story(
            "Between two probes knocks go on",
            [
                .ask(), .until(2.05), .connects, .until(2.55), .actions([probe(), knock()]), .knocked(.timedOut),
                .until(2.95), .probed(.timedOut), .until(3.05), .actions([knock(2.5)]), .knocked(.timedOut),
                .until(3.4), .actions([]), .until(3.5), .actions([probe(2.5, connect: 2)]), .until(5), .actions([]),
            ]),
        Story(
            "Nothing knocks behind a probe that does not know the address, nor where connections are refused",
            [
                .ask(), .until(2.05), .actions([probe()]), .until(4), .actions([]), .connects, .until(4.5),
                .actions([knock()]), .knocked(refused), .until(4.92), .knocked(refused),
                .state(.halfOpen(.unreachable)),
                .actions([.opened(.unreachable), .cut]), .until(8), .actions([]),
            ]),
        Story(
            "Nothing knocks when nobody has asked for a minute",
            [
                .ask(), .until(2.05), .connects, .until(2.55), .knocked(.timedOut), .until(3.05), .knocked(.timedOut),
                .until(3.55), .actions([probe(), knock(), knock(), knock()]), .until(61), .knocked(.timedOut),
                .actions([.opened(.silent)]), .until(100), .actions([]),
            ]),
        Story(
            "One that connects late and answers later is heard out",
            [
                .ask(), .until(2.05), .actions([probe()]), .until(3.05), .probed(.timedOut), .until(3.6),
                .actions([probe(2.5, connect: 2)]), .until(6.1), .probed(.timedOut), .until(6.9),
                .actions([probe(5, connect: 2)]), .until(9), .probed(nil), .state(.closed),
            ]),
        Story(
            "Nobody is looked for when nobody has asked for a minute; the next request goes out itself",
            [
                .ask(), .ended(refused), .until(0.5), .ask(), .ended(refused), .until(1.1), .probed(refused),
                .actions([.opened(.unreachable), .cut, probe()]), .until(62), .actions([probe()]), .probed(refused),
                .until(300), .actions([]),
                .state(.open(.unreachable)), .ask(), .state(.doubtful), .until(300.1), .actions([probe()]),
                .ended(refused), .until(300.6), .ask(), .ended(refused), .state(.halfOpen(.unreachable)),
            ]),
        Story(
            "Interest in what is remembered starts the search again",
            [
                .ask(), .ended(refused), .until(0.5), .ask(), .ended(refused), .until(1.1), .probed(refused),
                .actions([.opened(.unreachable), .cut, probe()]), .until(100), .actions([probe()]), .probed(refused),
                .until(200), .actions([]), .interest(isWorth: false), .until(200.1),
                .actions([probe()]), .probed(nil), .interest(isWorth: true),
            ]),
        Story(
            "After a minute's rest interest opens the way for requests before any probe is answered",
            [
                .ask(), .ended(refused), .until(0.5), .ask(), .ended(refused), .until(1.1), .probed(refused),
                .until(62), .probed(refused), .until(200), .state(.open(.unreachable)), .interest(isWorth: false),
                .state(.doubtful), .ask(), .interest(isWorth: false), .answered, .state(.closed), .ended(nil),
            ]),
        Story(
            "Interest after a rest that no probe is answered to leaves it open",
            [
                .ask(), .ended(refused), .until(0.5), .ask(), .ended(refused), .until(1.1), .probed(refused),
                .until(62), .probed(refused), .until(200), .interest(isWorth: false), .until(200.1), .probed(refused),
                .until(200.7), .probed(refused), .state(.open(.unreachable)), .ask(refused: .unreachable),
            ]),
        Story(
            "Silent, then refused: how it is away is news",
            [
                .ask(), .until(10.1), .ended(.timedOut), .state(.halfOpen(.silent)), .probed(refused),
                .state(.open(.unreachable)),
            ]),
        Story(
            "In doubt when the user goes offline, it is in none afterwards",
            [
                .ask(), .until(3), .state(.doubtful), .ended(.away(.offline)), .state(.closed), .actions([probe()]),
                .until(60), .state(.closed), .actions([]), .ask(), .answered, .state(.closed),
            ]),
        Story(
            "Connections that break off before a byte are neither an answer nor a refusal",
            [
                .ask(), .ended(.interrupted("x")), .until(0.5), .ask(), .ended(.interrupted("x")), .state(.closed),
            ]),
    ]

    @Test(arguments: stories) func story(_ story: Story) {
        var circuit = Circuit(deadline: .seconds(10))
        var (now, probeStart) = (Duration.zero, Duration.zero)
        var actions: [Circuit.Action] = []
        func take(_ new: [Circuit.Action]) {
            actions += new
            for case .probe in new { probeStart = now }
        }
        for (number, event) in story.events.enumerated() {
            let comment: Comment = "event \(number): \(event)"
            switch event {
            case .ask(let refused): #expect(circuit.ask(now) == refused, comment)
            case .answered: take(circuit.answered(now))
            case .ended(let failure): take(circuit.ended(failure, now: now))
            case .until(let end):
                while now < .seconds(end) {
                    now += .milliseconds(50)
                    take(circuit.tick(now))
                }
            case .probed(let failure): take(circuit.probed(failure, took: now - probeStart, now: now))
            case .connects: circuit.probeConnects(now)
            case .knocked(let failure): take(circuit.knocked(failure, now: now))
            case .interest(let isWorth): #expect(circuit.isWorthAsking(now) == isWorth, comment)
            case .state(let state): #expect(circuit.state == state, comment)
            case .actions(let expected):
                #expect(actions == expected, comment)
            }
            if case .actions = event { actions = [] }
        }
    }

    @Test func aPausedStreamOwesNothing() {
        var circuit = Circuit(deadline: .seconds(10))
        #expect(circuit.ask(.zero) == nil)
        _ = circuit.answered(.seconds(1))
        circuit.paused(.seconds(1))
        _ = circuit.answered(.seconds(1))
        for second in 2..<100 { #expect(circuit.tick(.seconds(second)) == []) }
        circuit.resumed(.seconds(100))
        #expect(circuit.tick(.seconds(101)) == [])
        _ = circuit.tick(.seconds(103))
        #expect(circuit.state == .doubtful)
    }

    @Test func silenceBeforeAPauseDoesNotCountAfterIt() {
        var circuit = Circuit(deadline: .seconds(10))
        #expect(circuit.ask(.zero) == nil)
        _ = circuit.answered(.seconds(1))
        circuit.paused(.seconds(1))
        circuit.resumed(.seconds(4))
        #expect(circuit.tick(.seconds(5)) == [])
        #expect(circuit.state == .closed)
    }

    struct Refresh: CustomTestStringConvertible, Sendable {
        var testDescription: String
        /// When, what came (nil: a listing with entries), and what is made of it.
        var steps: [(Double, ListingTrouble?, ListingDoubt.Verdict)]
    }

    @Test(arguments: [
        Refresh(
            testDescription: "An error changes nothing, however often",
            steps: [
                (0, .status(500), .keep), (10, .status(500), .keep), (1000, .timedOut, .keep),
                (2000, .noListing, .keep),
                (3000, .cutShort, .keep), (4000, nil, .believe),
            ]),
        Refresh(
            testDescription: "Empty is believed the second time",
            steps: [
                (0, .empty, .keep), (2, .empty, .keep), (6, .empty, .believe), (7, .empty, .keep),
            ]),
        Refresh(
            testDescription: "404 and 410 say the same",
            steps: [
                (0, .status(404), .keep), (4, .status(404), .keep), (6, .status(410), .gone), (12, .status(404), .gone),
            ]),
        Refresh(
            testDescription: "An error between the two begins anew",
            steps: [
                (0, .empty, .keep), (6, .status(502), .keep), (12, .empty, .keep), (18, .empty, .believe),
                (20, .status(404), .keep), (26, .unreachable, .keep), (32, .status(404), .keep),
            ]),
        Refresh(
            testDescription: "Empty and then gone are two things",
            steps: [
                (0, .empty, .keep), (6, .status(404), .keep), (12, .status(404), .gone), (18, .empty, .keep),
            ]),
    ]) func aListingLeavesOnlyWhenSaidTwice(_ refresh: Refresh) {
        var doubt: ListingDoubt?
        for (moment, trouble, expected) in refresh.steps {
            let verdict = ListingDoubt.settle(
                &doubt, trouble, apart: .seconds(5), now: .seconds(moment), date: Int64(moment))
            #expect(verdict == expected, "at \(moment)")
            #expect((doubt == nil) == (verdict == .believe), "at \(moment)")
        }
    }
}
