import ReelCache
import ReelCore

extension Services {
    /// The date of the last confirmation, once the origin has contradicted it: never fresh.
    static let doubted: Int64 = 0

    /// The origin contradicts what is remembered of a resource: the next open asks the origin again.
    func doubt(_ url: ResourceURL) {
        guard let known = store.information(for: url.text), known.checkedAt != Services.doubted else { return }
        store.remember(known.information, for: url.text, checkedAt: Services.doubted)
    }
}

extension OriginFailure {
    /// The origin has answered that it no longer has what it told of: another version, nothing at all, no access, or an
    /// answer that does not fit. An error of its own (5xx, a broken connection) is no contradiction.
    var isContradiction: Bool {
        switch self {
        case .changed, .wrongAnswer, .status(401, _), .status(403, _), .status(404, _), .status(410, _),
            .status(416, _):
            true
        case .status, .unreachable, .interrupted, .timedOut, .untrusted, .away, .cancelled: false
        }
    }
}
