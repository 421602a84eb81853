import ReelSources

extension SourceEntry {
    /// Whether an entry of that name in a newer list is the same one. A directory stays the same whatever its date: its
    /// content changes, and a program may have it as its working directory.
    func isStill(_ newer: SourceEntry) -> Bool {
        self == newer || isDirectory && newer.isDirectory && url == newer.url
    }
}

extension EntryList {
    /// The place of each entry in a newer list, or `NodeTable.noPlace` where the list lacks it or has another one of
    /// that name.
    func places(in newer: EntryList) -> [UInt32] {
        indices.map { place in
            guard let now = newer.place(of: name(at: place)), self[place].isStill(newer[now]) else {
                return NodeTable.noPlace
            }
            return UInt32(now)
        }
    }
}
