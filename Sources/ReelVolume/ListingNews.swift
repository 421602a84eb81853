import ReelCache
import ReelCore
import ReelSources

/// Compares a newer listing with what was shown of its files before.
///
/// A listing tells dates by the minute, an answer by the second. Where a listing says what is shown, as far as it
/// tells, what is shown stays.
struct ListingNews {
    private let entries: EntryList
    /// By place.
    private var kept: [Int: Int64] = [:]
    /// Files of which it says something else now: what the origin confirmed before is in doubt.
    private(set) var contradicted: [ResourceURL] = []

    init(_ entries: EntryList) { self.entries = entries }

    /// The newer listing, with the dates that stay.
    var list: EntryList { kept.isEmpty ? entries : entries.replacing(dates: kept) }

    /// - Parameter directory: whose listing the older one is.
    mutating func compare(_ older: EntryList, _ place: Int, _ directory: Directory) {
        guard !older.isDirectory(at: place) else { return }
        compare(older.name(at: place), directory.facts(of: place, in: older)) { older.url(at: place).text }
    }

    /// The same of a remembered entry.
    mutating func compare(_ stored: StoredEntry) {
        guard !stored.isDirectory else { return }
        compare(stored.name, Node.Facts(length: stored.length, modified: stored.modified)) { stored.url }
    }

    private mutating func compare(_ name: String, _ shown: Node.Facts, _ key: () -> String) {
        guard let place = entries.place(of: name), !entries.isDirectory(at: place) else { return }
        let told = Node.Facts(entries, at: place)
        guard told != shown else { return }
        let url = entries.url(at: place)
        if shown.agrees(with: told), ExactText(url.text) == ExactText(key()) {
            kept[place] = shown.modified
        } else {
            contradicted.append(url)
        }
    }
}
