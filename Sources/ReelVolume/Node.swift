import ReelCore
import ReelSources
import Synchronization

/// One version of one path, as the kernel knows it.
final class Node: Sendable {
    let id: NodeID
    let parent: NodeID
    let name: String
    let inode: UInt64
    /// nil: of the root of a local list.
    let url: ResourceURL?
    let isDirectory: Bool
    let directory: Directory?
    /// What the listing said when the node was made; of a directory it may say another date now.
    let listed: Facts
    let state: Mutex<State>

    /// Length in bytes, date in seconds since 1970; nil where not told exactly.
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
    }

    struct State {
        /// What the kernel has been told; a node is never told another version.
        var information: ContentInformation?
        /// The path leads to another node now.
        var isSuperseded = false
        /// While an open asks the origin, others wait for its outcome.
        var opening: [Completion<any FileHandle>]?
        var growing: GrowingFile?
    }

    init(
        id: NodeID, parent: NodeID, name: String, inode: UInt64, place: SourcePlace, isDirectory: Bool, listed: Facts
    ) {
        self.id = id
        self.parent = parent
        self.name = name
        self.inode = inode
        url = place.url
        self.isDirectory = isDirectory
        self.listed = listed
        directory = isDirectory ? Directory(place) : nil
        state = Mutex(State())
    }

    /// The length that the kernel is told; nil where only a request can tell.
    var length: Int64? {
        state.withLock { state in
            if let information = state.information { return information.length }
            return listed.length
        }
    }
}

extension Node {
    func isStill(_ entry: SourceEntry, _ facts: Facts) -> Bool {
        guard isDirectory == entry.isDirectory, url == entry.url else { return false }
        // Its date is the list's: see `NodeTable.modified`.
        if isDirectory { return true }
        return state.withLock { state in
            if state.isSuperseded { return false }
            if facts == listed { return true }
            // A listing that now says what the origin said all along changes nothing.
            guard let information = state.information else { return false }
            return facts.length == nil || information.length == facts.length
        }
    }
}

/// Stable over remounts, as it is made of the path alone (FNV-1a, 64 bits). Only programs see it: two files with one
/// number would confuse `find` or `tar`, never a read, as the kernel goes by node.
func inodeNumber(of name: String, in parent: UInt64) -> UInt64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for shift in stride(from: 0, to: 64, by: 8) { hash = (hash ^ (parent >> UInt64(shift) & 255)) &* 0x100_0000_01b3 }
    for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return hash < 2 ? hash + 2 : hash
}
