import ReelFilesystem
import ReelThreads

/// A folder that counts what is asked of it.
final class ListedFolder: DirectoryHandle {
    struct Counts: Sendable {
        /// Items that were given out.
        var items = 0
        /// Nodes that an item counted, and that were not given back.
        var references = 0
    }

    /// - Parameter index: of an entry.
    private let make: @Sendable (_ index: Int) -> (name: String, attributes: Attributes?)
    private let count: Int
    private let state = Lock(Counts())
    let isHeldByKernel = false

    init(_ count: Int, _ make: @escaping @Sendable (_ index: Int) -> (name: String, attributes: Attributes?)) {
        self.count = count
        self.make = make
    }

    convenience init(_ entries: [(name: String, attributes: Attributes?)]) {
        self.init(entries.count) { entries[$0] }
    }

    /// A folder of films with names so long that a few thousand are more than sockets take.
    static func films(_ count: Int) -> ListedFolder {
        ListedFolder(count) { index in
            let name = "\(index) \(String(repeating: "long name ", count: 20)).mkv"
            return (name, Attributes(inode: 9, isDirectory: false, length: 1 << 30, modified: 1_700_000_000))
        }
    }

    var counts: Counts { state.withLock { $0 } }
    func forget() { state.withLock { $0.references -= 1 } }

    func items(from offset: Int, withAttributes: Bool, _ add: (DirectoryItem) -> Bool) {
        for place in offset..<max(offset, count + 2) {
            let known = place < 2 ? (place == 0 ? "." : "..", nil) : make(place - 2)
            let isDirectory = known.1?.isDirectory ?? (place < 2)
            var item = DirectoryItem(name: known.0, inode: 9, isDirectory: isDirectory, nextOffset: place + 1)
            if withAttributes { item.entry = known.1.map { Entry(node: 9, attributes: $0) } }
            state.withLock { $0.items += 1 }
            guard add(item) else { return }
            if item.entry != nil { state.withLock { $0.references += 1 } }
        }
    }
}
