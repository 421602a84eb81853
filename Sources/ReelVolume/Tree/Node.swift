import ReelCore
import ReelFilesystem
import ReelSources
import ReelThreads

/// One version of one path, as the kernel knows it.
final class Node: Sendable {
    let id: NodeID
    let parent: NodeID
    let name: String
    let inode: UInt64
    /// nil for the root of a local list.
    let url: ResourceURL?
    let isDirectory: Bool
    /// A symbolic link (``LinkFile``).
    let isLink: Bool
    let directory: Directory?
    /// The listing's facts when the node was made; the listing may have another date of a directory now.
    let listed: Facts
    /// Like `Source.keepsDates`.
    private let keepsDate: Bool
    private let state: Lock<State>

    /// A length in bytes and a date in seconds since 1970; nil where they are not known exactly.
    struct Facts: Equatable, Sendable {
        var length: Int64?
        var modified: Int64?

        init(length: Int64? = nil, modified: Int64? = nil) {
            self.length = length
            self.modified = modified
        }

        init(_ entry: SourceEntry) { self.init(length: entry.length, modified: entry.modified) }

        init(_ list: EntryList, at place: Int) {
            self.init(length: list.length(at: place), modified: list.modified(at: place))
        }

        /// Whether a listing with the facts `told` agrees with these; many show no seconds.
        func agrees(with told: Facts) -> Bool {
            guard length == told.length, let mine = modified, let other = told.modified else { return self == told }
            return mine == other || (seconds(mine) == 0 || seconds(other) == 0) && minute(mine) == minute(other)
        }

        private func seconds(_ date: Int64) -> Int64 { (date % 60 + 60) % 60 }
        private func minute(_ date: Int64) -> Int64 { date - seconds(date) }
    }

    private struct State {
        /// The version that the kernel has; it never gets another one of this node, except for a longer form.
        var information: ContentInformation?
        /// The path leads to another node now.
        var isSuperseded = false
        /// The version is a longer form of the one that the listing, or an earlier answer, gave the facts of.
        var hasGrown = false
        /// The kernel may have pages of it.
        var hasPages = false
        /// The opens that wait while the first of them asks the origin, nil if none asks.
        var opening: (demand: CallDemand, waiting: [Completion<any FileHandle>])?
        /// The last open file whose end is not known.
        weak var growing: RemoteFile?
    }

    init(
        id: NodeID, parent: NodeID, name: String, inode: UInt64, place: SourcePlace, isDirectory: Bool, listed: Facts,
        listing: Directory.Listed? = nil, keepsDate: Bool = false
    ) {
        self.id = id
        self.parent = parent
        self.name = name
        self.inode = inode
        url = place.url
        self.isDirectory = isDirectory
        isLink = !isDirectory && LinkFile.isLink(name, place.url)
        self.listed = listed
        self.keepsDate = keepsDate
        directory = isDirectory ? Directory(place, listing) : nil
        state = Lock(State(), .tree)
    }

    /// The length and date that the kernel gets, for as long as the node lives; nil if they are not known.
    ///
    /// A listing's facts are shown unchanged: an answer gives the date by the second, or in another time zone, and an
    /// open must not change a file for programs. The facts of an answer are shown if only it gives the length, and
    /// nothing was shown before.
    var shown: Facts {
        let (information, hasGrown) = state.withLock { ($0.information, $0.hasGrown) }
        guard listed.length == nil || hasGrown, let information else { return listed }
        let told = information.validator.lastModified
        return Facts(
            length: information.length, modified: keepsDate ? listed.modified ?? told : told ?? listed.modified)
    }

    /// The version that the kernel has, nil if none yet.
    var information: ContentInformation? { state.withLock { $0.information } }

    /// The path leads to another node now.
    var isSuperseded: Bool { state.withLock { $0.isSuperseded } }
    func supersede() { state.withLock { $0.isSuperseded = true } }

    /// The open file of this node whose end is not known.
    var growing: RemoteFile? { state.withLock { $0.growing } }
    func grows(_ file: RemoteFile) { state.withLock { $0.growing = file } }

    /// Lets an open wait for `opened`.
    /// - Returns: the demand of all opens that wait, and whether the caller has to ask the origin.
    func open(_ completion: @escaping Completion<any FileHandle>) -> (demand: CallDemand, isFirst: Bool) {
        state.withLock { state in
            let demand = state.opening?.demand ?? CallDemand()
            defer { state.opening = (demand, (state.opening?.waiting ?? []) + [completion]) }
            return (demand, state.opening == nil)
        }
    }

    /// The demand of the opens that wait, nil if none does.
    var openDemand: CallDemand? { state.withLock { $0.opening?.demand } }

    /// Ends the wait. - Returns: the opens that waited.
    func opened() -> [Completion<any FileHandle>] {
        state.withLock { state in
            defer { state.opening = nil }
            return state.opening?.waiting ?? []
        }
    }

    /// Makes the node one of this version. - Returns: false where it is one of another version.
    func take(_ information: ContentInformation) -> Bool {
        state.withLock { state in
            guard let known = state.information else {
                state.information = information
                return true
            }
            return known.isSameVersion(as: information)
        }
    }

    /// The version that the kernel has has become this one. - Returns: whether the kernel has another length of it.
    func grow(to information: ContentInformation) -> Bool {
        state.withLock { state in
            guard let known = state.information, known.length ?? 0 < information.length ?? 0 else { return false }
            (state.information, state.hasGrown) = (information, true)
            return true
        }
    }

    /// The first version of a node may be longer than its listing says: the file has grown since.
    /// - Returns: false where the node has a version, or the listing gives more bytes.
    func begin(grown information: ContentInformation) -> Bool {
        state.withLock { state in
            guard state.information == nil, let told = listed.length, told <= information.length ?? 0 else {
                return false
            }
            (state.information, state.hasGrown) = (information, true)
            return true
        }
    }

    /// The kernel keeps what it reads by a handle from here on. - Returns: whether it may have pages already.
    func takesPages() -> Bool {
        state.withLock { state in
            defer { state.hasPages = true }
            return state.hasPages
        }
    }

    /// Whether a listing's entry is still the one that this node stands for.
    /// - Parameter facts: the entry's length and date, as the mount knows them.
    func isStill(_ entry: SourceEntry, _ facts: Facts) -> Bool {
        guard isDirectory == entry.isDirectory, url == entry.url else { return false }
        // A directory's date is the list's; see `NodeTable.modified`.
        if isDirectory { return true }
        if isSuperseded { return false }
        // A listing that comes to agree with the origin's answers changes nothing.
        if facts == listed || shown.agrees(with: facts) { return true }
        // A listing from the time in between.
        guard state.withLock({ $0.hasGrown }), let length = facts.length else { return false }
        return (listed.length ?? length)..<(shown.length ?? 0) ~= length
    }
}

/// An inode number, stable over remounts as it is made from the path alone (FNV-1a, 64 bits). Only programs see it: two
/// files with one number would confuse `find` or `tar`, never a read, as the kernel goes by node.
func inodeNumber(of name: String, in parent: UInt64) -> UInt64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for shift in stride(from: 0, to: 64, by: 8) { hash = (hash ^ (parent >> UInt64(shift) & 255)) &* 0x100_0000_01b3 }
    for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return hash < 2 ? hash + 2 : hash
}
