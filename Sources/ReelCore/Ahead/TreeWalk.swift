/// The order in which the folders of a tree are listed, several at once: a folder before those in it, and all of those
/// before its later siblings, as most programs walk.
package struct TreeWalk<Folder: Sendable>: Sendable {
    /// Places a folder in the order of the walk: its index among its siblings, below those of the folders above it.
    package typealias Order = [UInt32]

    package enum Step: Sendable {
        /// List the folder at a place of a listed one.
        case enter(place: UInt32, of: Folder, Order)
        /// List a folder that is held already.
        case list(Folder, Order)
        /// The walk needs the folder no more.
        case leave(Folder)
        /// All that may run does.
        case wait
        /// Every folder is listed.
        case end
    }

    /// A listed folder whose children have their turns, or one that is to be listed itself.
    private struct Item: Sendable {
        let folder: Folder
        let order: Order
        /// The places of its children, the next one last, nil if it has its own turn.
        var children: [UInt32]?
        var next: UInt32 = 0

        /// The order of the folder that has the next turn.
        var nextOrder: Order { children == nil ? order : order + [next] }
    }

    private let atOnce: Int
    /// The first one last.
    private var items: [Item] = []
    private(set) package var running = 0
    /// Folders whose listing began and was not given back.
    private(set) package var started = 0

    /// - Parameter atOnce: folders that are listed at a time.
    package init(atOnce: Int) { self.atOnce = atOnce }

    /// Begins at a folder. - Parameter children: the places of its children in their order; nil if it is not listed
    ///   yet.
    package mutating func begin(_ folder: Folder, children: [UInt32]? = nil) {
        insert(Item(folder: folder, order: [], children: children.map { $0.reversed() }))
    }

    /// What to do next. - Parameter limit: folders that may have been started in all.
    package mutating func next(limit: Int = .max) -> Step {
        guard let item = items.last else { return running == 0 ? .end : .wait }
        if item.children?.isEmpty == true {
            items.removeLast()
            return .leave(item.folder)
        }
        guard running < atOnce, started < limit else { return .wait }
        running += 1
        started += 1
        guard let place = items[items.count - 1].children?.removeLast() else {
            items.removeLast()
            return .list(item.folder, item.order)
        }
        items[items.count - 1].next += 1
        return .enter(place: place, of: item.folder, item.nextOrder)
    }

    /// A folder's listing has ended. - Parameter children: the places of its children in their order. - Returns: false
    ///   where the walk needs the folder no more.
    package mutating func ended(_ folder: Folder, _ order: Order, children: [UInt32] = []) -> Bool {
        running -= 1
        guard !children.isEmpty else { return false }
        insert(Item(folder: folder, order: order, children: children.reversed()))
        return true
    }

    /// A place has turned out to hold no folder.
    package mutating func skipped() { running -= 1 }

    /// A folder's listing was given up, and has its turn again.
    package mutating func givenBack(_ folder: Folder, _ order: Order) {
        running -= 1
        started -= 1
        insert(Item(folder: folder, order: order))
    }

    /// Ends the walk. - Returns: the folders that it holds except for those that are being listed.
    package mutating func end() -> [Folder] {
        defer { items = [] }
        return items.map(\.folder)
    }

    /// Items keep their order among each other: whatever comes of a folder's children is before its next child.
    private mutating func insert(_ item: Item) {
        let order = item.nextOrder
        let place = items.lastIndex { order.lexicographicallyPrecedes($0.nextOrder) }.map { $0 + 1 } ?? 0
        items.insert(item, at: place)
    }
}
