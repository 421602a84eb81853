import ReelCore

extension OriginRequest {
    /// The same request to another place, which gets its own headers and none of those that are for the original one.
    func moved(to place: ResourceURL, _ own: [(name: String, value: String)]) -> OriginRequest {
        var request = self
        let keepsHeaders = isPublic || place.isSameOrigin(as: url)
        request.url = place
        request.headers = (keepsHeaders ? headers : []) + own
        request.isPublic = false
        request.signed = nil
        request.expires = nil
        return request
    }
}

extension OriginRequest.Condition {
    /// The same condition for another place, which has a validator of its own; nil where that cannot be compared.
    func comparing(_ validator: Validator) -> OriginRequest.Condition? {
        switch self {
        case .ifRange: validator.ifRange.map { .ifRange($0) }
        case .ifChanged: validator.ifChanged
        }
    }
}

extension OriginStanding {
    var isAway: Bool { if case .away = self { true } else { false } }
}
