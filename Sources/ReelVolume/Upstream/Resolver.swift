import Logging
import ReelCore
import ReelThreads

/// Where the bytes of files come from now, by the user's resolver. One question at a time for a URL: all requests for
/// it wait for the same answer, which is kept until it ends or the place refuses.
///
///     unknown ──question──▶ asked ──answer──▶ known ──its end, or a refusal──▶ asked
///                             └──no answer──▶ as before
final class Resolver: Sendable {
    /// One answer of the resolver.
    struct Place: Sendable {
        let answer: PlaceAnswer
        /// On the clock of `now()`, nil if it has none.
        let end: Duration?
        /// Distinguishes answers for one URL.
        let number: UInt64
    }

    /// A place that does not serve the file any more.
    struct Refusal: Sendable {
        let number: UInt64
        let status: Int
    }

    /// A request that needs a place.
    struct Asker: Sendable {
        let handle: RequestHandle
        let isDemanded: Bool
        let reason: OriginRequest.Reason

        /// Players go first, then the others that wait for bytes. It may change while the question stands in line.
        fileprivate var urgency: Int {
            guard isDemanded || handle.isPromoted else { return 0 }
            if handle.rank.isFirst { return 2 }
            return reason == .probe ? 0 : 1
        }
    }

    typealias Waiter = @Sendable (Place?) -> Void

    fileprivate struct Known {
        var place: Place?
        var waiting: [Waiter] = []
        var isAsked = false
        var use: UInt64 = 0
    }

    fileprivate struct Job {
        let question: PlaceQuestion
        var deadline: Duration
        var askers: [Asker]

        var urgency: Int { askers.map(\.urgency).max() ?? 0 }
    }

    fileprivate struct State {
        var known: [ExactText: Known] = [:]
        var jobs: [Job] = []
        var threads = 0
        var clock: UInt64 = 0
        var isStopped = false
    }

    /// Commands at once: a film, the next one, and a scanner beside them. Each may be an interpreter.
    private static let mostThreads = 4
    /// Answers to remember, of a kilobyte or two each.
    private static let mostKnown = 4096

    private let finder: any PlaceFinder
    private let limit: Duration
    private let logger: Logger
    private let state = Monitor(State())
    private let answered: @Sendable (ResourceURL, PlaceAnswer) -> Void

    /// - Parameters:
    ///   - timeout: of a read: the answer comes in half of it, so that the read fails because of the resolver and not
    ///     because of its own deadline.
    ///   - answered: called with each answer, before those that wait for it.
    init(
        _ finder: any PlaceFinder, timeout: Duration, _ logger: Logger,
        answered: @escaping @Sendable (ResourceURL, PlaceAnswer) -> Void
    ) {
        self.finder = finder
        limit = min(timeout / 2, .seconds(20))
        self.logger = logger
        self.answered = answered
    }

    /// Gives the place to ask for a file: at once if it is known, else on a thread of the resolver.
    /// - Parameters:
    ///   - refusal: that place is of no use any more.
    ///   - asker: nil where all others go first.
    ///   - completion: gets nil if the resolver gave no answer.
    func place(
        of url: ResourceURL, after refusal: Refusal? = nil, for asker: Asker? = nil, _ completion: @escaping Waiter
    ) {
        let moment = now()
        let (place, isNew, isOver) = state.withLock { state -> (Place?, Bool, Bool) in
            if state.isStopped { return (nil, false, true) }
            let key = ExactText(url.text)
            state.clock += 1
            state.known[key, default: Known()].use = state.clock
            let known = state.known[key]!
            if let place = known.place, !known.isAsked, place.end.map({ moment < $0 }) ?? true,
                refusal?.number != place.number
            {
                return (place, false, false)
            }
            state.known[key]!.waiting.append(completion)
            let askers = asker.map { [$0] } ?? []
            guard !known.isAsked else {
                if let job = state.jobs.firstIndex(where: { ExactText($0.question.url.text) == key }) {
                    state.jobs[job].askers += askers
                    // The newest one has all of its time. Those before it do not wait for longer than they may.
                    state.jobs[job].deadline = moment + limit
                }
                return (nil, false, false)
            }
            state.known[key]!.isAsked = true
            let reason: PlaceQuestion.Reason = known.place == nil ? .open : refusal == nil ? .expired : .failed
            let question = PlaceQuestion(url: url, reason: reason, status: refusal?.status)
            state.jobs.append(Job(question: question, deadline: moment + limit, askers: askers))
            state.forget(beyond: Self.mostKnown)
            defer { state.threads = min(state.threads + 1, Self.mostThreads) }
            return (nil, state.threads < Self.mostThreads, false)
        }
        if place != nil || isOver { return completion(place) }
        guard isNew else { return }
        if let thread = Thread("resolver", { [self] in work() }) { return thread.detach() }
        // Another thread takes the job; without any, all that wait fail.
        let isAlone = state.withLock { state in
            state.threads -= 1
            return state.threads == 0
        }
        if isAlone { failAll() }
    }

    /// Ends the questions; those that wait get no place.
    func stop() {
        state.withLock { $0.isStopped = true }
        finder.stop()
        state.wait { $0.threads == 0 ? () : nil }
        failAll()
    }

    // MARK: Threads

    private func work() {
        while let job = next() {
            let rest = job.deadline - now()
            let found =
                rest > .zero ? finder.find(job.question, within: rest) : .failure(PlaceFailure("it was not its turn"))
            end(job.question, found)
        }
    }

    private func next() -> Job? {
        state.withLock { state in
            let urgencies = state.jobs.map(\.urgency)
            // The oldest of the most urgent ones.
            guard !state.isStopped, let most = urgencies.max(), let index = urgencies.firstIndex(of: most) else {
                state.threads -= 1
                return nil
            }
            return state.jobs.remove(at: index)
        }
    }

    private func end(_ question: PlaceQuestion, _ found: Result<PlaceAnswer, PlaceFailure>) {
        let url = question.url
        var place: Place?
        switch found {
        case .success(let answer):
            answered(url, answer)
            let number = state.withLock { state in
                state.clock += 1
                return state.clock
            }
            place = Place(answer: answer, end: answer.lifetime.map { now() + $0 }, number: number)
        case .failure(let failure): logger.warning("\(url): the resolver gave no place: \(failure.reason)")
        }
        let waiting = state.withLock { [place] state -> [Waiter] in
            let key = ExactText(url.text)
            defer {
                state.known[key]?.isAsked = false
                state.known[key]?.waiting = []
                if let place { state.known[key]?.place = place }
            }
            return state.known[key]?.waiting ?? []
        }
        for waiter in waiting { waiter(place) }
    }

    private func failAll() {
        let waiting = state.withLock { state -> [Waiter] in
            defer {
                state.known = [:]
                state.jobs = []
            }
            return state.known.values.flatMap(\.waiting)
        }
        for waiter in waiting { waiter(nil) }
    }
}

extension Resolver.State {
    /// Forgets an eighth of the answers at once, those unused for longest.
    fileprivate mutating func forget(beyond limit: Int) {
        guard known.count > limit else { return }
        let oldest = known.values.map(\.use).sorted()[known.count - limit + limit / 8 - 1]
        known = known.filter { $0.value.isAsked || $0.value.use > oldest }
    }
}
