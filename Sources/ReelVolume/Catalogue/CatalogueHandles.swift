import ReelCore
import ReelFilesystem

// What the kernel holds of a source, with the source's number.

/// An open file of a source.
final class CatalogueFile: FileHandle {
    let source: CatalogueSource
    let volume: Volume
    let file: any FileHandle

    init(_ source: CatalogueSource, _ volume: Volume, _ file: any FileHandle) {
        self.source = source
        self.volume = volume
        self.file = file
    }

    var wantsDirectIO: Bool { file.wantsDirectIO }
    var length: Int64? { file.length }
    var isLengthShown: Bool { file.isLengthShown }
    var entityTag: EntityTag? { file.entityTag }
    var resource: UInt64? { file.resource }
    var modified: Int64? { file.modified }
    func passthroughFile() -> PassthroughFile? { file.passthroughFile() }
    func passthroughBegan() { file.passthroughBegan() }
}

/// A directory of a source.
final class CatalogueSnapshot: DirectoryHandle {
    private let number: UInt64
    private let directory: any DirectoryHandle
    /// The number of the folder above, where this is the source's own folder.
    private let parentInode: UInt64?

    init(_ number: UInt64, _ directory: any DirectoryHandle, parentInode: UInt64?) {
        self.number = number
        self.directory = directory
        self.parentInode = parentInode
    }

    var isHeldByKernel: Bool { directory.isHeldByKernel }
    var listing: ObjectIdentifier? { directory.listing }
    func isNotKept() { directory.isNotKept() }

    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
        directory.items(from: offset, withAttributes: withAttributes) { item in
            var item = item
            item.entry = item.entry.map { $0.of(number) }
            if let parentInode, item.name == ".." { item.inode = parentInode }
            return add(item)
        }
    }
}

/// A folder of the catalogue, as it was when a program opened it.
final class CatalogueFolderSnapshot: DirectoryHandle {
    private let items: [DirectoryItem]

    /// - Parameter entry: of a child, with its attributes.
    init(
        _ folder: CatalogueFolders.Folder, parentInode: UInt64, _ entry: (CatalogueFolders.Child) -> Entry
    ) {
        let above = [(".", folder.inode), ("..", parentInode)].enumerated().map { index, place in
            DirectoryItem(name: place.0, inode: place.1, isDirectory: true, nextOffset: index + 1, entry: nil)
        }
        let children = folder.children.enumerated().map { index, child in
            DirectoryItem(
                name: child.name, inode: child.inode, isDirectory: true, nextOffset: index + 3, entry: entry(child))
        }
        items = above + children
    }

    var isHeldByKernel: Bool { false }

    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
        for item in items.dropFirst(max(0, offset)) {
            var item = item
            if !withAttributes { item.entry = nil }
            if !add(item) { return }
        }
    }
}

extension Entry {
    /// The entry as the mount names it.
    func of(_ source: UInt64) -> Entry { Entry(node: sourceNode(node, of: source), attributes: attributes) }
}

/// The kernel's cache as one source sees it.
final class NumberedKernelCache: KernelCache {
    private let kernel: any KernelCache
    private let number: UInt64

    init(_ kernel: any KernelCache, _ number: UInt64) {
        self.kernel = kernel
        self.number = number
    }

    var isShared: Bool { kernel.isShared }
    var readsDataFiles: Bool { kernel.readsDataFiles }
    func forgetEntry(_ name: String, in parent: NodeID) {
        kernel.forgetEntry(name, in: sourceNode(parent, of: number))
    }
    func forgetDirectory(_ node: NodeID) { kernel.forgetDirectory(sourceNode(node, of: number)) }
    func setScanned(_ isScanned: Bool) { kernel.setScanned(isScanned) }
    func forgetPages(of node: NodeID, _ range: ByteRange) {
        kernel.forgetPages(of: sourceNode(node, of: number), range)
    }
}
