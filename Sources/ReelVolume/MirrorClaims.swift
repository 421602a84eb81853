import ReelCore
import ReelThreads

/// What is known of the versions that mirrors have. Of each version it is found out once.
///
///     unknown ──question──▶ asked ──same──▶ agrees
///        ▲                    │ └──other──▶ differs
///        └────no answer───────┘
///
/// Where the cache has no byte of a version yet, length and validator have to do, and `unproven` remembers which bytes
/// a mirror gave: once the source answers, the question is asked of the source instead.
struct MirrorClaims: Sendable {
    /// What is known of one version of a file at one mirror.
    enum Standing: Sendable {
        case unknown
        /// - Parameter validator: the mirror's own, which its conditions compare.
        case agrees(Validator)
        case differs

        var isUnknown: Bool { if case .unknown = self { true } else { false } }
    }

    /// At one place.
    struct Claim {
        var standing = Standing.unknown
        /// Of the mirror's last answer that agrees.
        var validator = Validator(entityTag: nil, lastModified: nil)
        var isAsked = false
        var waiting: [@Sendable (Standing) -> Void] = []
        /// Where it differs: that it does is believed until then, and was said in the log.
        var differsUntil = Duration.zero
        var isTold = false
    }

    /// One version of a file.
    struct Subject: Hashable {
        let file: ExactText
        let version: ContentInformation

        init(_ url: ResourceURL, _ version: ContentInformation) {
            file = ExactText(url.text)
            self.version = ContentInformation(length: version.length, validator: version.validator)
        }
    }

    private struct Key: Hashable {
        var subject: Subject
        var place: Mirrors.Place
    }

    /// Some hundred bytes each. A table that is full forgets all: to find out again costs a block a file.
    private static let most = 4096

    private var claims: [Key: Claim] = [:]
    /// What a mirror gave first, where nothing was there to compare it with.
    private var unproven: [Subject: ByteRange] = [:]

    /// Versions of files of which something is known at a mirror.
    var count: Int { max(claims.count, unproven.count) }

    mutating func with<Value>(_ subject: Subject, _ place: Mirrors.Place, _ body: (inout Claim) -> Value) -> Value {
        let key = Key(subject: subject, place: place)
        if claims.count >= Self.most, claims[key] == nil { claims = claims.filter { $0.value.isAsked } }
        // What a shared cache has changes with time.
        if let until = claims[key]?.differsUntil, until != .zero, until <= now() {
            claims[key]!.standing = .unknown
            claims[key]!.differsUntil = .zero
        }
        return body(&claims[key, default: Claim()])
    }

    /// A mirror's answer agrees as far as length and validator go, and nothing else could be compared.
    mutating func trust(_ subject: Subject, with range: ByteRange) {
        if unproven.count >= Self.most { unproven = [:] }
        if unproven[subject] == nil { unproven[subject] = range }
    }

    /// The bytes to compare with the source's; nil: there are none, or that is under way.
    mutating func unproven(_ subject: Subject) -> ByteRange? {
        guard let range = unproven[subject], !with(subject, 0, { $0.isAsked }) else { return nil }
        return range
    }

    /// The mirrors that were believed were right, or are left out.
    mutating func forgetUnproven(_ subject: Subject) { unproven[subject] = nil }
}
