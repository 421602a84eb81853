import ReelCore

/// The places to which URLs were last redirected, so that not each block of a film follows the redirect again. It keeps
/// the most recently used ones.
struct RedirectMemory {
    /// Some hundred bytes each, 16 KiB at most.
    private let limit: Int
    private var places: [String: (place: ResourceURL, use: UInt64)] = [:]
    private var clock: UInt64 = 0

    init(limit: Int = 1024) { self.limit = limit }

    /// The place to ask instead of the request's own URL, nil if none. A request that asks whether the resource has
    /// changed goes to its own URL: the remembered place may hold an older version. So does one for a listing, a list
    /// or a key: a login page looks like any other, and would be asked for from then on.
    mutating func place(for request: OriginRequest) -> ResourceURL? {
        if case .ifChanged = request.condition { return nil }
        let text = request.url.text
        guard request.isReading, request.reason != .listing, let known = places[text] else { return nil }
        clock += 1
        places[text] = (known.place, clock)
        return known.place
    }

    /// Remembers that `place` answered the request, without credentials: the transport decides those for each request.
    mutating func remember(_ place: ResourceURL, for request: OriginRequest) {
        guard request.isReading, request.reason != .listing else { return }
        let text = request.url.text
        guard place.text != text else { return forget(text) }
        clock += 1
        places[text] = (place.with(credentials: nil), clock)
        guard places.count > limit else { return }
        // An eighth at once, so that one search for the oldest serves many insertions.
        let surplus = places.count - limit + limit / 8
        let oldest = places.values.map(\.use).sorted()[surplus - 1]
        places = places.filter { $0.value.use > oldest }
    }

    mutating func forget(_ text: String) { places[text] = nil }
}
