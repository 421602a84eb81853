import ReelCore

/// Where URLs of one origin were last redirected to: the most recently used ones, so that each block of a film need not
/// ask again.
struct RedirectMemory {
    private var places: [String: (place: ResourceURL, use: UInt64)] = [:]
    private var clock: UInt64 = 0

    /// Where to ask instead of the request's own URL; nil: there. "Has it changed?" is asked where the resource lives:
    /// the remembered place may be an older version's.
    mutating func place(for request: OriginRequest) -> ResourceURL? {
        if case .ifChanged = request.condition { return nil }
        let text = request.url.text
        guard request.isReading, let known = places[text] else { return nil }
        clock += 1
        places[text] = (known.place, clock)
        return known.place
    }

    /// The request was answered at `place`. Credentials of it are not kept: they are decided for each request.
    /// - Parameter limit: places to keep, some hundred bytes each.
    mutating func remember(_ place: ResourceURL, for request: OriginRequest, atMost limit: Int) {
        guard request.isReading else { return }
        let text = request.url.text
        guard place.text != text else { return forget(text) }
        clock += 1
        places[text] = (place.with(credentials: nil), clock)
        guard places.count > limit else { return }
        // An eighth at once, so that the search for the oldest is paid for by many insertions.
        let surplus = places.count - limit + limit / 8
        let oldest = places.values.map(\.use).sorted()[surplus - 1]
        places = places.filter { $0.value.use > oldest }
    }

    mutating func forget(_ text: String) { places[text] = nil }
}
