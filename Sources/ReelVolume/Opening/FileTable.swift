import ReelCache
import ReelCore
import ReelFilesystem
import ReelThreads

/// Holds the files that are open, or were a moment ago: exactly one `RemoteFile` a version, even if many names lead to
/// it.
final class FileTable: Sendable {
    private struct Slot {
        var file: RemoteFile
        var handles = 0
        var closedAt: Duration
        /// A reader is expected until then: bytes fetched ahead do not count as wasted before.
        var keptUntil = Duration.zero
        /// While its fragments are given back no open may take it: opens wait.
        var isLeaving = false
        var waiting: [@Sendable () -> Void] = []
    }

    private struct Slots {
        /// By the object that the file reads.
        var all: [ObjectIdentifier: Slot] = [:]
        /// The files that opens get, by their keys: one a version. A file whose object was replaced by another of its
        /// version is not here any more: its readers go on.
        private var current: [String: [RemoteFile]] = [:]
        /// The volume has ended: no read of a file may wait.
        var isOver = false

        subscript(file: RemoteFile) -> Slot? {
            get { all[ObjectIdentifier(file.object)] }
            set { all[ObjectIdentifier(file.object)] = newValue }
        }

        /// The file that the store's object of this version has, or of one that agrees: a tag that was weak when it was
        /// asked for may be strong in the object.
        func file(for version: Version) -> RemoteFile? {
            var best: (file: RemoteFile, fit: Int)?
            for file in current[version.key] ?? [] {
                let own = file.object.version
                guard own.length == version.length, let fit = own.validator.fit(version.validator) else { continue }
                if fit > best?.fit ?? -1 { best = (file, fit) }
            }
            return best?.file
        }

        func isCurrent(_ file: RemoteFile) -> Bool {
            current[file.object.version.key]?.contains { $0 === file } ?? false
        }

        /// Opens of the file's version get it from here on, and no other.
        /// - Parameter length: what the file's length is about to be, nil for what it is.
        mutating func makeCurrent(_ file: RemoteFile, length: Int64? = nil) {
            var version = file.object.version
            version.length = length ?? version.length
            current[version.key, default: []].removeAll { $0 === file || $0.object.version == version }
            current[version.key]!.append(file)
        }

        mutating func retire(_ file: RemoteFile) {
            let key = file.object.version.key
            current[key]?.removeAll { $0 === file }
            if current[key]?.isEmpty == true { current[key] = nil }
        }
    }

    /// Files that stay after their close for a further open. Each keeps a descriptor, and a scanner closes thousands
    /// within the time that they stay.
    private static let mostClosed = 256

    private let slots = Lock(Slots(), .files)
    let services: Services

    init(_ services: Services) { self.services = services }

    /// Opens one version: a handle is counted until `close`.
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

    /// Opens one version at once. - Returns: nil while the file is leaving the table: `retry` is called when it has
    /// left.
    func openNow(
        _ url: ResourceURL, _ information: ContentInformation, orElse retry: (@Sendable () -> Void)? = nil
    ) throws(CacheError) -> RemoteFile? {
        let wanted = Version(
            key: services.keys.key(of: url, information), validator: information.validator,
            length: information.length ?? BlockSize.openEnd)
        services.keys.movePin(of: url, information.length, to: wanted.key)
        let object = try services.store.object(for: wanted)
        let (file, isOver) = slots.withLock { slots -> (RemoteFile?, Bool) in
            let place = ObjectIdentifier(object)
            if slots.all[place]?.isLeaving == true {
                if let retry { slots.all[place]!.waiting.append(retry) }
                return (nil, slots.isOver)
            }
            if let file = slots.all[place]?.file {
                slots.all[place]!.handles += 1
                slots.all[place]!.keptUntil = .zero
                return (file, slots.isOver)
            }
            let file = RemoteFile(url, information, object, services)
            slots[file] = Slot(file: file, handles: 1, closedAt: .zero)
            slots.makeCurrent(file)
            return (file, slots.isOver)
        }
        guard let file else { return nil }
        object.holder = file
        file.move(to: url, information)
        // The origin has confirmed this version, or it is the remembered one. If it is outdated, the next answer with
        // bytes ends it again.
        file.revive()
        file.opened()
        // A command may open files while the volume ends.
        if isOver { file.shutdown() }
        return file
    }

    /// Fails the reads of all files, also of those that are opened later.
    func shutdown() {
        slots.withLock { $0.isOver = true }
        for file in all { file.shutdown() }
    }

