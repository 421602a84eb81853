import ReelFilesystem

/// How many references to each node the kernel holds through one session: 8 bytes a node, as it may know a million.
struct NodeCounts {
    /// 1024 neighbours: of each the generation, above 44 bits for the count.
    private struct Page {
        var used = 0
        var entries = [UInt64](repeating: 0, count: 1024)
    }

    /// By the node's number without the low ten bits and the generation (`NodeTable`). A slot gets its next generation
    /// only after the kernel has forgotten the last one.
    private var pages: [UInt64: Page] = [:]

    private static let generation: UInt64 = 0xF_FFFF << 32
    private static let countMask: UInt64 = (1 << 44) - 1

    var isEmpty: Bool { pages.isEmpty }

    mutating func add(_ node: NodeID, _ count: UInt64 = 1) {
        let (page, place) = Self.place(of: node)
        Self.change(&pages[page, default: Page()], place) { entry in
            entry =
                (node & Self.generation) << 12
                | min((entry & Self.countMask) + min(count, Self.countMask), Self.countMask)
        }
    }

    /// - Parameter count: more than there are stands for all.
    mutating func remove(_ node: NodeID, _ count: UInt64) {
        let (page, place) = Self.place(of: node)
        guard let index = pages.index(forKey: page) else { return }
        Self.change(&pages.values[index], place) { entry in
            let left = entry & Self.countMask
            entry = count >= left ? 0 : entry - count
        }
        if pages.values[index].used == 0 { pages.remove(at: index) }
    }

    /// The nodes with references, each with their number.
    func forEach(_ body: (NodeID, UInt64) -> Void) {
        for (key, page) in pages {
            for (place, entry) in page.entries.enumerated() where entry != 0 {
                let node = key << 10 | UInt64(place) | entry >> 12 & Self.generation
                body(node, entry & Self.countMask)
            }
        }
    }

    private static func place(of node: NodeID) -> (page: UInt64, place: Int) {
        ((node & ~generation) >> 10, Int(node & 1023))
    }

    private static func change(_ page: inout Page, _ place: Int, _ body: (inout UInt64) -> Void) {
        let wasUsed = page.entries[place] != 0
        body(&page.entries[place])
        page.used += (page.entries[place] != 0 ? 1 : 0) - (wasUsed ? 1 : 0)
    }
}
