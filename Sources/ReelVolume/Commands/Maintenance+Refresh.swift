import ReelCore
import ReelFilesystem
import ReelThreads

extension Maintenance {
    /// Has each directory listed again at the next look at it, however young its listing is.
    package func expireListings() { tree.refresher.health.expireAll() }

    /// Lists a directory again now, or it and all below it, and notifies the kernel of what has changed.
    package func refresh(_ path: String, isRecursive: Bool, _ watch: MaintenanceWatch) throws(MaintenanceFailure)
        -> MaintenanceReport
    {
        let isWhole = Monitor<Bool?>(nil)
        let walk = FolderWalk(tree, .again(isRecursive: isRecursive)) { progress in
            if progress == .end { isWhole.withLock { $0 = $0 ?? true } }
            if watch.isOver() { isWhole.withLock { $0 = false } }
        }
        defer { walk.end() }
        walk.start(at: try folder(path, watch))
        guard try watch.wait(for: isWhole) else { throw MaintenanceFailure("it was ended before its time") }
        return walk.report
    }

    /// Finds a directory, and holds it; a file stands for its own.
    private func folder(_ path: String, _ watch: MaintenanceWatch) throws(MaintenanceFailure) -> FolderWalk.Folder {
        var folder = FolderWalk.Folder(path: "", node: tree.root)
        var names = pathNames(path)[...]
        while let name = names.popFirst() {
            let answer = Monitor<Result<Directory.Listed, VolumeError>?>(nil)
            tree.listing(of: folder.node) { result in answer.withLock { $0 = result } }
            let listed = try? watch.wait(for: answer).get()
            let place = listed?.entries.place(of: name)
            if names.isEmpty, let listed, let place, !listed.entries.isDirectory(at: place) { break }
            folder.listed = listed
            let child = place.flatMap { FolderWalk.enter(UInt32($0), of: folder, tree) }
            tree.nodes.forget(folder.node.id, count: 1)
            guard let child else { throw .unlisted(path) }
            folder = child
        }
        return folder
    }
}
