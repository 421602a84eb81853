import ReelCache
import ReelCore

extension Services {
    /// When a resource was last confirmed of which the origin has said something else since: a moment that is never
    /// fresh.
    static let doubted: Int64 = 0

    /// The origin contradicts what is remembered of a resource: who looks next asks it anew.
    func doubt(_ url: ResourceURL) {
        guard let known = store.information(for: url.text), known.checkedAt != Services.doubted else { return }
        store.remember(known.information, for: url.text, checkedAt: Services.doubted)
    }
}

extension OriginFailure {
    /// The origin has answered, and not as one that still has what it told of: another version, nothing at all, no
    /// access, or an answer that does not fit. Its own ill health is no contradiction.
    var isContradiction: Bool {
        switch self {
        case .changed, .wrongAnswer, .status(401, _), .status(403, _), .status(404, _), .status(410, _),
            .status(416, _):
            true
        case .status, .unreachable, .interrupted, .timedOut, .untrusted, .away, .cancelled: false
        }
    }
}
