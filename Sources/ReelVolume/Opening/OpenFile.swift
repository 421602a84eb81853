import ReelCache
import ReelCore
import ReelFilesystem
import Synchronization

/// An open file, to which a handle of the kernel leads.
final class OpenFile: FileHandle {
    let node: Node
    let remote: RemoteFile
    /// The kernel got no length, or one that grows, so that its reads must not end at one.
    let wantsDirectIO: Bool
    /// Whether its end has to call `Prebuffer.released`.
    let isHeld: Bool
    /// Its reads make no requests.
    let isCachedOnly: Bool
    /// nil if the user wants no log.
    let cacheReads: CacheReads?
    private let isOffered = Atomic(false)

    init(
        _ node: Node, _ remote: RemoteFile, wantsDirectIO: Bool, isHeld: Bool = false, isCachedOnly: Bool = false
    ) {
        self.node = node
        self.remote = remote
        self.wantsDirectIO = wantsDirectIO
        self.isHeld = isHeld
        self.isCachedOnly = isCachedOnly
        cacheReads = remote.services.upstream.requests.isWritten ? CacheReads() : nil
    }

    var length: Int64? { remote.isOpenEnded ? nil : remote.length }

    /// A body without a length may be longer than its listing says, or shorter.
    var isLengthShown: Bool { node.shown.length ?? remote.length == remote.length }

    var modified: Int64? { remote.object.version.validator.lastModified }

    var resource: UInt64? { inodeNumber(of: remote.object.version.key, in: 0) }

    /// Made of all that names the version in the cache.
    var entityTag: EntityTag? {
        let version = remote.object.version
        let validator = version.validator
        guard validator.entityTag != nil || validator.lastModified != nil || validator.mirror != 0 else { return nil }
        var parts = [version.key, validator.entityTag?.opaque, validator.lastModified.map { "\($0)" }]
        if validator.mirror != 0 { parts.append("\(validator.mirror)") }
        let name = parts.reduce(UInt64(bitPattern: version.length)) { inodeNumber(of: $1 ?? "", in: $0) }
        return EntityTag((validator.ifRange == nil ? "W/" : "") + "\"\(String(name, radix: 16))\"")
    }

    /// - Parameter program: that opened it.
    func opened(by program: String) {
        remote.opened(by: program)
        cacheReads?.program.withLock { $0 = program }
    }

    func passthroughFile() -> PassthroughFile? {
        guard !wantsDirectIO, remote.growth == nil, let descriptor = remote.object.offer() else { return nil }
        isOffered.store(true, ordering: .relaxed)
        return PassthroughFile(descriptor: descriptor, length: remote.length)
    }

    func passthroughBegan() { remote.object.share() }

    /// Ends the offer, which keeps the file unchanged until the handle is closed. The kernel opens the file some time
    /// after it has taken the answer, and without notice: until then a lease would show no reader.
    func settleOffer() {
        if isOffered.exchange(false, ordering: .relaxed) { remote.object.settle() }
    }
}
