import Glibc
import ReelFuse

/// The mounts that the daemon before this one leaves.
struct Estate {
    private var mounts: [(left: LeftMount, device: Int32, watcher: Watcher?)] = []

    /// Has the daemon leave its mounts, and returns when its cache is free. From then on this process serves them, or
    /// they end with it.
    /// - Throws: a sentence for the user: the daemon goes on.
    /// - Parameter path: of its socket.
    init(ofDaemonAt path: String) throws(Failure) {
        let daemon = try ControlClient(path: path)
        ControlGroup.join(thatOf: daemon.process)
        var mounts = mounts
        let answer = daemon.leave { left in
            let descriptors = daemon.takeDescriptors(left.hasWatcher ? 2 : 1)
            guard let device = descriptors.first, MountDevice.isFuse(device) else {
                return descriptors.forEach { close($0) }
            }
            mounts.append((left, device, descriptors.dropFirst().first.map { Watcher(pipe: $0) }))
        }
        if let error = answer?.error { throw .mount(error) }
        guard !mounts.isEmpty else { throw .mount(ControlClient.silence) }
        self.mounts = mounts
        _ = try? daemon.waitForEnd(seconds: Self.patience)
    }

    /// Seconds for the daemon to write its cache.
    private static let patience: Int32 = 30

    /// Serves the mounts. - Throws: one of them cannot be served.
    func settle(_ table: MountTable) throws(Failure) {
        for (left, device, watcher) in mounts {
            do throws(MountError) {
                try table.take(left, device, watcher)
            } catch {
                throw .mount(error.message)
            }
        }
    }
}
