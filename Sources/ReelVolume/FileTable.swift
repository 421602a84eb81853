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
        /// Somebody is expected to open it before; what was fetched ahead is not in vain until then.
        var keptUntil = Duration.zero
        /// While its fragments are given back nobody may open it: who wants to, waits.
        var isLeaving = false
        var waiting: [@Sendable () -> Void] = []
    }

    private struct Slots {
        var byVersion: [Version: Slot] = [:]
        /// Were replaced by another object of their version: nobody opens them any more, and who has them open goes on.
        var orphans: [Slot] = []

        subscript(version: Version) -> Slot? {
            get { byVersion[version] }
            set { byVersion[version] = newValue }
        }
        var values: Dictionary<Version, Slot>.Values { byVersion.values }
    }

    private let slots = Mutex(Slots())
    let services: Services

    init(_ services: Services) { self.services = services }

    /// Opens one version: a handle is counted until `close`.
    /// - Precondition: the length is known.
    func open(
        _ url: ResourceURL, _ information: ContentInformation, _ completion: @escaping Completion<RemoteFile>
    ) {
        let again: @Sendable () -> Void = { [self] in open(url, information, completion) }
        do throws(CacheError) {
            guard let file = try openNow(url, information, orElse: again) else { return }
            completion(.success(file))
        } catch {
            services.logger.error("\(error)")
            completion(.failure(.failed))
        }
    }

    /// nil while the file is leaving the table: `retry` is then called when it has left.
    func openNow(
        _ url: ResourceURL, _ information: ContentInformation, orElse retry: (@Sendable () -> Void)? = nil
    ) throws(CacheError) -> RemoteFile? {
        let wanted = Version(key: url.text, validator: information.validator, length: information.length!)
        let object = try services.store.object(for: wanted)
        // The object's own version: a tag that was weak when it was made still names the same bytes.
        let version = object.version
        let file = slots.withLock { slots -> RemoteFile? in
            if slots[version]?.isLeaving == true {
                if let retry { slots[version]!.waiting.append(retry) }
                return nil
            }
            // A damaged file has another object than the one that the store gives now.
            if let slot = slots[version], slot.file.object === object {
                slots[version]!.handles += 1
                slots[version]!.keptUntil = .zero
                return slot.file
            }
            let file = RemoteFile(url, information, object, services)
            if let replaced = slots[version] { slots.orphans.append(replaced) }
            slots[version] = Slot(file: file, handles: 1, closedAt: .zero)
            return file
        }
        guard let file else { return nil }
        object.holder = file
        // The origin has told of this version last, whatever it told of in between.
        file.revive()
        file.opened()
        return file
    }

    /// One handle more of an open file.
    func reopen(_ file: RemoteFile) {
        change(file) { $0.handles += 1 }
        file.opened()
    }

    /// - Returns: whether it was the last handle.
    @discardableResult
    func close(_ file: RemoteFile) -> Bool {
        let isLast = file.closed()
        change(file) { slot in
            slot.handles -= 1
            slot.closedAt = now()
        }
        services.ticker.add(self)
        return isLast
    }

    /// After its close its unread bytes do not count as wasted until then. - Parameter end: the past, where no reader is
    /// expected any more.
    func keep(_ file: RemoteFile, until end: Duration) {
        change(file) { if $0.handles == 0 { $0.keptUntil = end } }
        services.ticker.add(self)
    }

    /// Fetched ahead of readers who have gone.
    var unreadInVain: Int64 {
        let moment = now()
        let left = slots.withLock { slots in
            slots.values.filter { $0.handles == 0 && $0.keptUntil <= moment }.map(\.file)
        }
        return left.reduce(0) { $0 + $1.unread }
    }

    private func change(_ file: RemoteFile, _ body: (inout Slot) -> Void) {
        slots.withLock { slots in
            if var slot = slots[file.object.version], slot.file === file {
                body(&slot)
                slots[file.object.version] = slot
            } else if let index = slots.orphans.firstIndex(where: { $0.file === file }) {
                body(&slots.orphans[index])
            }
        }
    }

    var all: [RemoteFile] { slots.withLock { $0.values.map(\.file) } }

    /// The version that is open under this URL, if one is.
    func file(for version: Version) -> RemoteFile? { slots.withLock { $0[version]?.file } }
}

extension FileTable: Ticking {
    func tick(_ now: Duration) -> Bool {
        let idle = slots.withLock { slots in
            slots.values.filter {
                !$0.isLeaving && $0.handles == 0 && now - $0.closedAt > Ledger.linger && $0.keptUntil <= now
            }.map(\.file)
        }
        for file in idle where file.isDone { leave(file) }
        let isBuryingOrphans = buryOrphans()
        // One that is kept leaves the next time that anything else is closed after its time.
        return isBuryingOrphans
            || slots.withLock { slots in slots.values.contains { $0.handles == 0 && $0.keptUntil <= now } }
    }

    /// - Returns: whether some that nobody has open have something under way.
    private func buryOrphans() -> Bool {
        let idle = slots.withLock { slots in slots.orphans.filter { $0.handles == 0 }.map(\.file) }
        let done = idle.filter(\.isDone)
        for file in done {
            let isOurs = slots.withLock { slots in
                let count = slots.orphans.count
                slots.orphans.removeAll { $0.file === file }
                return slots.orphans.count < count
            }
            guard isOurs else { continue }
            file.giveBackFragments()
            file.writeOff()
        }
        return done.count < idle.count
    }

    private func leave(_ file: RemoteFile) {
        let version = file.object.version
        let isLeaving = slots.withLock { slots in
            guard let slot = slots[version], slot.handles == 0, slot.file === file, !slot.isLeaving else {
                return false
            }
            slots[version]!.isLeaving = true
            return true
        }
        guard isLeaving else { return }
        // Somebody may have come and gone since it was looked at; from here on nobody comes.
        guard file.isDone else { return stay(version) }
        file.giveBackFragments()
        file.writeOff()
        let waiting = slots.withLock { $0.byVersion.removeValue(forKey: version)?.waiting ?? [] }
        if file.isSuperseded, !file.isOver { services.store.forget(version) }
        for open in waiting { open() }
    }

    private func stay(_ version: Version) {
        let waiting = slots.withLock { slots in
            defer { slots[version]?.waiting = [] }
            slots[version]?.isLeaving = false
            return slots[version]?.waiting ?? []
        }
        for open in waiting { open() }
    }
}
