import ReelCache
import ReelCore
import ReelSources

/// Which files a path of the mount stands for, from what is remembered. No request is made.
extension Volume {
    struct Chosen {
        var keys: [String] = []
        /// Directories that nobody has listed yet.
        var unlisted = 0
    }

    /// - Parameter path: inside the mount, without a leading `/`; empty for all of it.
    func choose(_ path: String, _ watch: CareWatch) throws(CareFailure) -> Chosen {
        var folder = Folder(place: source.root, isRoot: true)
        var names = path.split(separator: "/")[...]
        while let name = names.popFirst() {
            guard let entries = entries(of: folder), let place = entries.place(of: String(name)) else {
                throw CareFailure("\(path) is not listed in the mount")
            }
            let entry = entries[place]
            if !entry.isDirectory {
                guard names.isEmpty else { throw CareFailure("\(path) is not listed in the mount") }
                return Chosen(keys: [entry.url.text])
            }
            folder = Folder(place: .url(entry.url), isRoot: false)
        }
        return below(folder, watch)
    }

    private struct Folder {
        var place: SourcePlace
        var isRoot: Bool
    }

    /// The last good listing; nil where there is none yet.
    private func entries(of folder: Folder) -> EntryList? {
        if folder.isRoot, let listed = root.directory?.state.withLock({ $0.listing }) { return listed.entries }
        return services.store.entries(at: folder.place)?.entries
    }

    /// What is listed, and what is cached or pinned although no listing names it any more.
    private func below(_ folder: Folder, _ watch: CareWatch) -> Chosen {
        var chosen = Chosen()
        var known: Set<ExactText> = []
        var seen: Set<ExactText> = []
        var rest = [folder]
        while let folder = rest.popLast(), !watch.isOver() {
            guard let entries = entries(of: folder) else {
                chosen.unlisted += 1
                continue
            }
            for entry in entries {
                if entry.isDirectory {
                    if seen.insert(ExactText(entry.url.text)).inserted {
                        rest.append(Folder(place: .url(entry.url), isRoot: false))
                    }
                } else if known.insert(ExactText(entry.url.text)).inserted {
                    chosen.keys.append(entry.url.text)
                }
            }
        }
        let start = Array(folder.place.key.utf8)
        let stored = services.store.objects().map { ExactText($0.key) } + ((try? services.store.pins()) ?? [])
        for key in stored where folder.isRoot || key.text.utf8.starts(with: start) {
            if known.insert(key).inserted { chosen.keys.append(key.text) }
        }
        return chosen
    }
}