    /// One handle more of a file. - Returns: false if it is leaving the table, or has left it.
    func reopen(_ file: RemoteFile) -> Bool {
        let isThere = slots.withLock { slots in
            guard slots[file]?.isLeaving == false else { return false }
            slots[file]!.handles += 1
            return true
        }
        if isThere { file.opened() }
        return isThere
    }

    /// The body of a file came to its end. A file with an open end is an ordinary one from here on.
    /// - Parameter finished: called before any reader finds the end, where an open finds the file by its length now.
    func settle(_ file: RemoteFile, _ stream: Ledger.StreamID, _ finished: (ContentInformation) -> Void) {
        guard let length = file.end(of: stream) else { return }
        let isKept = file.object.record(length: length)
        slots.withLock { isKept ? $0.makeCurrent(file, length: length) : $0.retire(file) }
        if isKept {
            var information = file.information
            information.length = length
            finished(information)
        } else {
            file.breakOff()
        }
        file.object.settle(length: length)
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

    /// Unread bytes of a closed file do not count as wasted until then. - Parameter end: the past, where no reader is
    /// expected any more.
    func keep(_ file: RemoteFile, until end: Duration) {
        change(file) { if $0.handles == 0 { $0.keptUntil = end } }
        services.ticker.add(self)
    }

    /// Bytes fetched ahead of readers that have gone.
    var unreadInVain: Int64 {
        let moment = now()
        let left = slots.withLock { slots in
            slots.all.values.filter { $0.handles == 0 && $0.keptUntil <= moment }.map(\.file)
        }
        return left.reduce(0) { $0 + $1.unread }
    }

    private func change(_ file: RemoteFile, _ body: (inout Slot) -> Void) {
        slots.withLock { slots in
            guard var slot = slots[file] else { return }
            body(&slot)
            slots[file] = slot
        }
    }

    /// All files; those that an open gets come first, then those whose object was replaced.
    var all: [RemoteFile] {
        slots.withLock { slots in
            let files = slots.all.values.map(\.file)
            return files.filter { slots.isCurrent($0) } + files.filter { !slots.isCurrent($0) }
        }
    }

    /// The file that an open of this version would get, if it is in use.
    func file(for version: Version) -> RemoteFile? { slots.withLock { $0.file(for: version) } }
}

extension FileTable: Ticking {
    func tick(_ now: Duration) -> Bool {
        let idle = slots.withLock { slots in
            let closed = slots.all.values.filter { $0.handles == 0 && !$0.isLeaving }
            // The oldest of too many leave at once: those that were closed at this moment or before.
            let excess = closed.count - Self.mostClosed
            let last = excess > 0 ? closed.map(\.closedAt).sorted()[excess - 1] : .zero
            return closed.filter { slot in
                if !slots.isCurrent(slot.file) { return true }
                return (now - slot.closedAt > Ledger.linger || slot.closedAt <= last) && slot.keptUntil <= now
            }.map(\.file)
        }
        for file in idle where file.isDone { leave(file) }
        // A file that is kept leaves at the first close of any file after its time.
        return slots.withLock { slots in slots.all.values.contains { $0.handles == 0 && $0.keptUntil <= now } }
    }

    private func leave(_ file: RemoteFile) {
        let isLeaving = slots.withLock { slots in
            guard let slot = slots[file], slot.handles == 0, !slot.isLeaving else { return false }
            slots[file]!.isLeaving = true
            return true
        }
        guard isLeaving else { return }
        // An open may have come and gone since the tick looked; from here on none can come.
        guard file.isDone else { return stay(file) }
        file.giveBackFragments()
        file.writeOff()
        services.upstream.requests.add(FileUse(file.statistics), of: file.url)
        let (waiting, wasCurrent) = slots.withLock { slots in
            defer {
                slots.retire(file)
                slots[file] = nil
            }
            return (slots[file]?.waiting ?? [], slots.isCurrent(file))
        }
        // Another file may have its version by now.
        if wasCurrent, file.isSuperseded, !file.isOver { services.store.forget(file.object) }
        for open in waiting { open() }
    }

    private func stay(_ file: RemoteFile) {
        let waiting = slots.withLock { slots in
            defer { slots[file]?.waiting = [] }
            slots[file]?.isLeaving = false
            return slots[file]?.waiting ?? []
        }
        for open in waiting { open() }
    }
}
