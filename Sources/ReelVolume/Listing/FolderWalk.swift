import ReelCore
import ReelSources
import ReelThreads

/// Lists a folder and those below it in the background: again by command, all of them after the mount, or some ahead of
/// a program. It holds folders as the kernel holds a node, until they and all below them are done.
final class FolderWalk: Sendable {
    struct Folder: Sendable {
        let path: String
        let node: Node
        /// The listing in which the walk counts the places of those in it, nil if it is not listed yet.
        var listed: Directory.Listed?
    }

    /// What came of one folder.
    enum Found: Sendable {
        /// - Parameter trouble: why the listing is not a new one, nil if it is, or need not be.
        case listed(Directory.Listed, trouble: String?)
        case failed(String)
        /// It was given up before the answer had come.
        case givenUp
    }

    enum Purpose: Sendable {
        /// Lists them again, whatever there is; with those below or without.
        case again(isRecursive: Bool)
        /// Lists the ones that are not listed, or whose listing is due.
        case warm
        /// Lists the ones that are not listed, as many as `allow` says, and keeps them at hand.
        case ahead

        /// Folders at a time: with a command a quarter of an origin's slots, as players go on meanwhile. The others go
        /// after all that programs wait for, in the slots that the origin's queue leaves them; an FTP server has three
        /// in all.
        fileprivate func atOnce(_ source: any Source) -> Int {
            if case .again = self { return 4 }
            return source.root.url?.fileProtocol == nil ? 16 : 2
        }
        fileprivate var keeps: Bool { if case .again = self { false } else { true } }
        fileprivate var isRecursive: Bool { if case .again(false) = self { false } else { true } }
    }

    /// Bytes of a path, as PATH_MAX: programs reach nothing below, and a tree without end has one here.
    private static let longestPath = 4095
    private static let mostKept = (folders: Walks.mostAhead, size: 16 << 20)

    private let tree: Tree
    private let purpose: Purpose
    private let state: Lock<State>
    /// Called for each folder that was listed, with whether that failed, and then for the end.
    private let progress: @Sendable (Progress) -> Void

    enum Progress: Sendable, Equatable {
        case folder(hasFailed: Bool)
        case end
    }

    init(_ tree: Tree, _ purpose: Purpose, progress: @escaping @Sendable (Progress) -> Void = { _ in }) {
        self.tree = tree
        self.purpose = purpose
        self.progress = progress
        var limit = Int.max
        if case .ahead = purpose { limit = 0 }
        state = Lock(State(walk: TreeWalk(atOnce: purpose.atOnce(tree.source)), limit: limit))
    }

    /// What has come of it so far; `files` is the number of folders.
    var report: MaintenanceReport { state.withLock { $0.report } }

    /// The status as `reelfs status` shows it.
    var status: VolumeStatus.Warming {
        state.withLock { state in
            VolumeStatus.Warming(
                folders: state.report.files, failed: state.report.failedDirectories.count, isOver: state.isOver)
        }
    }

    // MARK: Orders

    /// Begins with a folder that the caller holds, and the walk from now on.
    func start(at folder: Folder) {
        begin(folder)
        goOn()
    }

    /// One that has ended meanwhile lets go of the folder at once.
    private func begin(_ folder: Folder, children: [UInt32]? = nil) {
        let isOver = state.withLock { state in
            if !state.isOver { state.walk.begin(folder, children: children) }
            return state.isOver
        }
        if isOver { leave(folder) }
    }

    /// Begins with the folders of one that is listed, and that the caller holds: `name` and those behind it first.
    func start(in folder: Folder, from name: String) {
        guard let listed = folder.listed else { return leave(folder) }
        let places = Self.folders(of: listed)
        let first = listed.entries.place(of: name) ?? 0
        // Most programs read in the listing's order: what is listed of the others lies behind them.
        let others = places.filter { $0 < first && !isListed(listed.entries.name(at: Int($0)), in: folder.node) }
        let children = places.filter { $0 >= first } + others
        begin(folder, children: children)
    }

    /// Lists up to this many folders in all.
    func allow(_ limit: Int) {
        state.withLock { $0.limit = limit }
        goOn()
    }

    /// Lists no more for now, and gives up what no caller waits for.
    func rest() {
        let running = state.withLock { state in
            state.limit = 0
            return Array(state.running.values)
        }
        for directory in running { directory.demand.giveUp() }
    }

    /// Ends the walk and lets go of what it holds; what a caller waits for goes on.
    func end() {
        rest()
        let held = state.withLock { state in
            state.isOver = true
            defer { state.kept = [] }
            return state.walk.end() + state.kept.map(\.folder)
        }
        for folder in held { leave(folder) }
    }

    // MARK: On the queue

