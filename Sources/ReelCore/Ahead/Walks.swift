/// Decides from the folders that programs read which trees they walk through, and how many folders may be listed ahead
/// of them.
///
/// A program walks where it has read three folders of one parent in turn that were not listed. From then on each folder
/// that it reads below that parent raises the number of those that may be listed there.
package struct Walks: Sendable {
    /// Names a folder.
    package typealias Folder = UInt64

    package enum Decision: Equatable, Sendable {
        case none
        /// List the tree below `root` from now on, and those below `instead` no more.
        case begins(root: Folder, limit: Int, instead: [Folder])
        /// Up to this many folders may be listed below `root` in all.
        case goesOn(root: Folder, limit: Int)
    }

    /// Folders of one parent that make a walk. People look into one or two.
    static let firstFolders = 3
    /// A program that takes longer for a folder gains little from the round trip that it is spared.
    static let longestPause = Duration.seconds(5)
    /// Then the walk is forgotten.
    static let end = Duration.seconds(30)
    /// What the reading of one folder adds to those that may be listed ahead: as many as are listed at once.
    static let aheadOfEach = 16
    /// The most folders that are listed and not read.
    package static let mostAhead = 1024
    static let mostWalks = 4
    static let mostParents = 64
    /// This many failures in a row end a walk, and for a while none begins: an origin in trouble is asked less.
    static let mostFailures = 4
    static let bar = Duration.seconds(10)

    /// A folder of which some children were read.
    private struct Parent: Sendable {
        let folder: Folder
        var children: [Folder]
        var at: Duration
    }

    private struct Walk: Sendable {
        let root: Folder
        /// The folders above the root.
        let above: [Folder]
        var reads = Walks.firstFolders
        /// Reads that wait for a listing: while there are any the program has not stopped.
        var waiting = 1
        var at: Duration
        var isResting = false
        var failures = 0

        var limit: Int {
            let reads = reads - Walks.firstFolders
            return reads + min(Walks.aheadOfEach * (reads + 1), Walks.mostAhead)
        }
    }

    // Without removeAll(where:) on either: beside firstIndex(where:), the compiler makes of it now this and now that,
    // and two builds have other bytes.
    /// The one of which a child was read last comes last.
    private var parents: [Parent] = []
    private var walks: [Walk] = []
    /// Once nothing was read for so long the program has stopped, and no folder is listed until it goes on.
    package var rest = Duration.milliseconds(700)
    private var barredUntil = Duration.zero

    package init() {}

    /// Whether the reading of a folder that is listed changes nothing.
    package var isQuiet: Bool { walks.isEmpty && parents.isEmpty }

    /// A program begins to read a folder; `answered` follows unless the decision is `none`.
    /// - Parameters:
    ///   - above: the folders above it, its parent first.
    ///   - isListed: its listing is there.
    ///   - now: on any clock that only goes on.
    package mutating func reads(_ folder: Folder, above: [Folder], isListed: Bool, now: Duration) -> Decision {
        for place in parents.indices where above.contains(parents[place].folder) {
            if now - parents[place].at > Self.longestPause { parents[place].children = [] }
            parents[place].at = now
        }
        if let place = walks.firstIndex(where: { above.contains($0.root) }) {
            walks[place].reads += 1
            walks[place].waiting += 1
            walks[place].at = now
            walks[place].isResting = false
            return .goesOn(root: walks[place].root, limit: walks[place].limit)
        }
        guard !isListed, let root = above.first, count(folder, of: root, now) >= Self.firstFolders, now >= barredUntil
        else { return .none }
        parents = parents.filter { $0.folder != root }
        var instead = walks.filter { $0.above.contains(root) }.map(\.root)
        if walks.count - instead.count >= Self.mostWalks {
            let others = walks.filter { !instead.contains($0.root) }
            instead += others.min { $0.at < $1.at }.map { [$0.root] } ?? []
        }
        walks = walks.filter { !instead.contains($0.root) }
        let walk = Walk(root: root, above: Array(above.dropFirst()), at: now)
        walks.append(walk)
        return .begins(root: root, limit: walk.limit, instead: instead)
    }

    /// Notes a child that was read. - Returns: how many were.
    private mutating func count(_ folder: Folder, of root: Folder, _ now: Duration) -> Int {
        var parent = Parent(folder: root, children: [], at: now)
        if let place = parents.firstIndex(where: { $0.folder == root }) { parent = parents.remove(at: place) }
        if !parent.children.contains(folder), parent.children.count < Self.firstFolders {
            parent.children.append(folder)
        }
        parents.append(parent)
        if parents.count > Self.mostParents { parents.removeFirst() }
        return parent.children.count
    }

    /// A read below `root` has its listing, or has failed.
    package mutating func answered(_ root: Folder, now: Duration) {
        guard let place = walks.firstIndex(where: { $0.root == root }) else { return }
        walks[place].waiting = max(0, walks[place].waiting - 1)
        walks[place].at = now
    }

    /// A folder below `root` was listed ahead, or could not be. - Returns: true where the walk ends with it.
    package mutating func ahead(_ root: Folder, hasFailed: Bool, now: Duration) -> Bool {
        guard let place = walks.firstIndex(where: { $0.root == root }) else { return false }
        walks[place].failures = hasFailed ? walks[place].failures + 1 : 0
        guard walks[place].failures >= Self.mostFailures else { return false }
        walks.remove(at: place)
        parents = []
        barredUntil = now + Self.bar
        return true
    }

    /// What has stopped: walks at rest, whose folders are listed no more until a program reads on, and those that are
    /// over.
    package mutating func takeStopped(now: Duration) -> (resting: [Folder], over: [Folder]) {
        parents = parents.filter { now - $0.at <= Self.longestPause }
        let over = walks.filter { $0.waiting == 0 && now - $0.at >= Self.end }.map(\.root)
        walks = walks.filter { !over.contains($0.root) }
        var resting: [Folder] = []
        for place in walks.indices {
            let walk = walks[place]
            guard !walk.isResting, walk.waiting == 0, now - walk.at >= rest else { continue }
            walks[place].isResting = true
            resting.append(walk.root)
        }
        return (resting, over)
    }
}
