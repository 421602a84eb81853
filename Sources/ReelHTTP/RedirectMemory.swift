import ReelCore

/// Where URLs were last redirected to: the most recently used ones, so that each block of a film need not ask again.
struct RedirectMemory {
    let capacity: Int
    private var places: [String: (place: ResourceURL, use: UInt64)] = [:]
    private var clock: UInt64 = 0

    /// - Parameter capacity: some hundred bytes each.
    init(capacity: Int = 1024) {
        self.capacity = capacity
    }

    var count: Int { places.count }

    /// - Parameter text: `ResourceURL.text` of what was asked for.
    mutating func place(for text: String) -> ResourceURL? {
        guard let known = places[text] else { return nil }
        clock += 1
        places[text] = (known.place, clock)
        return known.place
    }

    /// Credentials of `place` are not kept: they are decided for each request.
    mutating func remember(_ place: ResourceURL, for text: String) {
        clock += 1
        places[text] = (place.with(credentials: nil), clock)
        guard places.count > capacity else { return }
        // An eighth at once, so that the search for the oldest is paid for by many insertions.
        let limit = places.values.map(\.use).sorted()[max(1, capacity / 8) - 1]
        places = places.filter { $0.value.use > limit }
    }

    mutating func forget(_ text: String) { places[text] = nil }
}
