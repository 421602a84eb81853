import ReelCore
import ReelFilesystem
import ReelThreads

/// Lists folders ahead of the programs that walk through the tree, in the background; `Walks` decides where, and how
/// many.
final class TreeAhead: Ticking {
    struct State {
        var walks = Walks()
        /// By the node of the folder at which each begins.
        var running: [NodeID: FolderWalk] = [:]
    }

    /// A node below more folders is in a tree without end.
    private static let mostAbove = 256

    private let tree: Tree
    private let isEnabled: Bool
    let state = Lock(State())

    init(_ tree: Tree) {
        self.tree = tree
        isEnabled = tree.source.listsAhead
    }

    /// A program begins to read a directory. - Returns: for `answered`, once the directory's listing is there, nil if
    ///   it is of no walk.
    func reads(_ node: Node, _ directory: Directory) -> NodeID? {
        guard isEnabled else { return nil }
        let isListed = directory.listing != nil
        if isListed, state.withLock({ $0.walks.isQuiet }) { return nil }
        let above = above(node)
        let moment = now()
        let (decision, walk, stopped) = state.withLock { state -> (Walks.Decision, FolderWalk?, [FolderWalk]) in
            let decision = state.walks.reads(node.id, above: above.map(\.id), isListed: isListed, now: moment)
            switch decision {
            case .none: return (decision, nil, [])
            case .goesOn(let root, _): return (decision, state.running[root], [])
            case .begins(let root, _, let instead):
                let stopped = instead.compactMap { state.running.removeValue(forKey: $0) }
                let walk = FolderWalk(tree, .ahead) { [weak self] in self?.listed(below: root, $0) }
                state.running[root] = walk
                return (decision, walk, stopped)
            }
        }
        tree.services.ticker.add(self)
        for walk in stopped { walk.end() }
        switch decision {
        case .none: return nil
        case .goesOn(let root, let limit):
            walk?.allow(limit)
            return root
        case .begins(let root, let limit, _):
            let path = above.dropLast().reversed().map(\.name).joined(separator: "/")
            if let parent = tree.nodes.hold(root) {
                let folder = FolderWalk.Folder(path: path, node: parent, listed: parent.directory?.listing)
                walk?.start(in: folder, from: node.name)
            }
            walk?.allow(limit)
            return root
        }
    }

    /// The program has the listing that it waited for, or an error.
    func answered(_ walk: NodeID) {
        let moment = now()
        state.withLock { $0.walks.answered(walk, now: moment) }
    }

    /// Ends all walks.
    func end() {
        let running = state.withLock { state in
            defer { (state.walks, state.running) = (Walks(), [:]) }
            return Array(state.running.values)
        }
        for walk in running { walk.end() }
    }

    func tick(_ now: Duration) -> Bool {
        let (resting, over, isQuiet) = state.withLock { state in
            let stopped = state.walks.takeStopped(now: now)
            let over = stopped.over.compactMap { state.running.removeValue(forKey: $0) }
            return (stopped.resting.compactMap { state.running[$0] }, over, state.walks.isQuiet)
        }
        for walk in resting { walk.rest() }
        for walk in over { walk.end() }
        return !isQuiet
    }

    private func listed(below root: NodeID, _ progress: FolderWalk.Progress) {
        guard case .folder(let hasFailed) = progress else { return }
        let moment = now()
        let over = state.withLock { state in
            let isOver = state.walks.ahead(root, hasFailed: hasFailed, now: moment)
            return isOver ? state.running.removeValue(forKey: root) : nil
        }
        over?.end()
    }

    /// The folders above one, its parent first and the root last.
    private func above(_ node: Node) -> [Node] {
        var above: [Node] = []
        var node = node
        while node.id != rootNode, above.count < Self.mostAbove, let parent = tree.nodes.peek(node.parent) {
            above.append(parent)
            node = parent
        }
        return above
    }
}
