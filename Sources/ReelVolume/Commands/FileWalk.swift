import ReelCore
import ReelFilesystem
import ReelThreads

/// A folder that a command works in: held as the kernel holds a node.
struct WalkedFolder: Sendable {
    /// Bytes of a path, as PATH_MAX: programs reach nothing below, and a tree without end has one here.
    static let longestPath = 4095

    /// Inside the source, without a leading `/`.
    let path: String
    let node: Node

    func path(of name: String) -> String { joinedPath(path, name) }
}

extension Tree {
    /// Finds what a path of the mount stands for, and lists what is not listed on the way.
    /// - Parameter path: inside the mount, without a leading `/`; empty for its root.
    /// - Returns: a folder, held until `leave`; of a file its folder, and its place in the listing.
    func find(_ path: String, _ watch: MaintenanceWatch) throws(MaintenanceFailure)
        -> (folder: WalkedFolder, file: (listed: Directory.Listed, place: Int)?)
    {
        var folder = WalkedFolder(path: "", node: root)
        var names = pathNames(path)[...]
        while let name = names.popFirst() {
            let listed = try? listed(folder, watch).get()
            let place = listed?.entries.place(of: name)
            if names.isEmpty, let listed, let place, !listed.entries.isDirectory(at: place) {
                return (folder, (listed, place))
            }
            let child = listed.flatMap { listed in place.flatMap { enter($0, of: listed, in: folder) } }
            leave(folder)
            guard let child else { throw .unlisted(path) }
            folder = child
        }
        return (folder, nil)
    }

    /// The listing of a folder: the known one at once, else one from the origin.
    func listed(_ folder: WalkedFolder, _ watch: MaintenanceWatch) throws(MaintenanceFailure)
        -> Result<Directory.Listed, VolumeError>
    {
        try watch.wait { listing(of: folder.node, $0) }
    }

    /// A folder in a listing, held; nil where the present listing has another entry there, or a path is too long.
    func enter(_ place: Int, of listed: Directory.Listed, in folder: WalkedFolder) -> WalkedFolder? {
        let path = folder.path(of: listed.entries.name(at: place))
        guard path.utf8.count <= WalkedFolder.longestPath,
            case .success(let entry)? = knownEntry(place, of: listed, in: folder.node)
        else { return nil }
        if let node = nodes[entry.node], node.isDirectory { return WalkedFolder(path: path, node: node) }
        nodes.forget(entry.node, count: 1)
        return nil
    }

    func leave(_ folder: WalkedFolder) { nodes.forget(folder.node.id, count: 1) }

    /// Holds a folder once more, until another `leave`.
    func hold(_ folder: WalkedFolder) { _ = nodes.hold(folder.node.id) }
}

/// The files that a path stands for, one after another; a folder that is not listed yet is listed on the way. Of each
/// folder above the present file one listing is held, however many files there are.
///
/// Belongs to one thread, which may wait.
final class FileWalk {
    struct Found {
        let folder: WalkedFolder
        let listed: Directory.Listed
        let place: Int

        var path: String { folder.path(of: listed.entries.name(at: place)) }
    }

    private struct Level {
        let folder: WalkedFolder
        let listed: Directory.Listed
        var next = 0
    }

    /// An origin that fails so often is asked no more.
    private static let mostFailures = 100

    private let tree: Tree
    private var file: Found?
    private var levels: [Level] = []
    /// Folders that could not be listed, and are left out.
    private(set) var failed: [FailedDirectory] = []

    /// - Parameter path: inside the mount, without a leading `/`; empty for all of it.
    /// - Throws: where there is no such path.
    init(_ tree: Tree, _ path: String, _ watch: MaintenanceWatch) throws(MaintenanceFailure) {
        self.tree = tree
        let (folder, file) = try tree.find(path, watch)
        if let file {
            self.file = Found(folder: folder, listed: file.listed, place: file.place)
        } else {
            try enter(folder, watch)
        }
    }

    /// The next file, nil if that was all. A file's folder is held until the next call.
    func next(_ watch: MaintenanceWatch) throws(MaintenanceFailure) -> Found? {
        if let file {
            if levels.isEmpty {
                levels.append(Level(folder: file.folder, listed: file.listed, next: file.listed.entries.count))
                return file
            }
            self.file = nil
        }
        while let level = levels.last {
            let entries = level.listed.entries
            guard level.next < entries.count else {
                levels.removeLast()
                tree.leave(level.folder)
                continue
            }
            levels[levels.count - 1].next += 1
            if !entries.isDirectory(at: level.next) {
                return Found(folder: level.folder, listed: level.listed, place: level.next)
            }
            if watch.isOver() { throw MaintenanceFailure("it was ended before its time") }
            if let child = tree.enter(level.next, of: level.listed, in: level.folder) { try enter(child, watch) }
        }
        return nil
    }

    /// Lets go of all that is held. To be called once.
    func end() {
        if let file, levels.isEmpty { tree.leave(file.folder) }
        for level in levels { tree.leave(level.folder) }
        (file, levels) = (nil, [])
    }

    private func enter(_ folder: WalkedFolder, _ watch: MaintenanceWatch) throws(MaintenanceFailure) {
        guard failed.count < Self.mostFailures else { return tree.leave(folder) }
        let result: Result<Directory.Listed, VolumeError>
        do throws(MaintenanceFailure) {
            result = try tree.listed(folder, watch)
        } catch {
            tree.leave(folder)
            throw error
        }
        switch result {
        case .success(let listed): levels.append(Level(folder: folder, listed: listed))
        case .failure(let error):
            failed.append(FailedDirectory(path: folder.path, reason: error.reason))
            tree.leave(folder)
        }
    }
}
