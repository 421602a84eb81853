extension ResourceURL {
    /// The same place of another tree: what lies below one base lies at the same path below the other.
    ///
    /// The base of a tree ends in `/`, or the place lies below it. That of a file or of a list does not; what a list
    /// names lies in its folder. nil where this is of no such place.
    package func moved(from base: ResourceURL, to other: ResourceURL) -> ResourceURL? {
        guard isSameOrigin(as: base) else { return nil }
        if self == base { return other }
        let isTree = base.path.utf8.last == 0x2F || path.utf8.starts(with: Array(base.path.utf8) + [0x2F])
        let (from, to) = isTree ? (base.asFolder, other.asFolder) : (base.folder, other.folder)
        return with(credentials: from.credentials).suffix(below: from).map { to.below($0[...]) }
    }

    private var asFolder: ResourceURL {
        let path = path.utf8.last == 0x2F ? path : path + "/"
        return resolve(path) ?? self
    }
}
