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
    }

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

    func played(_ node: Node) {
        guard services.options.prebuffer > 0, MediaName.isMedia(node.name), let url = node.url else { return }
        let next = next(after: node)
        perform(state.withLock { $0.decisions.played(url.text, next: next?.text) })
    }

    func opened(_ node: Node) {
        // Subtitles and covers are opened beside a film.
        guard MediaName.isMedia(node.name), let url = node.url else { return }
        perform(state.withLock { $0.decisions.opened(url.text) })
    }

    func closed(_ node: Node, isPlayed: Bool) {
        guard let url = node.url else { return }
        perform(state.withLock { $0.decisions.closed(url.text, isPlayed: isPlayed) })
        // The last bytes may have come without a read after them.
        if isPlayed { played(node) }
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
            case .cancel(let item):
                let file = state.withLock { state -> RemoteFile? in
                    guard let running = state.running[item] else { return nil }
                    if running == nil { state.cancelled.insert(item) }
                    return running
                }
                file?.cancelPrebuffer()
            }
        }
    }

    private func fetch(_ url: ResourceURL, _ item: String) {
        let isFirst = state.withLock { state in
            state.cancelled.remove(item)
            guard state.running[item] == nil else { return false }
            state.running[item] = .some(nil)
            return true
        }
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
            return state.cancelled.remove(item) == nil
        }
        if isWanted {
            let head = ByteRange(0, min(file.length, services.options.prebuffer))
            file.prebuffer([head] + (Readahead.tail(of: file.length).map { [$0] } ?? []))
        }
        services.ticker.add(self)
    }

    private func forget(_ item: String) {
        state.withLock { state in
            state.running[item] = nil
            state.cancelled.remove(item)
            state.decisions.finished(item)
        }
    }
}

extension Prebuffer: Ticking {
    /// Closes what is fetched, or does not come.
    func tick(_ now: Duration) -> Bool {
        let running = state.withLock { state in state.running.compactMap { item, file in file.map { (item, $0) } } }
        for (item, file) in running where !file.isPrebuffering {
            forget(item)
            files.close(file)
        }
        return running.contains { $0.1.isPrebuffering }
    }
}
