import ReelCore
import ReelSources
import ReelThreads
import Synchronization

/// Fetches the beginning and the end of the file that comes after the one that is being played through.
final class Prebuffer: Sendable {
    /// An item under way. Only who takes it out of the state closes its file.
    private struct Running {
        /// A handle of it is counted; nil until its first answer.
        var file: RemoteFile?
        /// Bytes of its head that are wanted, where more than usual.
        var amount: Int64?
        var isCancelled = false
        /// How often it was asked for, and how often that is done: before, nothing under way does not mean that it is over.
        var asked = 0
        var done = 0
    }

    private struct State {
        var decisions = Prebuffering()
        var running: [String: Running] = [:]
        /// Taken out of it, and not yet closed.
        var closing = 0
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
    private let tree = Mutex<(nodes: NodeTable, source: any Source)?>(nil)
    private let state = Mutex(State())

    init(_ files: FileTable, _ services: Services) {
        self.files = files
        self.services = services
    }

    func connect(_ nodes: NodeTable, _ source: any Source) { tree.withLock { $0 = (nodes, source) } }

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
        guard let (nodes, source) = tree.withLock({ $0 }), let directory = nodes[node.parent]?.directory,
            let listed = directory.state.withLock({ $0.listing })
        else { return nil }
        let entries = listed.entries
        let isItem: (Int) -> Bool = { !entries.isDirectory(at: $0) && MediaName.isMedia(entries.name(at: $0)) }
        if source.isQueue(directory.place) {
            guard let place = entries.place(of: node.name) else { return nil }
            return entries.indices[(place + 1)...].first(where: isItem).map { entries[$0].url }
        }
        // Names alone: whole entries of a long listing would be made on the kernel's thread.
        var next: (place: Int, name: String)?
        for place in entries.indices where isItem(place) {
            let name = entries.name(at: place)
            guard MediaName.precedes(node.name, name), next.map({ MediaName.precedes(name, $0.name) }) ?? true
            else { continue }
            next = (place, name)
        }
        return next.map { entries[$0.place].url }
    }

    // MARK: What is done

    private func perform(_ actions: [Prebuffering.Action]) {
        for action in actions {
            switch action {
            case .fetch(let item): if let url = ResourceURL(item) { fetch(url, item) }
            case .more(let item):
                if let url = ResourceURL(item) { fetch(url, item, services.options.prebuffer * Prebuffer.more) }
            case .cancel(let item): cancel(item)
            }
        }
    }

    private func cancel(_ item: String) {
        let (running, kept) = state.withLock { state -> (RemoteFile?, RemoteFile?) in
            state.running[item]?.amount = nil
            state.running[item]?.isCancelled = true
            let kept = state.kept?.item == item ? state.kept.take()?.file : nil
            return (state.running[item]?.file, kept)
        }
        running?.cancelPrebuffer()
        if let kept { files.keep(kept, until: .zero) }
    }

    /// - Parameter amount: of its head, where it is more than usual.
    private func fetch(_ url: ResourceURL, _ item: String, _ amount: Int64? = nil) {
        let (isFirst, file) = state.withLock { state -> (Bool, RemoteFile?) in
            let isFirst = state.running[item] == nil
            var running = state.running[item] ?? Running()
            running.isCancelled = false
            running.amount = amount ?? running.amount
            if running.file != nil { running.asked += 1 }
            state.running[item] = running
            return (isFirst, running.file)
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
                case .file(let file) where file.isOpenEnded:
                    // Of a body without a length nothing can be fetched but all.
                    files.close(file)
                    forget(item)
                case .file(let file):
                    services.store.remember(file.information, for: url.text, checkedAt: wallClock())
                    begin(file, item)
                case .failure: forget(item)
                }
            }
        }
    }

    private func begin(_ file: RemoteFile, _ item: String) {
        state.withLock { state in
            state.running[item]?.file = file
            state.running[item]?.asked += 1
        }
        ask(file, item)
        services.ticker.add(self)
    }

    /// - Precondition: counted in `asked`.
    private func ask(_ file: RemoteFile, _ item: String) {
        defer { state.withLock { $0.running[item]?.done += 1 } }
        let (isWanted, more) = state.withLock { state in
            (state.running[item]?.isCancelled == false, state.running[item]?.amount)
        }
        guard isWanted else { return }
        let usual = services.options.prebuffer
        file.prebuffer([ByteRange(0, min(file.length, usual))] + (Readahead.tail(of: file.length).map { [$0] } ?? []))
        if let more, file.length > usual { file.prebuffer([ByteRange(usual, min(file.length, more))], isSpare: true) }
    }

    private func forget(_ item: String) { state.withLock { $0.running[item] = nil } }

    /// Closes what is fetched, unless somebody else does, or it was asked for once more since `asked` was read.
    private func finish(_ item: String, _ file: RemoteFile, asked: Int) {
        let isExpected = state.withLock { state -> Bool? in
            guard let running = state.running[item], running.file === file, running.asked == asked else { return nil }
            state.running[item] = nil
            state.closing += 1
            if !running.isCancelled { state.kept = (item, file) }
            return !running.isCancelled
        }
        guard let isExpected else { return }
        files.close(file)
        if isExpected { files.keep(file, until: now() + Prebuffer.expectation) }
        let isKept = state.withLock { state in
            state.closing -= 1
            return state.kept?.file === file
        }
        // It may have been cancelled before its account could be kept open.
        if isExpected, !isKept { files.keep(file, until: .zero) }
    }
}

extension Prebuffer: Ticking {
    /// Closes what is fetched, or does not come.
    func tick(_ now: Duration) -> Bool {
        let running = state.withLock { state in
            state.running.compactMap { item, running in running.file.map { (item, $0, running) } }
        }
        for (item, file, at) in running where at.asked == at.done && !file.isPrebuffering {
            finish(item, file, asked: at.asked)
        }
        let (played, isJudging) = state.withLock { state in
            (state.decisions.judge(now: now).flatMap { state.held[$0] }, state.decisions.isJudging)
        }
        if let played { self.played(played, isThere: true) }
        return isJudging || state.withLock { $0.closing > 0 || $0.running.contains { $0.value.file != nil } }
    }
}
