import ReelFilesystem

/// The folders of a catalogue: those of its sources, and those above them. A value, made again when the catalogue is
/// read again.
struct CatalogueFolders: Sendable {
    struct Child: Sendable, Equatable {
        let name: String
        let node: NodeID
        let inode: UInt64
    }

    struct Folder: Sendable {
        let parent: NodeID
        let inode: UInt64
        /// In the order of the catalogue.
        fileprivate(set) var children: [Child] = []

        subscript(name: String) -> Child? { children.first { $0.name.utf8.elementsEqual(name.utf8) } }
    }

    private var folders: [NodeID: Folder] = [rootNode: Folder(parent: rootNode, inode: rootNode)]
    private var parents: [UInt64: NodeID] = [:]
    private var nodes: [[String]: NodeID]
    private var last: NodeID

    /// - Parameter before: a folder keeps the number that it had there.
    init(_ before: CatalogueFolders? = nil) {
        nodes = before?.nodes ?? [[]: rootNode]
        last = before?.last ?? rootNode
    }

    subscript(node: NodeID) -> Folder? { folders[node] }

    var all: Dictionary<NodeID, Folder>.Keys { folders.keys }

    /// The folder in which a source stands.
    func parent(of source: UInt64) -> NodeID? { parents[source] }

    /// The place of a folder, or of a source's root.
    func place(of node: NodeID) -> NodePlace? {
        let (source, _) = splitNode(node)
        guard let parent = source > 0 ? parents[source] : folders[node]?.parent,
            let child = folders[parent]?.children.first(where: { $0.node == node })
        else { return nil }
        return NodePlace(parent: parent, name: child.name, isDirectory: true)
    }

    /// Adds a source. - Parameter path: one name or several; none leads through another source.
    mutating func add(_ source: UInt64, at path: [String]) {
        var node = rootNode
        for (index, name) in path.dropLast().enumerated() {
            node = folder(name, Array(path[...index]), in: node)
        }
        guard let name = path.last, let folder = folders[node] else { return }
        let inode = inodeNumber(of: name, in: folder.inode)
        folders[node]?.children.append(Child(name: name, node: sourceNode(rootNode, of: source), inode: inode))
        parents[source] = node
    }

    private mutating func folder(_ name: String, _ path: [String], in parent: NodeID) -> NodeID {
        if let child = folders[parent]?[name] { return child.node }
        let node = nodes[path] ?? last + 1
        if nodes[path] == nil { (nodes[path], last) = (node, node) }
        let inode = inodeNumber(of: name, in: folders[parent]?.inode ?? rootNode)
        folders[parent]?.children.append(Child(name: name, node: node, inode: inode))
        if folders[node] == nil { folders[node] = Folder(parent: parent, inode: inode) }
        return node
    }

    /// The inode number of the folder at a path, as `add` makes it.
    static func inode(of path: [String]) -> UInt64 { path.reduce(rootNode) { inodeNumber(of: $1, in: $0) } }
}

/// Sources at a time, and in the life of a mount before a number comes again: 12 bits of a `NodeID`. 0 stands for the
/// folders of the catalogue itself.
enum SourceNumber {
    static let most: UInt64 = 0xFFF
    static let shift: UInt64 = 52
}

/// A node of a source as the mount names it.
func sourceNode(_ node: NodeID, of source: UInt64) -> NodeID { source << SourceNumber.shift | node }

/// The source of a node, 0 for a folder of the catalogue; and its name there.
func splitNode(_ node: NodeID) -> (source: UInt64, node: NodeID) {
    (node >> SourceNumber.shift, node & (1 << SourceNumber.shift - 1))
}
