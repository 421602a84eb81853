import ReelCore

/// Gathers a listing's children: each once, with what any of its links says of it.
struct ListingMerge: Sendable {
    private var entries: EntryList.Builder
    private var names = UniqueNames()
    /// The index of a child whose entry could not get the origin's name for it.
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

    private let folder: ResourceURL

    /// - Parameters:
    ///   - folder: whose children they are, its path ending in `/`.
    ///   - limit: entries.
    init(of folder: ResourceURL, limit: Int) {
        self.folder = folder
        entries = EntryList.Builder(limit: limit)
    }

    mutating func add(_ link: ListingLink, _ facts: ListingFacts, tag: EntryTag? = nil) {
        links += 1
        let namesake = entries.place(of: link.name)
        if let place = place(of: link, namesake) {
            return entries.complete(place, length: link.isDirectory ? nil : facts.length, modified: facts.modified)
        }
        // No other entry can have a name that needs no change, and is no other's now.
        let isFree = namesake == nil && SafeName.isPlain(link.name)
        let safe = SafeName.make(link.name)
        let name = isFree ? safe : names.claim(safe, beside: entries)
        let place = entries.count
        let isTaken = entries.append(
            name, below: folder, link.suffix, isDirectory: link.isDirectory,
            length: link.isDirectory ? nil : facts.length, modified: facts.modified, tag: tag)
        guard isTaken else { return isTooLarge = true }
        if !isFree, !name.utf8.elementsEqual(link.name) {
            renamed[Key(name: link.name, isDirectory: link.isDirectory)] = place
            renamedPlaces.insert(place)
        }
    }

    /// - Parameter namesake: the entry that has the link's name.
    private func place(of link: ListingLink, _ namesake: Int?) -> Int? {
        if !renamed.isEmpty, let place = renamed[Key(name: link.name, isDirectory: link.isDirectory)] { return place }
        // An entry that was renamed has its name from another child.
        guard let place = namesake, entries.isDirectory(at: place) == link.isDirectory,
            !renamedPlaces.contains(place)
        else { return nil }
        return place
    }

    var count: Int { entries.count }

    func list() -> EntryList { entries.list() }
}
