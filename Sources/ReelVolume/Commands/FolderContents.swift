import ReelCore
import ReelSources

/// Which part of the tree a client wants to see.
package struct FolderQuery: Sendable {
    /// Inside the mount, without a leading `/`; empty for its root.
    package var path: String
    /// A part of the names that are wanted, at any depth, in any case; empty for what the folder itself holds.
    package let match: String
    /// Entries.
    package var limit: Int

    package static let mostEntries = 500

    package init(path: String, match: String = "", limit: Int = 200) {
        (self.path, self.match, self.limit) = (path, match.lowercased(), min(limit, Self.mostEntries))
    }

    func wants(_ name: String) -> Bool { match.isEmpty || name.lowercased().contains(match) }
}

/// What is known of a folder, or of the names below it: the answer to `GET /api/v1/files`.
package struct FolderContents: Codable, Sendable {
    /// A folder or a file.
    package struct Entry: Codable, Sendable {
        /// Inside the mount, without a leading `/`.
        package var path: String
        package var isDirectory: Bool
        /// The length; nil of a folder, and where it is not known yet.
        package var length: Int64?
        /// The bytes in the cache; nil of a folder.
        package var cachedBytes: Int64?
        package var isPinned: Bool
    }

    /// Folders first, in the order of the listings.
    package var entries: [Entry] = []
    /// Whether there are more.
    package var isCut = false
    /// Folders that are left out because they have not been listed yet.
    package var unlistedDirectories = 0

    mutating func add(_ part: FolderContents, at path: String) {
        entries += part.entries.map { entry in
            var entry = entry
            entry.path = path + "/" + entry.path
            return entry
        }
        isCut = isCut || part.isCut
        unlistedDirectories += part.unlistedDirectories
    }
}

extension Maintenance {
    /// A search looks into no more folders, so that each takes a second or so.
    private static let mostFolders = 20_000

    /// Reports what the remembered listings hold, without a request.
    /// - Parameter isOver: true ends the search early.
    /// - Throws: a sentence for the user: the path is not listed.
    package func contents(
        _ query: FolderQuery, until isOver: () -> Bool
    ) throws(MaintenanceFailure) -> FolderContents {
        let (place, file) = try tree.place(of: query.path)
        guard file == nil else { throw MaintenanceFailure("\(query.path) is a file") }
        let pins = (try? services.store.pins()) ?? []
        var contents = FolderContents()
        var seen: Set<ExactText> = []
        var folders = [(path: pathNames(query.path).joined(separator: "/"), place: place)]
        var next = 0
        while next < folders.count, !isOver() {
            let folder = folders[next]
            next += 1
            guard let list = tree.entries(of: folder.place) else {
                contents.unlistedDirectories += 1
                continue
            }
            let isDirectory = list.indices.map { list.isDirectory(at: $0) }
            for index in list.indices.filter({ isDirectory[$0] }) + list.indices.filter({ !isDirectory[$0] }) {
                let name = list.name(at: index)
                let path = joinedPath(folder.path, name)
                if isDirectory[index], !query.match.isEmpty, folders.count < Self.mostFolders,
                    seen.insert(ExactText(list.url(at: index).text)).inserted
                {
                    folders.append((path, .url(list.url(at: index))))
                }
                guard query.wants(name) else { continue }
                guard contents.entries.count < query.limit else {
                    contents.isCut = true
                    return contents
                }
                contents.entries.append(isDirectory[index] ? .folder(path) : entry(list[index], at: path, pins))
            }
        }
        contents.isCut = folders.count >= Self.mostFolders
        return contents
    }

    private func entry(_ entry: SourceEntry, at path: String, _ pins: Set<ExactText>) -> FolderContents.Entry {
        let length = entry.length ?? services.store.information(for: entry.url.text)?.information.length
        return FolderContents.Entry(
            path: path, isDirectory: false, length: length,
            cachedBytes: services.keys.cachedBytes(of: entry.url, length),
            isPinned: pins.contains(ExactText(services.keys.key(of: entry))))
    }
}

extension FolderContents.Entry {
    static func folder(_ path: String) -> Self { Self(path: path, isDirectory: true, isPinned: false) }
}
