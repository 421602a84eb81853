import ReelFilesystem
import ReelThreads

/// A read that waits until blocks are in the cache, and takes no bytes.
final class RepairRead: ParkedRead {
    let answer = Monitor<Result<Void, VolumeError>?>(nil)

    func succeed(_ bytes: UnsafeRawBufferPointer) { answer.withLock { $0 = $0 ?? .success(()) } }
    func fail(_ error: VolumeError) { answer.withLock { $0 = $0 ?? .failure(error) } }
}
