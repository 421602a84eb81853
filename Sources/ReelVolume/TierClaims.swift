import ReelCore
import ReelThreads

/// Says which mount of a fleet fetches what the tier lacks: the first one that writes a claim. The others wait a moment
/// for its slices, so that mounts that play a film at once fetch it once.
///
/// A claim is an object of a few bytes whose age counts, by the service's own clock; an old one is taken over. Where
/// the service knows no conditional PUT, each mount fetches.
final class TierClaims: Sendable {
    typealias Answer = @Sendable (_ isOthers: Bool) -> Void

    private struct Known {
        var isOthers: Bool
        /// On the clock of `now()`.
        var end: Duration
    }

    private struct State {
        var known: [String: Known] = [:]
        var asking: [String: [Answer]] = [:]
        var isUseless = false
    }

    /// Of a claim: what a mount has not written after so long it may never write.
    fileprivate static let life = Duration.seconds(10)
    /// A hundred bytes each.
    private static let mostKnown = 1000

    private let place: TierPlace
    private let origin: any Origin
    private let state = Lock(State())

    init(_ place: TierPlace, _ origin: any Origin) { (self.place, self.origin) = (place, origin) }

    /// Finds out whether another mount is about to fetch the slices of a claim, and claims them if not. Calls back at
    /// once, or on the thread of the tier's transport.
    func find(_ name: String, isDemanded: Bool, _ answer: @escaping Answer) {
        let moment = now()
        let (known, isFirst) = state.withLock { state -> (Bool?, Bool) in
            if state.isUseless { return (false, false) }
            if let known = state.known[name], moment < known.end { return (known.isOthers, false) }
            state.asking[name, default: []].append(answer)
            return (nil, state.asking[name]!.count == 1)
        }
        if let known { return answer(known) }
        guard isFirst else { return }
        guard let url = place.root.child(Array(name.utf8), query: nil) else { return settle(name, isOthers: false) }
        ClaimRequest(url, name, isDemanded: isDemanded, self).write(isConditional: true)
    }

    /// Whether it was asked for a moment ago.
    func knows(_ name: String) -> Bool {
        let moment = now()
        return state.withLock { $0.known[name].map { moment < $0.end + Self.life } ?? false }
    }

    /// Waiting for the other mount was in vain.
    func giveUp(_ name: String) { settle(name, isOthers: false) }

    fileprivate func settle(_ name: String, isOthers: Bool, isUseless: Bool = false) {
        // That of another one may end at any moment.
        let end = now() + (isOthers ? Self.life / 20 : Self.life)
        let waiting = state.withLock { state in
            if isUseless { state.isUseless = true }
            if state.known.count >= Self.mostKnown { state.known = [:] }
            state.known[name] = Known(isOthers: isOthers, end: end)
            return state.asking.removeValue(forKey: name) ?? []
        }
        for answer in waiting { answer(isOthers) }
    }

    fileprivate func send(_ request: OriginRequest, to receiver: ClaimRequest) {
        origin.start(place.source.request(request), receiver)
    }
}

/// Some bytes, as not each service keeps an object without any.
private final class ClaimBody: UploadBody {
    private static let bytes = Array("claimed\n".utf8)

    var length: Int64 { Int64(Self.bytes.count) }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int? {
        let rest = Self.bytes.dropFirst(Int(offset)).prefix(buffer.count)
        buffer.copyBytes(from: rest)
        return rest.count
    }
}

/// Writes a claim, or looks how old the one is that stands there.
///
/// `@unchecked Sendable`: one request after another, whose receiver alone changes it.
private final class ClaimRequest: OriginReceiver, @unchecked Sendable {
    private enum Step { case claim, look, takeOver }

    private let url: ResourceURL
    private let name: String
    private let isDemanded: Bool
    private let claims: TierClaims
    private var step = Step.claim
    /// Seconds; nil: the service tells no dates.
    private var age: Int64?

    init(_ url: ResourceURL, _ name: String, isDemanded: Bool, _ claims: TierClaims) {
        (self.url, self.name, self.isDemanded, self.claims) = (url, name, isDemanded, claims)
    }

    private var request: OriginRequest {
        OriginRequest(url: url, isDemanded: isDemanded, reason: .ahead, stallLimit: Tier.longestSilence)
    }

    func write(isConditional: Bool) {
        var request = request
        (request.method, request.upload) = ("PUT", ClaimBody())
        request.accepted = [200, 201, 204]
        if isConditional { request.condition = .ifChanged(entityTag: "*", lastModified: nil) }
        step = isConditional ? .claim : .takeOver
        claims.send(request, to: self)
    }

    private func look() {
        var request = request
        request.accepted = [200]
        step = .look
        claims.send(request, to: self)
    }

    func head(_ head: ResponseHead) -> OriginFailure? {
        if step == .look, let date = head["date"].flatMap({ httpDate($0) }), let written = head.lastModified {
            age = max(0, date - written)
        }
        return nil
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer { step == .look ? .stop : .more }

    func ended(_ failure: OriginFailure?) {
        switch (step, failure) {
        case (.claim, .status(409, _)?), (.claim, .status(412, _)?): look()
        case (.claim, .status(400, _)?), (.claim, .status(501, _)?):
            claims.settle(name, isOthers: false, isUseless: true)
        case (.look, _) where age.map({ Duration.seconds($0) < TierClaims.life }) == true:
            claims.settle(name, isOthers: true)
        case (.look, _) where age != nil: write(isConditional: false)
        default: claims.settle(name, isOthers: false)
        }
    }
}
