import Logging
import ReelCore
import ReelSources
import ReelThreads

/// Where the bytes of a source's files can come from: the source itself, a shared cache in front of it, and its mirrors
/// in the user's order.
///
/// A mirror serves a file only where it agrees with what is known of the file (`MirrorClaims`). The first who asks
/// finds it out; all others wait for that answer. A shared cache is the way to the source that is tried first: each of
/// its answers is compared with the version, and no bytes of it, as they are the source's own.
final class Mirrors: Sendable {
    /// A place of the source: 0 is the source itself, and behind it are the shared cache, where there is one, and the
    /// mirrors.
    typealias Place = Int

    /// How one place does.
    private struct Record {
        /// On the clock of `now()`: until then the others are asked before it.
        var avoidedUntil = Duration.zero
        /// Requests under way.
        var running = 0
        var bytes: Int64 = 0
        /// Versions that it has otherwise, and the last of them.
        var leftOut = 0
        var lastLeftOut: String?
        /// Of the shared cache alone.
        var shared = SharedCache.Tally()
    }

    private struct State {
        var claims = MirrorClaims()
        /// Of each place.
        var records: [Record]
    }

    /// After which the next place is asked, where there is one: a reader that waits has its bytes within a second and
    /// a half.
    static let longestSilence = Duration.seconds(1)
    private let source: ResourceURL
    private let bases: [ResourceURL]
    /// nil: the source is asked without one.
    let shared: SharedCache?
    private let logger: Logger
    private let state: Lock<State>

    /// nil where there are none. - Parameter source: as the user names it; nil: a local list.
    init?(
        _ mirrors: [ResourceURL], via shared: SharedCache? = nil, of source: ResourceURL?, _ logger: Logger
    ) {
        guard let source, source.fileProtocol == nil else { return nil }
        let shared = shared?.knowing(source)
        let bases = (shared.map { [$0.base] } ?? []) + mirrors
        if bases.isEmpty { return nil }
        self.source = source
        self.bases = bases
        self.shared = shared
        self.logger = logger
        state = Lock(State(records: Array(repeating: Record(), count: bases.count + 1)))
    }

    // MARK: Places

    /// Where a place has a resource; nil where the resource is not of the source's tree.
    func url(of url: ResourceURL, at place: Place) -> ResourceURL? {
        guard place > 0 else { return url }
        if let shared, isShared(place) { return shared.place(of: url, in: source) }
        return url.movedUnsigned(from: source, to: bases[place - 1])
    }

    /// Whether it is the shared cache.
    func isShared(_ place: Place) -> Bool { place == 1 && shared != nil }

    /// How long a place that failed, or was too slow, is asked after the others, and how long a version of which a
    /// shared cache has another is not asked for there.
    private func avoidance(of place: Place) -> Duration { isShared(place) ? shared!.avoidance : .seconds(30) }

    /// The resource of the source that an answer of a mirror is about; nil: none.
    func original(of url: ResourceURL, at place: Place) -> ResourceURL? {
        url.moved(from: bases[place - 1], to: source)
    }

    /// Whether an origin is the shared cache's, and no other place's: the tree does without it.
    func onlyOfShared(_ origin: String) -> Bool {
        shared?.base.origin == origin && !([source] + bases.dropFirst()).contains { $0.origin == origin }
    }

