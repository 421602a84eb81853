import ReelCore

extension EntryList {
    /// The same entries, those of these URLs with an extension after their names.
    func extended(_ extensions: [String: String]) -> EntryList {
        let new = Dictionary(
            uniqueKeysWithValues: indices.compactMap { place in extensions[url(at: place).text].map { (place, $0) } })
        if new.isEmpty { return self }
        var (taken, names) = (Builder(), UniqueNames())
        var given: [Int: String] = [:]
        // A name without an extension makes way for one that has its own.
        for place in indices.filter({ new[$0] == nil }) + new.keys.sorted() {
            var entry = self[place]
            if let suffix = new[place] { entry.name = SafeName.make(Array("\(entry.name).\(suffix)".utf8)) }
            given[place] = names.claim(entry.name, beside: taken)
            entry.name = given[place]!
            taken.append(entry)
        }
        return EntryList(
            indices.lazy.map { place in
                var entry = self[place]
                entry.name = given[place]!
                return entry
            })
    }

    /// The same entries, those whose URLs an older list has under their names from there: a name once given stays, also
    /// where a title changes or an entry before it goes.
    package func named(as older: EntryList) -> EntryList {
        var given = indices.map { name(at: $0) }
        // Of each URL the places in the older list, the last one first.
        var places: [ExactText: [Int]] = [:]
        for place in older.indices.reversed() {
            places[ExactText(older.url(at: place).text), default: []].append(place)
        }
        // In it the names are unique before all are in their places.
        var (taken, names) = (Builder(), UniqueNames())
        func claim(_ name: String, _ place: Int) {
            given[place] = names.claim(name, beside: taken)
            taken.append(SourceEntry(name: given[place], url: url(at: place), isDirectory: isDirectory(at: place)))
        }
        var rest: [Int] = []
        for place in indices {
            if let known = places[ExactText(url(at: place).text)]?.popLast() {
                claim(older.name(at: known), place)
            } else {
                rest.append(place)
            }
        }
        for place in rest { claim(given[place], place) }
        return EntryList(
            indices.lazy.map { place in
                var entry = self[place]
                entry.name = given[place]
                return entry
            })
    }
}
