/// Gathers a listing's children: each once, with what any of its links told of it.
struct ListingMerge: Sendable {
    private var entries: EntryList.Builder
    private var names = UniqueNames()
    /// Where a child stands whose entry could not get the origin's name for it.
    private var renamed: [Key: Int] = [:]
    private var renamedPlaces: Set<Int> = []
    /// All that were added, a child's second link too.
    private(set) var links = 0
    /// There is one more than a listing may have: it is of no use.
    private(set) var isTooLarge = false

    private struct Key: Hashable, Sendable {
        var name: [UInt8]
        var isDirectory: Bool
    }

    init(limit: Int) { entries = EntryList.Builder(limit: limit) }

    mutating func add(_ link: ListingLink, _ facts: ListingFacts, tag: EntryTag? = nil) {
        links += 1
        if let place = place(of: link) {
            return entries.complete(place, length: link.isDirectory ? nil : facts.length, modified: facts.modified)
        }
        let name = names.claim(SafeName.make(link.name), beside: entries)
        let place = entries.count
        let isTaken = entries.append(
            SourceEntry(
                name: name, url: link.url, isDirectory: link.isDirectory,
                length: link.isDirectory ? nil : facts.length, modified: facts.modified), tag: tag)
        guard isTaken else { return isTooLarge = true }
        if !name.utf8.elementsEqual(link.name) {
            renamed[Key(name: link.name, isDirectory: link.isDirectory)] = place
            renamedPlaces.insert(place)
        }
    }

    private func place(of link: ListingLink) -> Int? {
        if !renamed.isEmpty, let place = renamed[Key(name: link.name, isDirectory: link.isDirectory)] { return place }
        // An entry that was renamed has its name from another child.
        guard let place = entries.place(of: link.name), entries.isDirectory(at: place) == link.isDirectory,
            !renamedPlaces.contains(place)
        else { return nil }
        return place
    }

    var count: Int { entries.count }

    func list() -> EntryList { entries.list() }
}