    /// The places to ask for a resource, the best first.
    /// - Parameters:
    ///   - isWide: several requests at a time fetch for one reader, who is not served fast enough by fewer.
    ///   - version: of the file; nil where it is not known.
    ///   - mayMirror: a mirror may answer.
    ///   - isAway: of an origin.
    func places(
        for request: OriginRequest, _ version: ContentInformation?, isWide: Bool, mayMirror: Bool = true,
        isAway: (String) -> Bool
    ) -> [Place] {
        let moment = now()
        let urls = (0...bases.count).map { url(of: request.url, at: $0) }
        let away = urls.map { $0.map { isAway($0.origin) } ?? true }
        let isSpread = isWide && (request.reason == .demand || request.reason == .ahead)
        // Only the source knows whether a version is the present one.
        let isSharedFirst = request.reason != .probe
        return state.withLock { state in
            let places = urls.indices.filter { place in
                guard let url = urls[place] else { return false }
                if place == 0 { return true }
                if isShared(place) {
                    guard request.isReading, mayMirror || request.reason != .listing else { return false }
                } else {
                    // The members that an answer to another method names lie where it was asked.
                    guard mayMirror, request.isReading || url.path == request.url.path else { return false }
                }
                guard let version else { return true }
                let subject = MirrorClaims.Subject(request.url, version)
                if case .differs = state.claims.with(subject, place, { $0.standing }) { return false }
                return true
            }
            let sorted = places.sorted { one, other in
                func rank(_ place: Place) -> (Int, Duration, Int, Int) {
                    let record = state.records[place]
                    let avoided = record.avoidedUntil > moment ? record.avoidedUntil : .zero
                    let share = isShared(place) && isSharedFirst ? -1 : isSpread ? record.running : 0
                    return (away[place] ? 1 : 0, avoided, share, place)
                }
                return rank(one) < rank(other)
            }
            // The request beside which this one is made went to the first of them.
            return request.reason == .hedge && sorted.count > 1 ? sorted[1...] + [sorted[0]] : sorted
        }
    }

    /// Whether any mirror may have this version.
    func serve(_ file: ResourceURL, _ version: ContentInformation) -> Bool {
        guard version.isProven(by: version) else { return false }
        return (1...bases.count).contains { place in
            guard !isShared(place), url(of: file, at: place) != nil else { return false }
            if case .differs = standing(of: file, version, at: place) { return false } else { return true }
        }
    }

    // MARK: What comes of them

    func began(at place: Place) { state.withLock { $0.records[place].running += 1 } }

    /// - Parameter isUnwell: the place failed in a way that concerns more than one resource.
    func ended(at place: Place, bytes: Int64, isUnwell: Bool) {
        if isUnwell { avoid(place) }
        state.withLock { state in
            state.records[place].running -= 1
            state.records[place].bytes += bytes
        }
    }

    /// The place failed, or another one was faster than it.
    func avoid(_ place: Place) {
        state.withLock { $0.records[place].avoidedUntil = now() + avoidance(of: place) }
    }

    /// An origin answers again: where it is the shared cache's, that is asked first from now on.
    /// - Parameter origin: `ResourceURL.origin`.
    func isBack(_ origin: String) {
        if shared?.base.origin == origin { state.withLock { $0.records[1].avoidedUntil = .zero } }
    }

    /// The shared cache answered.
    func tally(_ head: ResponseHead, at place: Place) {
        if isShared(place) { state.withLock { $0.records[place].shared.add(head) } }
    }

    // MARK: Agreement

    /// What is known of a version at a mirror, without a question.
    func standing(of url: ResourceURL, _ version: ContentInformation, at place: Place) -> MirrorClaims.Standing {
        withClaim(url, version, place) { $0.standing }
    }

    /// Finds out whether a mirror has this version of a file.
    /// - Parameters:
    ///   - place: 0: whether the source has what a mirror gave.
    ///   - ask: finds it out, and calls `settle` at its end; not called where it is known, or asked already.
    ///   - completion: called at once, or from `settle`.
    func find(
        _ url: ResourceURL, _ version: ContentInformation, at place: Place, ask: () -> Void,
        _ completion: @escaping @Sendable (MirrorClaims.Standing) -> Void
    ) {
        let (known, isFirst) = withClaim(url, version, place) { claim -> (MirrorClaims.Standing?, Bool) in
            if !claim.isAsked, !claim.standing.isUnknown { return (claim.standing, false) }
            defer { claim.isAsked = true }
            claim.waiting.append(completion)
            return (nil, !claim.isAsked)
        }
        if let known { return completion(known) }
        if isFirst { ask() }
    }

    /// The question of `find` is answered. - Parameter isSame: nil: there was no answer.
    func settle(_ url: ResourceURL, _ version: ContentInformation, at place: Place, isSame: Bool?) {
        let (waiting, settled) = withClaim(url, version, place) { claim in
            defer { (claim.isAsked, claim.waiting) = (false, []) }
            // That the source agrees says nothing of what mirrors give next without a proof.
            if isSame == true, place > 0 { claim.standing = .agrees(claim.validator) }
            return (claim.waiting, claim.standing)
        }
        for waiter in waiting { waiter(settled) }
    }

