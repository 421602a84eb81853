import ReelCore
import ReelFilesystem

/// One mount's view of a volume that other mounts share: it shows only what is cached whole, and asks for nothing.
package final class CachedView: Filesystem {
    private let volume: any MountedVolume

    /// - Parameter volume: goes on to fetch for its other mounts.
    package init(_ volume: any MountedVolume) { self.volume = volume }

    package func lookup(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>) {
        volume.lookupCached(name, in: parent, completion)
    }

    package func open(_ node: NodeID, by thread: Int32?, _ completion: @escaping Completion<any FileHandle>) {
        volume.openCached(node, by: thread, completion)
    }

    package func reopen(_ node: NodeID, _ completion: @escaping Completion<any FileHandle>) {
        volume.openCached(node, by: nil, completion)
    }

    package func read(
        _ file: any FileHandle, offset: Int64, into buffer: UnsafeMutableRawBufferPointer, park: () -> any ParkedRead
    ) -> ReadAnswer {
        volume.readCached(file, offset: offset, into: buffer)
    }

    package func openDirectory(_ node: NodeID, _ completion: @escaping Completion<any DirectoryHandle>) {
        volume.openDirectoryCached(node, completion)
    }

    package func readLink(_ node: NodeID, _ completion: @escaping Completion<String>) {
        volume.readLinkCached(node, completion)
    }

    // The rest asks for nothing.

    package func forget(_ node: NodeID, count: UInt64) { volume.forget(node, count: count) }
    package func close(_ file: any FileHandle) { volume.close(file) }
    package func abandon(_ read: any ParkedRead, of file: any FileHandle) { volume.abandon(read, of: file) }
    package func capacity() -> Capacity { volume.capacity() }
    package func attributes(of node: NodeID, _ completion: @escaping Completion<Attributes>) {
        volume.attributes(of: node, completion)
    }
    package func place(of node: NodeID) -> NodePlace? { volume.place(of: node) }
    package func extendedAttribute(_ name: String, of node: NodeID) -> Result<[UInt8], VolumeError> {
        volume.extendedAttribute(name, of: node)
    }
    package func extendedAttributeNames(of node: NodeID) -> Result<[String], VolumeError> {
        volume.extendedAttributeNames(of: node)
    }
}

extension Volume {
    package func lookupCached(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>) {
        guard name.utf8.count <= 255 else { return completion(.failure(.nameTooLong)) }
        guard let node = tree.nodes[parent] else { return completion(.failure(.stale)) }
        completion(
            tree.knownListing(of: node).flatMap { listed in
                guard let place = listed.entries.place(of: name), tree.isWhole(place, of: listed.entries),
                    let known = tree.knownEntry(place, of: listed, in: node, asks: false)
                else { return .failure(.notFound) }
                return known
            })
    }

    package func openCached(_ id: NodeID, by thread: Int32?, _ completion: @escaping Completion<any FileHandle>) {
        guard let node = tree.nodes[id] else { return completion(.failure(.stale)) }
        guard !node.isDirectory else { return completion(.failure(.isDirectory)) }
        opener.openCached(node, by: thread, completion)
    }

    package func readCached(
        _ file: any FileHandle, offset: Int64, into buffer: UnsafeMutableRawBufferPointer
    ) -> ReadAnswer {
        let file = file as! OpenFile
        let answer = file.remote.readCached(offset, into: buffer)
        if let reads = file.cacheReads, case .read(let count) = answer { reads.add(offset, count) }
        return answer
    }

    package func openDirectoryCached(_ id: NodeID, _ completion: @escaping Completion<any DirectoryHandle>) {
        guard let node = tree.nodes[id] else { return completion(.failure(.stale)) }
        guard let directory = node.directory else { return completion(.failure(.notDirectory)) }
        let parentInode = tree.nodes.peek(node.parent)?.inode ?? node.inode
        completion(
            tree.knownListing(of: node).map {
                DirectorySnapshot(tree, node, directory, parentInode: parentInode, $0, isCachedOnly: true)
            })
    }
}
