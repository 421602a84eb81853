import ReelCache
import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads
import TestKit
import Testing

@testable import ReelVolume

/// What each part of the program answers to each failure of a request. `ReadTests.failure` holds the errno of each
/// error of the volume, `DiagnosisTests.failure` what `doctor` advises, `RedirectTests` when a redirect is followed
/// again.
@Suite struct FailureTests {
    enum Answer: Hashable, Sendable {
        /// The pause of its `Retry-After` is kept.
        case waits
        /// A mirror is asked; the shared cache is.
        case mirror, sharedCache
        /// It counts as a failure of the origin, which is asked last for a while.
        case unwell
        /// What is remembered of the resource is doubted.
        case contradicted
        /// The resolver is asked for another place.
        case resolver
        /// Requests at a time become one.
        case fewer
        /// The circuit takes it for a sign of life, or for a refusal.
        case answered, refused
        /// To a conditional PUT: there is an object already, or the condition is not known.
        case refusedCondition, unknownCondition
        /// The tier lacks the object; the origin lacks the folder; its path may be a file's.
        case missingInTier, missingFolder, mayBeFile
        /// A doubt whether the file is still there ends.
        case otherAnswer
    }

    struct Row: Equatable, Sendable {
        var retries = 0
        var error: VolumeError
        var listing: ListingTrouble
        var answers: Set<Answer>
    }

    static let away: Set<Answer> = [.mirror, .sharedCache, .unwell]
    static let status: Set<Answer> = [.answered, .otherAnswer]

    static let failures: [(OriginFailure, Row)] = [
        (.unreachable("x"), Row(retries: 2, error: .unreachable, listing: .unreachable, answers: away + [.refused])),
        (.interrupted("x"), Row(retries: 6, error: .failed, listing: .cutShort, answers: away + [.mayBeFile])),
        (.timedOut, Row(retries: 6, error: .timedOut, listing: .timedOut, answers: away)),
        (.away(.unreachable), Row(error: .offline, listing: .unreachable, answers: away)),
        (.away(.offline), Row(error: .offline, listing: .unreachable, answers: [])),
        (.away(.silent), Row(error: .timedOut, listing: .timedOut, answers: away)),
        (.untrusted("x"), Row(error: .failed, listing: .failed, answers: away + [.answered])),
        (.hostKey("x"), Row(error: .failed, listing: .failed, answers: [.unwell, .answered])),
        (
            .wrongAnswer("x"),
            Row(error: .failed, listing: .failed, answers: status + [.mirror, .sharedCache, .contradicted])
        ),
        (.changed, Row(error: .stale, listing: .failed, answers: status + [.contradicted])),
        (.unresolved, Row(error: .accessDenied, listing: .failed, answers: [.mirror, .sharedCache])),
        (.noLogin, Row(error: .accessDenied, listing: .failed, answers: [.mirror, .sharedCache])),
        (.cancelled, Row(error: .failed, listing: .failed, answers: [])),
    ]

    static let statuses: [([Int], retries: Int, VolumeError, Set<Answer>)] = [
        ([200, 304, 402, 405, 418, 451, 499], 0, .failed, status),
        ([400], 0, .failed, status + [.unknownCondition]),
        ([401, 403], 0, .accessDenied, status + [.contradicted, .resolver]),
        (
            [404, 410], 0, .stale,
            [.answered, .mirror, .contradicted, .resolver, .missingFolder, .missingInTier, .mayBeFile]
        ),
        ([409, 412], 0, .failed, status + [.refusedCondition]),
        ([416], 0, .failed, status + [.contradicted]),
        ([423, 425], 6, .failed, status + [.waits, .mirror, .sharedCache]),
        ([429, 503], 6, .failed, status + away + [.waits, .fewer]),
        ([408, 500, 502, 504, 507, 599, 600, 999], 6, .failed, status + away + [.waits]),
        ([501], 0, .failed, status + [.mirror, .sharedCache, .unknownCondition]),
    ]

    static let rows =
        failures
        + statuses.flatMap { numbers, retries, error, answers in
            numbers.map { number -> (OriginFailure, Row) in
                let row = Row(retries: retries, error: error, listing: .status(number), answers: answers)
                return (.status(number, retryAfter: nil), row)
            }
        }

