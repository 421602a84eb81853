import ReelCore
import ReelThreads

/// What is known of the versions that mirrors have. Of each version it is found out once.
///
///     unknown ──question──▶ asked ──same──▶ agrees
///        ▲                    │ └──other──▶ differs
///        └────no answer───────┘
///
/// The version that a mirror has alone (`Validator.mirror`) is another subject than the source's, and the question is
/// asked of the source: whether it has the bytes that the mirror gave.
struct MirrorClaims: Sendable {
    /// What is known of one version of a file at one mirror.
    enum Standing: Sendable {
        case unknown
        /// - Parameter validator: the mirror's own, which its conditions compare.
        case agrees(Validator)
        case differs

        var isUnknown: Bool { if case .unknown = self { true } else { false } }
        var isOther: Bool { if case .differs = self { true } else { false } }
    }

    /// At one place.
    struct Claim {
        var standing = Standing.unknown
        /// The validator of the mirror's last answer that agrees.
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

    /// Versions of files of which something is known at a mirror.
    var count: Int { claims.count }

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
}
