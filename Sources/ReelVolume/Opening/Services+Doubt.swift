import ReelCache
import ReelCore

extension Services {
    /// The date of the last confirmation of information that the origin has contradicted; such information is never
    /// fresh.
    static let doubted: Int64 = 0

    /// The origin contradicts the remembered information of a resource: the next open asks the origin again.
    func doubt(_ url: ResourceURL) {
        joinedFiles?.forget(url)
        guard let known = store.information(for: url.text), known.checkedAt != Services.doubted else { return }
        store.remember(known.information, for: url.text, checkedAt: Services.doubted)
    }
}

extension OriginFailure {
    /// Whether the origin no longer has the resource as it told it before: it has another version or none, refuses
    /// access, or gives an answer that does not fit. Its own errors (5xx, a broken connection) are no contradiction.
    var isContradiction: Bool {
        switch self {
        case .changed, .wrongAnswer, .status(401, _), .status(403, _), .status(404, _), .status(410, _),
            .status(416, _):
            true
        case .status, .unreachable, .interrupted, .timedOut, .untrusted, .hostKey, .away, .unresolved, .cancelled:
            false
        }
    }
}