    @Test(arguments: rows) func eachFailureIsAnsweredAsTheTableSays(failure: OriginFailure, row: Row) throws {
        let found = try Row(
            retries: Self.retries(failure), error: VolumeError(failure), listing: ListingTrouble(failure),
            answers: Self.answers(failure))
        #expect(
            found == row,
            "missing \(row.answers.subtracting(found.answers)), added \(found.answers.subtracting(row.answers))")
    }

    @Test func theTableHasEachCase() {
        func name(_ failure: OriginFailure) -> String {
            switch failure {
            case .unreachable, .interrupted, .timedOut, .status, .wrongAnswer, .untrusted, .hostKey, .changed, .away,
                .unresolved, .noLogin, .cancelled:
                String("\(failure)".prefix { $0 != "(" })
            }
        }
        #expect(Set(Self.rows.map { name($0.0) }).count == 12)
    }

    // MARK: The answers

    private static let film = ResourceURL("http://a/film.mkv")!

    private static func retries(_ failure: OriginFailure) -> Int {
        (1...20).prefix { RetryPolicy.pause(after: failure, attempt: $0, random: 0.5) != nil }.count
    }

    private static func answers(_ failure: OriginFailure) throws -> Set<Answer> {
        var answers: Set<Answer> = []
        if case .status(let status, _) = failure {
            let asked = OriginFailure.status(status, retryAfter: .seconds(77))
            if RetryPolicy.pause(after: asked, attempt: 1, random: 0.5) == .seconds(77) { answers.insert(.waits) }
        }
        try withServices(VolumeOptions(mirrors: [ResourceURL("http://b/")!])) { services, origin, store in
            if isSentAgain(.head, services, origin, failure) { answers.insert(.mirror) }
            if services.upstream.origins.failures["http://a"] == 1 { answers.insert(.unwell) }
            try addDoubt(to: &answers, services, store, failure)
        }
        try withServices(VolumeOptions(via: SharedCache(ResourceURL("http://c/")!))) { services, origin, _ in
            // A probe asks the source first.
            if isSentAgain(.probe, services, origin, failure) { answers.insert(.sharedCache) }
            addTier(to: &answers, services, failure)
        }
        let finder = ScriptedFinder { _, number in
            .success(PlaceAnswer(url: ResourceURL("http://d/\(number)")!))
        }
        try withServices(finder: finder) { services, origin, _ in
            if isSentAgain(.demand, services, origin, failure) { answers.insert(.resolver) }
        }
        var limit = ConcurrencyLimit()
        _ = limit.underrun(ObjectIdentifier(finder), rate: 5e6, now: .seconds(100))
        limit.ended(failure, now: .seconds(100))
        if limit.requests == 1 { answers.insert(.fewer) }
        if let lesson = lesson(failure) { answers.insert(lesson) }
        if ListingTrouble(failure).isMissing { answers.insert(.missingFolder) }
        if failure.maySayFile { answers.insert(.mayBeFile) }
        if FileOpener.isOtherAnswer(failure) { answers.insert(.otherAnswer) }
        return answers
    }

    /// Whether a request that failed is sent to another place.
    private static func isSentAgain(
        _ reason: OriginRequest.Reason, _ services: Services, _ origin: HeldOrigin, _ failure: OriginFailure
    ) -> Bool {
        let receiver = Ending()
        services.origin.start(OriginRequest(url: film, range: ByteRange(0, 4), reason: reason), receiver)
        #expect(eventually { origin.paths.count == 1 })
        origin.fail(0, failure)
        #expect(eventually { origin.paths.count == 2 || receiver.isOver })
        defer { origin.fail(1, .cancelled) }
        return origin.paths.count == 2
    }

    private static func addDoubt(
        to answers: inout Set<Answer>, _ services: Services, _ store: Store, _ failure: OriginFailure
    ) throws {
        let information = ContentInformation(length: 1000, validator: Validator(entityTag: nil, lastModified: 1))
        store.remember(information, for: film.text, checkedAt: 1)
        let files = FileTable(services)
        let file = try #require(try files.openNow(film, information))
        // Of a stream that it does not have.
        file.ended(7, failure, of: film)
        if store.information(for: film.text)?.checkedAt == Services.doubted { answers.insert(.contradicted) }
        files.close(file)
    }

    private static func addTier(to answers: inout Set<Answer>, _ services: Services, _ failure: OriginFailure) {
        let address = S3Address("s3://shared/films", endpoint: ResourceURL("http://bucket/")!)!
        let place = TierPlace(address, name: "shared", seal: TierSeal(key: nil, bucket: address.name)) { _ in nil }
        // A claim is looked for, and written where there is none.
        func ask(_ failures: OriginFailure...) -> (sent: Int, condition: TierClaims.Condition) {
            let origin = HeldOrigin()
            defer { origin.stop() }
            let claims = TierClaims(place, origin, services.ticker)
            let isSettled = Gate()
            claims.find("claim", for: RequestHandle(), isDemanded: true) { _ in isSettled.open() }
            for (number, failure) in failures.enumerated() {
                origin.fail(number, failure)
                #expect(eventually { origin.paths.count > number + 1 || isSettled.wait(within: .zero) })
            }
            return (origin.paths.count, claims.condition)
        }
        if ask(failure).sent == 2 { answers.insert(.missingInTier) }
        let write = ask(.status(404, retryAfter: nil), failure)
        if write.condition == .kept {
            answers.insert(.refusedCondition)
        } else if write.sent == 3 {
            // Once more, without the condition.
            answers.insert(.unknownCondition)
        }
    }

    /// What the circuit learns.
    private static func lesson(_ failure: OriginFailure) -> Answer? {
        var circuit = Circuit(deadline: .seconds(10))
        for moment in [Duration.seconds(0), .seconds(1)] {
            _ = circuit.ask(moment)
            _ = circuit.ended(failure, now: moment)
        }
        if circuit.outage == .unreachable { return .refused }
        circuit = Circuit(deadline: .seconds(10))
        _ = circuit.ask(.zero)
        for moment in [Duration.seconds(3), .seconds(11)] { _ = circuit.tick(moment) }
        #expect(circuit.outage == .silent)
        return circuit.probed(failure, took: .zero, now: .seconds(12)) == [.closed] ? .answered : nil
    }
}

private func + <Element>(one: Set<Element>, other: Set<Element>) -> Set<Element> { one.union(other) }

/// Waits for the end.
private final class Ending: OriginReceiver {
    private let over = Gate()

    var isOver: Bool { over.wait(within: .zero) }
    func head(_ head: ResponseHead) -> OriginFailure? { nil }
    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer { .more }
    func ended(_ failure: OriginFailure?) { over.open() }
}