    /// The head of a mirror's answer agrees with the version.
    /// - Parameters:
    ///   - validator: of the answer.
    ///   - unproven: the bytes that are believed without a comparison; nil: none.
    func agreed(
        _ url: ResourceURL, _ version: ContentInformation, at place: Place, _ validator: Validator,
        unproven: ByteRange? = nil
    ) {
        let subject = MirrorClaims.Subject(url, version)
        state.withLock { state in
            state.claims.with(subject, place) { claim in
                claim.validator = validator
                // A question under way compares more than the head.
                if !claim.isAsked, claim.standing.isUnknown { claim.standing = .agrees(validator) }
            }
            if let unproven { state.claims.trust(subject, with: unproven) }
        }
    }

    /// The bytes of a mirror that are still to be compared with the source's; nil: none.
    func unproven(_ url: ResourceURL, _ version: ContentInformation) -> ByteRange? {
        state.withLock { $0.claims.unproven(MirrorClaims.Subject(url, version)) }
    }

    /// The source has, or has not, what mirrors gave: those that were believed are left out where it has other bytes.
    func settleUnproven(_ url: ResourceURL, _ version: ContentInformation, isSame: Bool) {
        state.withLock { $0.claims.forgetUnproven(MirrorClaims.Subject(url, version)) }
        if isSame { return }
        for place in 1...bases.count where !isShared(place) {
            if case .agrees = standing(of: url, version, at: place) {
                leaveOut(url, version, at: place, "its bytes are others")
            }
        }
    }

    /// A mirror has something else: it is not asked for this version any more. Said once in the log.
    func leaveOut(_ url: ResourceURL, _ version: ContentInformation, at place: Place, _ reason: String) {
        let isNews = state.withLock { state in
            let isNews = state.claims.with(MirrorClaims.Subject(url, version), place) { claim in
                if case .differs = claim.standing { return false }
                claim.standing = .differs
                claim.differsUntil = isShared(place) ? now() + avoidance(of: place) : .zero
                defer { claim.isTold = true }
                return !claim.isTold
            }
            if isNews {
                state.records[place].leftOut += 1
                state.records[place].lastLeftOut = "\(url): \(reason)"
            }
            return isNews
        }
        guard isNews else { return }
        let kind = isShared(place) ? "shared cache" : "mirror"
        logger.warning("\(url): the \(kind) \(bases[place - 1].origin) is left out: \(reason)")
    }

    private func withClaim<Value: Sendable>(
        _ url: ResourceURL, _ version: ContentInformation, _ place: Place,
        _ body: (inout MirrorClaims.Claim) -> Value
    ) -> Value {
        state.withLock { $0.claims.with(MirrorClaims.Subject(url, version), place, body) }
    }

    /// Versions of files of which something is known at a mirror.
    var claimCount: Int { state.withLock { $0.claims.count } }

    /// The places for `status`, the source first.
    var status: [VolumeStatus.Mirror] {
        let moment = now()
        return state.withLock { state in
            zip([source] + bases, state.records).enumerated().map { index, place in
                let (url, record) = place
                return VolumeStatus.Mirror(
                    isSource: index == 0, origin: url.origin, bytes: record.bytes,
                    isAvoided: record.avoidedUntil > moment,
                    leftOut: record.leftOut, lastLeftOut: record.lastLeftOut,
                    shared: isShared(index) ? record.shared : nil)
            }
        }
    }
}

extension ContentInformation {
    /// Whether bytes of one may stand for bytes of the other, although they come from another origin: length and strong
    /// tag agree, or length and date.
    package func isProven(by other: ContentInformation) -> Bool {
        guard let length, length == other.length else { return false }
        if let one = validator.entityTag, let two = other.validator.entityTag, !one.isWeak, !two.isWeak,
            one.isSame(as: two)
        {
            return true
        }
        guard let date = validator.lastModified else { return false }
        return date == other.validator.lastModified
    }
}
