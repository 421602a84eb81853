import Logging
import ReelCore
import ReelSources
import ReelThreads

/// Where the bytes of a source's files can come from: the source itself, a shared cache in front of it, and its mirrors
/// in the user's order.
///
/// A mirror serves a version of the source only where it agrees with what is cached of it (`MirrorClaims`). The first
/// request finds it out; all others wait for that answer. Where nothing is cached to compare it with, what it has is a
/// version of its own (`Validator.mirror`), under which nothing of another place is kept before that has agreed: the
/// source neither. A shared cache is the way to the source that is tried first: each of
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
        /// The tally of the shared cache alone.
        var shared = SharedCache.Tally()
    }

    private struct State {
        var claims = MirrorClaims()
        /// The record of each place.
        var records: [Record]
    }

    /// The silence after which the next place is asked, if there is one: a reader that waits has its bytes within a
    /// second and a half.
    static let longestSilence = Duration.seconds(1)
    private let source: ResourceURL
    private let bases: [ResourceURL]
    /// `Validator.mirror` of each place's versions.
    private let marks: [Int64]
    /// nil if the source is asked without one.
    let shared: SharedCache?
    private let logger: Logger
    private let state: Lock<State>

    /// nil if there are none. - Parameter source: as the user names it; nil for a local list.
    init?(
        _ mirrors: [ResourceURL], via shared: SharedCache? = nil, of source: ResourceURL?, _ logger: Logger
    ) {
        guard let source, source.fileProtocol == nil else { return nil }
        let shared = shared?.knowing(source)
        let bases = (shared.map { [$0.base] } ?? []) + mirrors
        if bases.isEmpty { return nil }
        self.source = source
        self.bases = bases
        // Made of the URL, as it names versions in the cache for longer than the mount.
        let own = mirrors.map { Int64(inodeNumber(of: $0.text, in: 0) >> 2) + 1 }
        marks = [0] + (shared == nil ? [] : [0]) + own
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

    /// `Validator.mirror` of a place's versions; 0 for the source, and for a shared cache, whose bytes are the source's
    /// own.
    func mark(of place: Place) -> Int64 { marks[place] }

    /// The mirror whose version it is; nil if it is the source's, or if that mirror is not named any more.
    func place(of version: ContentInformation) -> Place? {
        version.validator.mirror == 0 ? nil : marks.firstIndex(of: version.validator.mirror)
    }

    /// Whether there are any beside a shared cache.
    var areSome: Bool { marks.contains { $0 != 0 } }

    /// How long a place that failed, or was too slow, is asked after the others, and how long a version of which a
    /// shared cache has another is not asked for there.
    private func avoidance(of place: Place) -> Duration { isShared(place) ? shared!.avoidance : .seconds(30) }

    /// The resource of the source that an answer of a mirror is about, nil if none.
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
                    // Whether the source has what a mirror gave, the source itself says.
                    guard version?.validator.mirror ?? 0 == 0 else { return false }
                    guard request.isReading, mayMirror || request.reason != .listing else { return false }
                } else {
                    // The members that an answer to another method names lie where it was asked.
                    guard mayMirror, request.isReading || url.path == request.url.path else { return false }
                }
                guard let version else { return true }
                let subject = MirrorClaims.Subject(request.resource, version)
                return !state.claims.with(subject, place) { $0.standing.isOther }
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

    /// Whether any mirror may have this version. - Parameter hasBytes: it can be compared with what is cached.
    func serve(_ file: ResourceURL, _ version: ContentInformation, hasBytes: Bool) -> Bool {
        guard version.isProven(by: version) else { return false }
        return (1...bases.count).contains { place in
            guard !isShared(place), url(of: file, at: place) != nil else { return false }
            switch standing(of: file, version, at: place) {
            case .agrees: return true
            case .unknown: return hasBytes || mark(of: place) == version.validator.mirror
            case .differs: return false
            }
        }
    }

    // MARK: What comes of them

    func began(at place: Place) { state.withLock { $0.records[place].running += 1 } }

    /// Counted before a reader has them, so that whoever has read them sees them in `status`.
    func took(_ bytes: Int64, from place: Place) { state.withLock { $0.records[place].bytes += bytes } }

    /// - Parameter isUnwell: the place failed in a way that concerns more than one resource.
    func ended(at place: Place, isUnwell: Bool) {
        if isUnwell { avoid(place) }
        state.withLock { $0.records[place].running -= 1 }
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

    /// Finds out whether a place has the bytes of this version of a file.
    /// - Parameters:
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

    /// The question of `find` is answered. - Parameter isSame: nil if there was no answer.
    func settle(_ url: ResourceURL, _ version: ContentInformation, at place: Place, isSame: Bool?) {
        let (waiting, settled) = withClaim(url, version, place) { claim in
            defer { (claim.isAsked, claim.waiting) = (false, []) }
            if isSame == true { claim.standing = .agrees(claim.validator) }
            return (claim.waiting, claim.standing)
        }
        for waiter in waiting { waiter(settled) }
    }

    /// The head of an answer agrees with the version, or decides it. - Parameter validator: as the answer had it.
    func agreed(_ url: ResourceURL, _ version: ContentInformation, at place: Place, _ validator: Validator) {
        withClaim(url, version, place) { claim in
            claim.validator = validator
            // A question under way compares more than the head.
            if !claim.isAsked, claim.standing.isUnknown { claim.standing = .agrees(validator) }
        }
    }

    /// The source has other bytes than a mirror gave under this version.
    /// - Parameter own: the version that the source has now.
    func contradicted(_ url: ResourceURL, _ version: ContentInformation, _ own: ContentInformation) {
        guard let place = place(of: version) else { return }
        withClaim(url, own, place) { ($0.standing, $0.isTold) = (.differs, true) }
    }

    /// A place has something else: it is not asked for this version any more. Said once in the log, of the mirror:
    /// where the source has something else, its mirror gave it wrongly.
    func leaveOut(_ url: ResourceURL, _ version: ContentInformation, at place: Place, _ reason: String) {
        let blamed = place > 0 ? place : self.place(of: version) ?? 0
        let isNews = state.withLock { state in
            let isNews = state.claims.with(MirrorClaims.Subject(url, version), place) { claim in
                if claim.standing.isOther { return false }
                claim.standing = .differs
                claim.differsUntil = isShared(place) ? now() + avoidance(of: place) : .zero
                defer { claim.isTold = true }
                return !claim.isTold
            }
            if isNews {
                state.records[blamed].leftOut += 1
                state.records[blamed].lastLeftOut = "\(url): \(reason)"
            }
            return isNews
        }
        guard isNews, blamed > 0 else { return }
        let kind = isShared(blamed) ? "shared cache" : "mirror"
        logger.warning("\(url): the \(kind) \(bases[blamed - 1].origin) is left out: \(reason)")
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
