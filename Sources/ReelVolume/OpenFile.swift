import ReelCore
import Synchronization

/// An open file, as the kernel's handle names it.
final class OpenFile: FileHandle {
    let node: Node
    let remote: RemoteFile
    /// Where the kernel was told no length: it must not stop there.
    let wantsDirectIO: Bool
    /// `Prebuffer.released` is due at its end.
    let isHeld: Bool
    private let isOffered = Atomic(false)

    init(_ node: Node, _ remote: RemoteFile, wantsDirectIO: Bool, isHeld: Bool = false) {
        self.node = node
        self.remote = remote
        self.wantsDirectIO = wantsDirectIO
        self.isHeld = isHeld
    }

    func passthroughFile() -> PassthroughFile? {
        guard !wantsDirectIO, let descriptor = remote.object.offer() else { return nil }
        isOffered.store(true, ordering: .relaxed)
        return PassthroughFile(descriptor: descriptor, length: remote.length)
    }

    func passthroughBegan() { remote.object.share() }

    /// An offer holds the file as it is until the handle is gone. The kernel opens the file only some time after it has
    /// taken the answer, and nothing tells when: until then a lease would say that no process reads the file.
    func settleOffer() {
        if isOffered.exchange(false, ordering: .relaxed) { remote.object.settle() }
    }
}
