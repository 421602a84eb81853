import ReelCore
import ReelFilesystem
import ReelThreads

/// What the kernel keeps of one filesystem through several mounts: each notice goes to all of them.
package final class KernelCaches: KernelCache {
    private struct State: Sendable {
        var caches: [any KernelCache] = []
        /// Sources of a catalogue whose files are being looked into, or the one source.
        var scans = 0
    }

    private let state = Lock(State())

    package init() {}

    /// A mount begins.
    package func add(_ cache: any KernelCache) {
        let scans = state.withLock { state in
            state.caches.append(cache)
            return state.scans
        }
        for _ in 0..<max(0, scans) { cache.setScanned(true) }
    }

    /// A mount has ended.
    package func remove(_ cache: any KernelCache) { state.withLock { $0.caches.removeAll { $0 === cache } } }

    package var isShared: Bool { all.count > 1 }

    package var readsDataFiles: Bool { all.contains { $0.readsDataFiles } }

    package func forgetEntry(_ name: String, in parent: NodeID) {
        for cache in all { cache.forgetEntry(name, in: parent) }
    }

    package func forgetDirectory(_ node: NodeID) {
        for cache in all { cache.forgetDirectory(node) }
    }

    package func forgetPages(of node: NodeID, _ range: ByteRange) {
        for cache in all { cache.forgetPages(of: node, range) }
    }

    package func setScanned(_ isScanned: Bool) {
        let caches = state.withLock { state in
            state.scans += isScanned ? 1 : -1
            return state.caches
        }
        for cache in caches { cache.setScanned(isScanned) }
    }

    private var all: [any KernelCache] { state.withLock { $0.caches } }
}
