import ReelCore
import Synchronization

/// An open file, as the kernel's handle names it.
final class OpenFile: FileHandle {
    enum Body: Sendable {
        case remote(RemoteFile)
        case growing(GrowingFile)
    }

    let node: Node
    let body: Body
    /// `Prebuffer.released` is due at its end.
    let isHeld: Bool
    private let isOffered = Atomic(false)

    init(_ node: Node, _ body: Body, isHeld: Bool = false) {
        self.node = node
        self.body = body
        self.isHeld = isHeld
    }

    var wantsDirectIO: Bool { if case .growing = body { true } else { false } }

    func passthroughFile() -> PassthroughFile? {
        guard case .remote(let file) = body, let descriptor = file.object.offer() else { return nil }
        isOffered.store(true, ordering: .relaxed)
        return PassthroughFile(descriptor: descriptor, length: file.length)
    }

    func passthroughBegan() {
        if case .remote(let file) = body { file.object.share() }
    }

    /// An offer holds the file as it is until the handle is gone. The kernel opens the file only some time after it has
    /// taken the answer, and nothing tells when: until then a lease would say that no process reads the file.
    func settleOffer() {
        guard case .remote(let file) = body, isOffered.exchange(false, ordering: .relaxed) else { return }
        file.object.settle()
    }
}
