import ReelSources

/// Is notified of what becomes of a tree, on threads that must not wait.
package struct TreeNews: Sendable {
    /// Paths in the volume have changed, come or gone, as a refresh found; those of folders end in `/`.
    private let changed: @Sendable ([String]) -> Void
    /// An origin has gone or come back, or a directory could be listed again, or could not.
    package let trust: @Sendable () -> Void

    /// Paths of one folder; beyond that its own path stands for all of them.
    private static let mostPaths = 1000

    package init(changed: @escaping @Sendable ([String]) -> Void, trust: @escaping @Sendable () -> Void) {
        self.changed = changed
        self.trust = trust
    }

    /// Reports how two listings of a folder differ. - Parameter folder: its path, nil if not known.
    func tell(_ old: Directory.Listed, _ new: Directory.Listed, in folder: String?) {
        let prefix = folder.map { $0.isEmpty ? "" : $0 + "/" } ?? ""
        var paths: [String] = []
        func add(_ entry: SourceEntry) { paths.append(prefix + entry.name + (entry.isDirectory ? "/" : "")) }
        for entry in old.entries where new[entry.name] != entry { add(entry) }
        for entry in new.entries where old[entry.name] == nil { add(entry) }
        if paths.count > Self.mostPaths || folder == nil { paths = [prefix.isEmpty ? "/" : prefix] }
        changed(paths)
    }
}
