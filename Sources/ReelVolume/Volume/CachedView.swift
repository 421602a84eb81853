import ReelCore
import ReelFilesystem

/// One mount's view of a volume that other mounts share: it shows only what is cached whole, and asks for nothing.
package final class CachedView: Filesystem {
    private let volume: any MountedVolume

    /// - Parameter volume: goes on to fetch for its other mounts.
    package init(_ volume: any MountedVolume) { self.volume = volume }

    package func lookup(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>) {
        volume.lookup(name, in: parent, .cached, completion)
    }

    package func findAgain(_ name: String, in parent: NodeID, _ completion: @escaping Completion<Entry>) {
        volume.findAgain(name, in: parent, .cached, completion)
    }

    package func open(_ node: NodeID, by thread: Int32?, _ completion: @escaping Completion<any FileHandle>) {
        volume.open(node, by: thread, .cached, completion)
    }

    package func reopen(_ node: NodeID, _ completion: @escaping Completion<any FileHandle>) {
        volume.open(node, by: nil, .cached, completion)
    }

    package func openDirectory(_ node: NodeID, _ completion: @escaping Completion<any DirectoryHandle>) {
        volume.openDirectory(node, .cached, completion)
    }

    package func readLink(_ node: NodeID, _ completion: @escaping Completion<String>) {
        volume.readLink(node, .cached, completion)
    }

    // The rest asks for nothing, nor does a file that was opened here.

    package func read(
        _ file: any FileHandle, offset: Int64, into buffer: UnsafeMutableRawBufferPointer, park: () -> any ParkedRead
    ) -> ReadAnswer {
        volume.read(file, offset: offset, into: buffer, park: park)
    }
    package func forget(_ node: NodeID, count: UInt64) { volume.forget(node, count: count) }
    package func supersede(_ file: any FileHandle) { volume.supersede(file) }
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
