import ReelCore

extension EntryList {
    /// The same entries, those whose URLs an older list has under their names from there: a name once given stays, also
    /// where a title changes or an entry before it goes.
    package func named(as older: EntryList) -> EntryList {
        var given = indices.map { name(at: $0) }
        // Of each URL the places in the older list, the last one first.
        var places: [ExactText: [Int]] = [:]
        for place in older.indices.reversed() {
            places[ExactText(older.url(at: place).text), default: []].append(place)
        }
        var taken = UniqueNames()
        var rest: [Int] = []
        for place in indices {
            let key = ExactText(url(at: place).text)
            if let known = places[key]?.popLast() {
                given[place] = taken.claim(older.name(at: known))
            } else {
                rest.append(place)
            }
        }
        for place in rest { given[place] = taken.claim(given[place]) }
        return EntryList(
            indices.lazy.map { place in
                var entry = self[place]
                entry.name = given[place]
                return entry
            })
    }
}
