import ReelCore

/// The conditions of a request (RFC 9110, section 13), against the version that would be sent.
struct Preconditions {
    /// How a request goes on.
    enum Outcome {
        case send
        /// Status 304.
        case unchanged
        /// Status 412.
        case failed
    }

    /// nil if the origin gave nothing that names the version.
    var entityTag: EntityTag?
    /// Seconds since 1970, nil if the origin gave no date of the version.
    var modified: Int64?

    /// The outcome, in the order of RFC 9110, section 13.2.2.
    func outcome(_ request: ServedRequest) -> Outcome {
        if let tags = request["if-match"] {
            guard isNamed(in: tags, strongly: true) else { return .failed }
        } else if let modified, let date = request["if-unmodified-since"].flatMap({ httpDate($0) }), modified > date {
            return .failed
        }
        if let tags = request["if-none-match"] { return isNamed(in: tags, strongly: false) ? .unchanged : .send }
        let date = request["if-modified-since"].flatMap { httpDate($0) }
        if let modified, let date, modified <= date { return .unchanged }
        return .send
    }

    /// Whether a range may be answered as one: the client's part is of this version (`If-Range`).
    func allowsRange(_ request: ServedRequest) -> Bool {
        guard let condition = request["if-range"] else { return true }
        if let date = httpDate(condition) { return date == modified }
        guard let entityTag, !entityTag.isWeak else { return false }
        return condition == entityTag.header
    }

    /// - Parameter strongly: weak tags name no version then.
    private func isNamed(in tags: String, strongly: Bool) -> Bool {
        if trimmed(tags) == "*" { return true }
        guard let entityTag, !(strongly && entityTag.isWeak) else { return false }
        // A comma may stand in a tag, but not in this program's own.
        return tags.split(separator: ",").contains { word in
            EntityTag(String(word)).map { $0.isSame(as: entityTag) && !(strongly && $0.isWeak) } ?? false
        }
    }
}