    private func goOn() {
        let isFirst = state.withLock { state in
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if isFirst { tree.services.later { [self] in advance() } }
    }

    /// Takes one step; only the `chores` queue calls it, and does other jobs between two.
    private func advance() {
        let hasEnded = tree.services.hasEnded
        let step = state.withLock { state in
            state.isScheduled = false
            if hasEnded { state.isOver = true }
            return state.isOver ? TreeWalk<Folder>.Step.wait : state.walk.next(limit: state.limit)
        }
        switch step {
        case .wait: return hasEnded ? progress(.end) : ()
        case .end: return finish()
        case .leave(let folder): keepOrLeave(folder)
        case .list(let folder, let order): list(folder, order)
        case .enter(let place, let folder, let order):
            if let child = Self.enter(place, of: folder, tree) {
                list(child, order)
            } else {
                state.withLock { $0.walk.skipped() }
            }
        }
        goOn()
    }

    private func finish() {
        // A walk ahead of a program keeps its folders until `end` is called.
        if case .ahead = purpose { return }
        end()
        progress(.end)
    }

    private func list(_ folder: Folder, _ order: TreeWalk<Folder>.Order) {
        guard let directory = folder.node.directory else { return ended(folder, order, .failed("it is no directory")) }
        state.withLock { $0.running[ObjectIdentifier(directory)] = directory }
        let done: @Sendable (Found) -> Void = { [self] found in
            state.withLock { $0.running[ObjectIdentifier(directory)] = nil }
            ended(folder, order, found)
        }
        switch purpose {
        case .again: tree.listAgain(folder.node, directory, done)
        case .warm: tree.listAhead(folder.node, directory, refreshes: true, done)
        case .ahead: tree.listAhead(folder.node, directory, done)
        }
        // `rest` may have been called between the walk's step and this.
        if state.withLock({ $0.limit == 0 }) { directory.demand.giveUp() }
    }

    /// May be called inside of `list`.
    private func ended(_ folder: Folder, _ order: TreeWalk<Folder>.Order, _ found: Found) {
        var folder = folder
        var children: [UInt32] = []
        if case .listed(let listed, _) = found {
            folder.listed = listed
            if purpose.isRecursive { children = Self.folders(of: listed) }
        }
        let (isHeld, isOver, isLast) = state.withLock { state in
            let wasOver = state.isOver
            if case .givenUp = found {
                if !wasOver { state.walk.givenBack(folder, order) }
                return (!wasOver, wasOver, wasOver && state.running.isEmpty)
            }
            state.note(folder, found)
            let isHeld = state.walk.ended(folder, order, children: state.isOver ? [] : children)
            return (isHeld, state.isOver, state.isOver && state.running.isEmpty)
        }
        if !isHeld { keepOrLeave(folder) }
        switch found {
        case .listed: progress(.folder(hasFailed: false))
        case .failed: progress(.folder(hasFailed: true))
        case .givenUp: break
        }
        if isOver { end() }
        if isLast { progress(.end) }
        if !isOver { goOn() }
    }

    // MARK: Folders

    private static func folders(of listed: Directory.Listed) -> [UInt32] {
        let entries = listed.entries
        return (0..<entries.count).filter { entries.isDirectory(at: $0) }.map { UInt32($0) }
    }

    /// A directory in a listing, held; nil where the present listing has another entry there, or a path is too long.
    static func enter(_ place: UInt32, of folder: Folder, _ tree: Tree) -> Folder? {
        guard let listed = folder.listed else { return nil }
        let path = joinedPath(folder.path, listed.entries.name(at: Int(place)))
        guard path.utf8.count <= longestPath,
            case .success(let entry)? = tree.knownEntry(Int(place), of: listed, in: folder.node)
        else { return nil }
        if let node = tree.nodes[entry.node], node.isDirectory { return Folder(path: path, node: node) }
        tree.nodes.forget(entry.node, count: 1)
        return nil
    }

    private func isListed(_ name: String, in folder: Node) -> Bool {
        let known = tree.nodes.known(name, in: folder)
        return known.flatMap { tree.nodes.peek($0) }?.directory?.listing != nil
    }

    private func leave(_ folder: Folder) { tree.nodes.forget(folder.node.id, count: 1) }

    /// The walk needs the folder no more, and a program may: also as the parent of one that is being listed.
    private func keepOrLeave(_ folder: Folder) {
        guard purpose.keeps, let listed = folder.listed else { return leave(folder) }
        let size = listed.entries.footprint
        let old = state.withLock { state -> [Folder] in
            guard !state.isOver else { return [folder] }
            state.kept.append((folder, size))
            state.keptSize += size
            var old: [Folder] = []
            while state.kept.count > Self.mostKept.folders || state.keptSize > Self.mostKept.size {
                let first = state.kept.removeFirst()
                state.keptSize -= first.size
                old.append(first.folder)
            }
            return old
        }
        for folder in old { leave(folder) }
    }
}
