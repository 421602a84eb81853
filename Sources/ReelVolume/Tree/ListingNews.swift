import ReelCache
import ReelCore
import ReelSources

/// Compares a newer listing with the facts that the mount has shown of its files.
///
/// A listing gives dates by the minute, an answer by the second. A file keeps the date that it shows if the listing
/// agrees with it to the minute. If both listings have entity tags of a file, another tag is another version.
struct ListingNews {
    private let entries: EntryList
    /// The dates that stay, by place.
    private var kept: [Int: Int64] = [:]
    /// The files for which it has other facts, and whether it has another length: information that the origin has
    /// confirmed of them is in doubt.
    private(set) var contradicted: [(url: ResourceURL, length: Bool)] = []

    init(_ entries: EntryList) { self.entries = entries }

    /// The newer listing, with the dates that stay.
    var list: EntryList { kept.isEmpty ? entries : entries.replacing(dates: kept) }

    /// Compares one entry of an older listing. - Parameter directory: the one that both list.
    mutating func compare(_ older: EntryList, _ place: Int, _ directory: Directory) {
        guard !older.isDirectory(at: place) else { return }
        compare(older.name(at: place), directory.facts(of: place, in: older), older.tag(at: place)) {
            older.url(at: place).text
        }
    }

    /// Compares a remembered entry.
    mutating func compare(_ stored: StoredEntry) {
        guard !stored.isDirectory else { return }
        compare(stored.name, Node.Facts(length: stored.length, modified: stored.modified), nil) { stored.url }
    }

    private mutating func compare(_ name: String, _ shown: Node.Facts, _ tag: EntryTag?, _ key: () -> String) {
        guard let place = entries.place(of: name), !entries.isDirectory(at: place) else { return }
        let told = Node.Facts(entries, at: place)
        let newTag = entries.tag(at: place)
        let isOther = tag != nil && newTag != nil && tag != newTag
        guard told != shown || isOther else { return }
        let url = entries.url(at: place)
        if !isOther, shown.agrees(with: told), ExactText(url.text) == ExactText(key()) {
            kept[place] = shown.modified
        } else {
            contradicted.append((url, told.length != nil && told.length != shown.length))
        }
    }
}
