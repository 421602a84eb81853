import ReelCore

/// Makes the kernel forget answers that no longer hold.
package protocol KernelCache: AnyObject, Sendable {
    /// Forgets a name, or that there was no such name.
    func forgetEntry(_ name: String, in parent: NodeID)
    /// Forgets a directory's attributes, and the names that were read of it.
    func forgetDirectory(_ node: NodeID)
    /// Whether several mounts keep answers, each its own: what was sent through one, another may lack.
    var isShared: Bool { get }
    /// Whether the kernel reads complete files itself (`FileHandle.passthroughFile`).
    var readsDataFiles: Bool { get }
    /// Whether programs look into many files one after another now: the kernel then reads little ahead in files that
    /// are opened, where its reading ahead can be chosen.
    func setScanned(_ isScanned: Bool)
    /// Drops the pages of bytes that no program reads again soon. No read of them may be parked.
    func forgetPages(of node: NodeID, _ range: ByteRange)
}

extension KernelCache {
    /// One mount's.
    package var isShared: Bool { false }
}

/// How long the kernel may keep an answer.
package enum KernelBelief {
    /// For entries and attributes. The volume revokes those that change (`KernelCache`), so this only bounds how long a
    /// lost notice has effects. A minute keeps a library scan of known files away from the daemon.
    package static let known = Duration.seconds(60)
    /// For names that do not exist. Players look for neighbours (.srt, .nfo) many times while they open one film, and a
    /// new name is seen soon.
    package static let missing = Duration.seconds(2)
}
