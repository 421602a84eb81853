import ReelSources

extension SourceEntry {
    /// Whether it is the same as an entry of that name in a newer list. A directory's date is none of it: what is in it
    /// changes, and it stays the one that somebody stands in.
    func isStill(_ newer: SourceEntry) -> Bool {
        self == newer || isDirectory && newer.isDirectory && url == newer.url
    }
}

extension EntryList {
    /// Of each entry the place in a newer list that says the same of it; `NodeTable.noPlace` where it does not.
    func places(in newer: EntryList) -> [UInt32] {
        indices.map { place in
            guard let now = newer.place(of: name(at: place)), self[place].isStill(newer[now]) else {
                return NodeTable.noPlace
            }
            return UInt32(now)
        }
    }
}
