import ReelCore
import ReelSources
import ReelThreads

/// Fetches the beginning and the end of the file that comes after the one that is being played through.
final class Prebuffer: Sendable {
    /// The item that is being fetched, or was fetched last.
    private struct Next {
        let item: String
        /// nil until it is open. The table of files has it for as long as a reader is expected, or reads it: whoever
        /// holds it longer keeps its bytes from leaving the cache.
        weak var file: RemoteFile?
        var wantsMore = false
    }

    private struct State {
        var decisions = Prebuffering()
        var next: Next?
        /// Complete files that are open.
        var held: [String: Node] = [:]
    }

    /// This many heads of the next item are fetched once nothing of the played item is left to fetch.
    private static let more: Int64 = 4
    /// For so long, the rest of a long film, the bytes of the next one do not count as wasted.
    private static let expectation = Duration.seconds(3 * 3600)

    private let files: FileTable
    private let services: Services
    private let tree: Tree
    /// Hears what is played, nil if nothing is kept.
    private let keeper: Keeper?
    private let state = Lock(State())

    init(_ tree: Tree, _ files: FileTable, _ keeper: Keeper?, _ services: Services) {
        self.keeper = keeper
        self.tree = tree
        self.files = files
        self.services = services
    }

    // MARK: Events

    func played(_ node: Node, isThere: Bool) {
        guard MediaName.isMedia(node.name), let url = node.url else { return }
        keeper?.played(node)
        guard services.options.prebuffer > 0 else { return }
        let next = next(after: node)
        perform(state.withLock { $0.decisions.played(url.text, next: next?.text, isThere: isThere) }, next)
    }

    /// A complete file was opened. - Returns: whether `released` has to follow.
    func holds(_ node: Node) -> Bool {
        guard services.options.prebuffer > 0 || keeper != nil, MediaName.isMedia(node.name), let url = node.url else {
            return false
        }
        state.withLock { state in
            state.decisions.holds(url.text, now: now())
            state.held[url.text] = node
        }
        services.ticker.add(self)
        return true
    }

    func released(_ node: Node) {
        guard let url = node.url else { return }
        state.withLock { state in
            state.decisions.released(url.text)
            if !state.decisions.isHeld(url.text) { state.held[url.text] = nil }
        }
    }

    func opened(_ node: Node) {
        // Players open subtitles and covers beside a film.
        guard MediaName.isMedia(node.name), let url = node.url else { return }
        perform(state.withLock { $0.decisions.opened(url.text) })
    }

    func closed(_ node: Node, _ file: RemoteFile, isPlayed: Bool) {
        guard let url = node.url else { return }
        perform(state.withLock { $0.decisions.closed(url.text, isPlayed: isPlayed) })
        if isPlayed, file.isReadToEnd { keeper?.finished(file.object.version.key) }
        // The last bytes may have come without a read after them.
        if isPlayed { played(node, isThere: file.isComplete) }
    }

    private func next(after node: Node) -> ResourceURL? {
        guard let directory = tree.nodes[node.parent]?.directory, let entries = directory.listing?.entries else {
            return nil
        }
        let isQueue = tree.source.isQueue(directory.place)
        return entries.items(after: node.name, isQueue: isQueue, atMost: 1).first.map { entries.url(at: $0) }
    }

    // MARK: Actions

    /// - Parameter next: the item to fetch, with the source's user and password, which its name lacks.
    private func perform(_ actions: [Prebuffering.Action], _ next: ResourceURL? = nil) {
        for action in actions {
            switch action {
            case .fetch(let item):
                state.withLock { $0.next = Next(item: item) }
                if let next { open(next, item) }
            case .more(let item):
                let file = state.withLock { state -> RemoteFile? in
                    guard state.next?.item == item else { return nil }
                    state.next?.wantsMore = true
                    return state.next?.file
                }
                if let file { fetchMore(file) }
            case .cancel(let item):
                let file = state.withLock { $0.next?.item == item ? $0.next.take()?.file : nil }
                if let file { letGo(file) }
            }
        }
    }

    private func open(_ url: ResourceURL, _ item: String) {
        if let known = services.store.information(for: url.text)?.information, known.length != nil {
            return files.open(url, known) { [self] result in
                if case .success(let file) = result { begin(file, item) }
            }
        }
        let isKnown = files.recognise(url, length: nil, within: services.options.timeout) { [self] result in
            guard case .success(let known) = result, known.length != nil else { return }
            files.open(url, known) { [self] result in
                if case .success(let file) = result { begin(file, item) }
            }
        }
        if isKnown { return }
        OpenRequest.start(url, tail: nil, files, services, finished: { _ in }) { [self] found in
            switch found {
            // A body without a length can only be fetched as a whole.
            case .file(let file) where file.isOpenEnded: files.close(file)
            case .file(let file):
                services.store.remember(file.information, for: url.text, checkedAt: wallClock())
                begin(file, item)
            case .failure: break
            }
        }
    }

    /// The item is open. Its requests need no handle to go on.
    private func begin(_ file: RemoteFile, _ item: String) {
        let next = state.withLock { state -> Next? in
            guard let next = state.next, next.item == item, next.file == nil else { return nil }
            state.next?.file = file
            return next
        }
        guard let next else { return _ = files.close(file) }
        let head = ByteRange(0, min(file.length, services.options.prebuffer))
        file.prefetch([head] + (Readahead.tail(of: file.length).map { [$0] } ?? []), as: .nextItem)
        if next.wantsMore { fetchMore(file) }
        files.close(file)
        files.keep(file, until: now() + Prebuffer.expectation)
        // It may have been cancelled since.
        if state.withLock({ $0.next?.item != item }) { letGo(file) }
    }

    private func fetchMore(_ file: RemoteFile) {
        let usual = services.options.prebuffer
        guard file.length > usual else { return }
        file.prefetch([ByteRange(usual, min(file.length, usual * Prebuffer.more))], as: .moreOfNextItem)
    }

    /// Stops its requests; the bytes that came count as wasted unless they are read.
    private func letGo(_ file: RemoteFile) {
        file.cancelPrebuffer()
        files.keep(file, until: .zero)
    }
}

extension Prebuffer: Ticking {
    /// Looks which open file is being played.
    func tick(_ now: Duration) -> Bool {
        let (played, isJudging) = state.withLock { state in
            (state.decisions.judge(now: now).flatMap { state.held[$0] }, state.decisions.isJudging)
        }
        if let played { self.played(played, isThere: true) }
        return isJudging
    }
}
