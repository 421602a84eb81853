import ReelCore
import ReelSources
import ReelThreads
import Synchronization

/// Fetches the beginning and the end of the file that comes after the one that is being played through.
final class Prebuffer: Sendable {
    private struct State {
        var decisions = Prebuffering()
        /// Under way: the file, of which a handle is counted; nil until its first answer.
        var running: [String: RemoteFile?] = [:]
        var cancelled: Set<String> = []
        /// Bytes of a head that are wanted, where more than usual.
        var amounts: [String: Int64] = [:]
        /// What was fetched and closed, and is expected to be opened.
        var kept: (item: String, file: RemoteFile)?
        /// Complete files that are open.
        var held: [String: Node] = [:]
    }

    /// So many times the usual head is fetched where the reader of the played item lacks nothing any more.
    private static let more: Int64 = 4
    /// The rest of a long film: so long what was fetched of the next one is not in vain.
    private static let expectation = Duration.seconds(3 * 3600)

    private let files: FileTable
    private let services: Services
    private let nodes = Mutex<NodeTable?>(nil)
    private let state = Mutex(State())

    init(_ files: FileTable, _ services: Services) {
        self.files = files
        self.services = services
    }

    func connect(_ table: NodeTable) { nodes.withLock { $0 = table } }

    // MARK: What happens

    func played(_ node: Node, isThere: Bool) {
        guard services.options.prebuffer > 0, MediaName.isMedia(node.name), let url = node.url else { return }
        let next = next(after: node)
        perform(state.withLock { $0.decisions.played(url.text, next: next?.text, isThere: isThere) })
    }

    /// A complete file was opened. - Returns: whether `released` has to follow.
    func holds(_ node: Node) -> Bool {
        guard services.options.prebuffer > 0, MediaName.isMedia(node.name), let url = node.url else { return false }
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
        // Subtitles and covers are opened beside a film.
        guard MediaName.isMedia(node.name), let url = node.url else { return }
        perform(state.withLock { $0.decisions.opened(url.text) })
    }

    func closed(_ node: Node, _ file: RemoteFile, isPlayed: Bool) {
        guard let url = node.url else { return }
        perform(state.withLock { $0.decisions.closed(url.text, isPlayed: isPlayed) })
        // The last bytes may have come without a read after them.
        if isPlayed { played(node, isThere: file.isComplete) }
    }

    /// In a listing by name, as its order may be any; in a list as it stands there.
    private func next(after node: Node) -> ResourceURL? {
        guard let directory = nodes.withLock({ $0 })?[node.parent]?.directory,
            let listed = directory.state.withLock({ $0.listing })
        else { return nil }
        let isItem: (SourceEntry) -> Bool = { !$0.isDirectory && MediaName.isMedia($0.name) }
        if directory.url == nil {
            guard let place = listed.entries.place(of: node.name) else { return nil }
            return listed.entries[(place + 1)...].first(where: isItem)?.url
        }
        return listed.entries.lazy.filter { isItem($0) && MediaName.precedes(node.name, $0.name) }
            .min { MediaName.precedes($0.name, $1.name) }?.url
    }

    // MARK: What is done

    private func perform(_ actions: [Prebuffering.Action]) {
        for action in actions {
            switch action {
            case .fetch(let item): if let url = ResourceURL(item) { fetch(url, item) }
            case .more(let item):
                state.withLock { $0.amounts[item] = services.options.prebuffer * Prebuffer.more }
                if let url = ResourceURL(item) { fetch(url, item) }
            case .cancel(let item): cancel(item)
            }
        }
    }

    private func cancel(_ item: String) {
        let (running, kept) = state.withLock { state -> (RemoteFile?, RemoteFile?) in
            state.amounts[item] = nil
            let kept = state.kept?.item == item ? state.kept.take()?.file : nil
            guard let running = state.running[item] else { return (nil, kept) }
            state.cancelled.insert(item)
            return (running, kept)
        }
        running?.cancelPrebuffer()
        if let kept { files.keep(kept, until: .zero) }
    }

    private func fetch(_ url: ResourceURL, _ item: String) {
        let (isFirst, file) = state.withLock { state -> (Bool, RemoteFile?) in
            state.cancelled.remove(item)
            if let running = state.running[item] { return (false, running) }
            state.running[item] = .some(nil)
            return (true, nil)
        }
        if let file { ask(file, item) }
        guard isFirst else { return }
        if let known = services.store.information(for: url.text)?.information, known.length != nil {
            files.open(url, known) { [self] result in
                if case .success(let file) = result { begin(file, item) } else { forget(item) }
            }
        } else {
            FirstTouch.start(url, tail: nil, files, services, finished: { _ in }) { [self] found in
                switch found {
                case .file(let file):
                    services.store.remember(file.information, for: url.text, checkedAt: wallClock())
                    begin(file, item)
                case .growing(let file):
                    // Of a body without a length nothing can be fetched but all.
                    file.closed()
                    forget(item)
                case .failure: forget(item)
                }
            }
        }
    }

    private func begin(_ file: RemoteFile, _ item: String) {
        let isWanted = state.withLock { state in
            state.running[item] = file
            return !state.cancelled.contains(item)
        }
        if isWanted { ask(file, item) }
        services.ticker.add(self)
    }

    private func ask(_ file: RemoteFile, _ item: String) {
        let more = state.withLock { $0.amounts[item] }
        let usual = services.options.prebuffer
        file.prebuffer([ByteRange(0, min(file.length, usual))] + (Readahead.tail(of: file.length).map { [$0] } ?? []))
        if let more, file.length > usual { file.prebuffer([ByteRange(usual, min(file.length, more))], isSpare: true) }
    }

    /// - Returns: whether somebody is expected to open it.
    @discardableResult
    private func forget(_ item: String) -> Bool {
        state.withLock { state in
            state.running[item] = nil
            state.amounts[item] = nil
            return state.cancelled.remove(item) == nil
        }
    }
}

extension Prebuffer: Ticking {
    /// Closes what is fetched, or does not come.
    func tick(_ now: Duration) -> Bool {
        let running = state.withLock { state in state.running.compactMap { item, file in file.map { (item, $0) } } }
        for (item, file) in running where !file.isPrebuffering {
            let isExpected = forget(item)
            files.close(file)
            guard isExpected else { continue }
            files.keep(file, until: now + Prebuffer.expectation)
            state.withLock { $0.kept = (item, file) }
        }
        let (played, isJudging) = state.withLock { state in
            (state.decisions.judge(now: now).flatMap { state.held[$0] }, state.decisions.isJudging)
        }
        if let played { self.played(played, isThere: true) }
        return isJudging || running.contains { $0.1.isPrebuffering }
    }
}
