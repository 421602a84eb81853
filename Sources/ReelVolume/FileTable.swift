import ReelCache
import ReelCore
import ReelThreads
import Synchronization

/// The files that are open, or were a moment ago: exactly one `RemoteFile` a version, however many names lead to it.
final class FileTable: Sendable {
    private struct Slot {
        var file: RemoteFile
        var handles = 0
        var closedAt: Duration
        /// While its fragments are given back nobody may open it: who wants to, waits.
        var isLeaving = false
        var waiting: [@Sendable () -> Void] = []
    }

    /// As long as streams linger after the last close.
    private static let linger = Duration.seconds(10)

    private let slots = Mutex<[Version: Slot]>([:])
    private let services: Services

    init(_ services: Services) { self.services = services }

    /// Opens one version: an open file's handle is counted until `close`.
    /// - Precondition: the length is known.
    func open(
        _ url: ResourceURL, _ information: ContentInformation, _ completion: @escaping Completion<RemoteFile>
    ) {
        let object: CacheObject
        do {
            let wanted = Version(key: url.text, validator: information.validator, length: information.length!)
            object = try services.store.object(for: wanted)
        } catch {
            services.logger.error("\(error)")
            return completion(.failure(.failed))
        }
        // The object's own version: a tag that was weak when it was made still names the same bytes.
        let version = object.version
        let file = slots.withLock { slots -> RemoteFile? in
            if slots[version]?.isLeaving == true {
                slots[version]!.waiting.append { [self] in open(url, information, completion) }
                return nil
            }
            let file = slots[version]?.file ?? RemoteFile(url, information, object, services)
            slots[version, default: Slot(file: file, closedAt: .zero)].handles += 1
            return file
        }
        guard let file else { return }
        object.holder = file
        file.opened()
        completion(.success(file))
    }

    func close(_ file: RemoteFile) {
        file.closed()
        slots.withLock { slots in
            slots[file.object.version]?.handles -= 1
            slots[file.object.version]?.closedAt = now()
        }
        services.ticker.add(self)
    }

    var all: [RemoteFile] { slots.withLock { $0.values.map(\.file) } }

    /// The version that is open under this URL, if one is.
    func file(for version: Version) -> RemoteFile? { slots.withLock { $0[version]?.file } }
}

extension FileTable: Ticking {
    func tick(_ now: Duration) -> Bool {
        let idle = slots.withLock { slots in
            slots.values.filter { !$0.isLeaving && $0.handles == 0 && now - $0.closedAt > FileTable.linger }.map(\.file)
        }
        for file in idle where file.isDone { leave(file) }
        return slots.withLock { slots in slots.values.contains { $0.handles == 0 } }
    }

    private func leave(_ file: RemoteFile) {
        let version = file.object.version
        let isLeaving = slots.withLock { slots in
            guard let slot = slots[version], slot.handles == 0, slot.file === file else { return false }
            slots[version]!.isLeaving = true
            return true
        }
        guard isLeaving else { return }
        file.giveBackFragments()
        let waiting = slots.withLock { $0.removeValue(forKey: version)?.waiting ?? [] }
        if file.isSuperseded { services.store.forget(version) }
        for open in waiting { open() }
    }
}
