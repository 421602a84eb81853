import ReelCore
import ReelThreads

/// Claims slices for this mount, or finds that another one has.
///
///     condition kept    write ──taken──▶ own
///                         └──refused──▶ look ──young──▶ whose words it holds
///                                        └──old──▶ write without the condition, wait, look
///     useless           look ──none, old──▶ write, wait, look
///                         └──young──▶ whose words it holds
///     unknown           as useless; a second write after the first shows which of them it is
///
/// `@unchecked Sendable`: one request after another, whose receiver alone changes it.
final class ClaimRequest: OriginReceiver, @unchecked Sendable {
    private enum Step {
        case look, write
        /// A condition that is kept refuses this one.
        case writeAgain
        /// After a write that nobody had to win.
        case lookAgain
    }

    private let url: ResourceURL
    private let name: String
    /// The handle of the request that the claim is for: it has the same part of the line.
    private let owner: RequestHandle
    private let isDemanded: Bool
    private let claims: TierClaims
    private var step = Step.look
    private var isConditional = false
    /// The service refused a write, perhaps for its condition.
    private var isRefused = false
    /// The age of the claim that was found, in seconds, nil if the service gives no dates; and the claim's content.
    private var age: Int64?
    private var words: [UInt8] = []
    /// Another mount takes at most this from its look to the end of its write, or twice what this one took.
    private static let leastTurn = Duration.milliseconds(250)
    /// Its look began, or its write where it looked at nothing.
    private var lookedAt = now()

    init(_ url: ResourceURL, _ name: String, for owner: RequestHandle, isDemanded: Bool, _ claims: TierClaims) {
        (self.url, self.name, self.owner) = (url, name, owner)
        (self.isDemanded, self.claims) = (isDemanded, claims)
    }

    func start() { if claims.condition == .kept { write(isConditional: true) } else { look(.look) } }

    private var request: OriginRequest {
        OriginRequest(url: url, isDemanded: isDemanded, reason: .ahead, stallLimit: claims.place.patience)
    }

    private func look(_ step: Step) {
        (self.step, age, words) = (step, nil, [])
        if step == .look { lookedAt = now() }
        var request = request
        request.accepted = [200]
        claims.send(request, as: RequestHandle(for: owner), to: self)
    }

    private func write(_ step: Step = .write, isConditional: Bool) {
        (self.step, self.isConditional) = (step, isConditional)
        var request = request
        request.put(ClaimBody(claims.words), isConditional: isConditional)
        claims.send(request, as: RequestHandle(for: owner), to: self)
    }

    func head(_ head: ResponseHead) -> OriginFailure? {
        if let date = head["date"].flatMap({ httpDate($0) }), let written = head.lastModified {
            age = max(0, date - written)
        }
        return nil
    }

    func body(_ bytes: UnsafeRawBufferPointer) -> BodyAnswer {
        // One that is longer is nobody's.
        words += bytes.prefix(claims.words.count + 1 - words.count)
        return words.count > claims.words.count ? .stop : .more
    }

    func ended(_ failure: OriginFailure?) {
        switch (step, failure) {
        case (.look, let failure?) where failure.meaning.isMissing:
            write(isConditional: claims.condition != .useless)
        case (.look, nil), (.look, .cancelled?): found()
        case (.write, nil) where isConditional && claims.condition == .kept: settle(isOthers: false)
        case (.write, nil) where isConditional && claims.condition == .unknown:
            write(.writeAgain, isConditional: true)
        case (.write, nil):
            if isRefused { claims.condition = .useless }
            lookInAMoment()
        case (.write, let failure?) where isConditional && failure.meaning.condition == .refused:
            claims.condition = .kept
            look(.look)
        case (.write, let failure?) where isConditional && failure.meaning.condition == .unknown:
            isRefused = true
            write(isConditional: false)
        case (.writeAgain, nil):
            claims.condition = .useless
            lookInAMoment()
        case (.writeAgain, let failure?) where failure.meaning.condition == .refused:
            claims.condition = .kept
            settle(isOthers: false)
        case (.lookAgain, nil), (.lookAgain, .cancelled?): settle(isOthers: words != claims.words)
        default: settle(isOthers: false)
        }
    }

    private func found() {
        guard let age else { return settle(isOthers: false) }
        if Duration.seconds(age) < TierClaims.life { return settle(isOthers: words != claims.words) }
        write(isConditional: false)
    }

    private func lookInAMoment() {
        claims.after(max(Self.leastTurn, (now() - lookedAt) * 2)) { [self] in
            look(.lookAgain)
        } atEnd: { [self] in
            settle(isOthers: false)
        }
    }

    private func settle(isOthers: Bool) { claims.settle(name, isOthers: isOthers) }
}

private final class ClaimBody: UploadBody {
    private let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var length: Int64 { Int64(bytes.count) }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int? {
        let rest = bytes.dropFirst(Int(offset)).prefix(buffer.count)
        buffer.copyBytes(from: rest)
        return rest.count
    }
}
