import ReelCore
import ReelSources

/// The order in which the files of a folder are played.
extension EntryList {
    /// The media files that come after one, nearest first: in a list the next entries, in a listing by name, as its
    /// order may be any. By place.
    func items(after name: String, isQueue: Bool, atMost count: Int) -> [Int] {
        if isQueue {
            guard let place = place(of: name) else { return [] }
            return Array(indices[(place + 1)...].lazy.filter(isItem).prefix(count))
        }
        // Names alone: whole entries of a long listing would be made on the kernel's thread.
        var next: [(place: Int, name: String)] = []
        for place in indices where isItem(place) {
            let other = self.name(at: place)
            guard MediaName.precedes(name, other) else { continue }
            let index = next.firstIndex { MediaName.precedes(other, $0.name) } ?? next.endIndex
            guard index < count else { continue }
            next.insert((place, other), at: index)
            if next.count > count { next.removeLast() }
        }
        return next.map(\.place)
    }

    /// The media files with the latest dates, latest first; those without a date come last, in their order. By place.
    func newestItems(atMost count: Int) -> [Int] {
        let dated = indices.lazy.filter(isItem).map { (place: $0, date: modified(at: $0) ?? .min) }
        return dated.sorted { ($1.date, $0.place) < ($0.date, $1.place) }.prefix(count).map(\.place)
    }

    private func isItem(_ place: Int) -> Bool { !isDirectory(at: place) && MediaName.isMedia(name(at: place)) }
}
