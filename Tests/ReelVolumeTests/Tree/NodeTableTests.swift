import ReelCore
import ReelFilesystem
import ReelSources
import TestKit
import Testing

@testable import ReelVolume

/// What the kernel knows, and what that costs.
@Suite struct NodeTableTests {
    private let root = Node(
        id: rootNode, parent: rootNode, name: "", inode: rootNode, place: .url(ResourceURL("http://h/films/")!),
        isDirectory: true, listed: Node.Facts())

    private func entry(_ name: String, _ length: Int64, isDirectory: Bool = false) -> SourceEntry {
        let url = ResourceURL("http://h/films/\(name)\(isDirectory ? "/" : "")")!
        return SourceEntry(name: name, url: url, isDirectory: isDirectory, length: isDirectory ? nil : length)
    }

    private func listed(_ entries: some Sequence<SourceEntry>) -> Directory.Listed {
        Directory.Listed(EntryList(entries), fetchedAt: 0)
    }

    private func look(_ table: NodeTable, _ name: String, _ listed: Directory.Listed, _ directory: Node) -> NodeID? {
        guard let place = listed.entries.place(of: name) else { return nil }
        let facts = Node.Facts(listed.entries, at: place)
        return table.node(at: place, of: listed, facts, in: directory, isUsed: false)?.id
    }

    @Test func aKnownFileTakesLessThanAHundredAndFiftyBytesAndNoObject() {
        let table = NodeTable(root: root)
        let count = LongTests.many(100_000, elseOnly: 20_000)
        let all = listed((0..<count).lazy.map { entry("Show.\($0 / 100).Episode.\(100_000 + $0).mkv", Int64($0)) })
        for place in 0..<all.entries.count {
            let facts = Node.Facts(all.entries, at: place)
            #expect(table.node(at: place, of: all, facts, in: root, isUsed: false)?.node == nil)
        }
        #expect(table.counts == (known: count + 1, used: 1))
        #expect(table.footprint < 150 * all.entries.count)
        let before = table.footprint
        // A refresh without news, and two of which one file has changed.
        for length in [Int64(7), 8, 8] {
            var entries = Array(all.entries)
            entries[5].length = length
            table.adopt(listed(entries), of: root)
        }
        #expect(table.counts.known == count + 1 && table.counts.used <= 3)
        #expect(table.footprint <= before + before / 100)
    }

    @Test func thePlaceOfANodeNeedsNoObject() throws {
        let table = NodeTable(root: root)
        let first = listed([entry("a", 1), entry("sub", 0, isDirectory: true)])
        let ids = try ["a", "sub"].map { try #require(look(table, $0, first, root)) }
        for isUsed in [false, true] {
            if isUsed { for id in ids { _ = table[id] } }
            let places = ids.map { table.place(of: $0) }
            #expect(places.map { $0?.name } == ["a", "sub"] && places.map { $0?.isDirectory } == [false, true])
            #expect(places.allSatisfy { $0?.parent == rootNode })
            #expect(table.counts.used == (isUsed ? 3 : 1))
        }
        table.forget(ids[0], count: 1)
        #expect(table.place(of: ids[0]) == nil)
    }

    @Test func aNodeStaysTheSameForAsLongAsTheListingSaysTheSame() throws {
        let table = NodeTable(root: root)
        let first = listed([entry("a", 1), entry("b", 2), entry("c", 3), entry("d", 4)])
        let ids = try ["a", "b", "c", "d"].map { try #require(look(table, $0, first, root)) }
        _ = table[ids[2]]
        let second = listed([entry("x", 9), entry("c", 3), entry("a", 1), entry("b", 20)])
        table.adopt(second, of: root)
        #expect(look(table, "a", second, root) == ids[0] && look(table, "c", second, root) == ids[2])
        let changed = try #require(look(table, "b", second, root))
        #expect(changed != ids[1])
        // What the kernel still knows by the old numbers is what it got with them.
        #expect(table[ids[1]]?.listed.length == 2 && table[changed]?.listed.length == 20)
        #expect(table[ids[3]]?.name == "d")
        // Who holds the old listing gets nothing that is no longer so, and the rest as it is.
        #expect(look(table, "b", first, root) == nil && look(table, "d", first, root) == nil)
        #expect(look(table, "a", first, root) == ids[0])
    }

    @Test(arguments: [false, true]) func aDirectoryStaysTheSameWhenItsDateChanges(isUsed: Bool) throws {
        let table = NodeTable(root: root)
        var sub = entry("sub", 0, isDirectory: true)
        sub.modified = 1
        let first = listed([sub, entry("a", 1)])
        let id = try #require(look(table, "sub", first, root))
        if isUsed { _ = table[id] }
        sub.modified = 2
        let second = listed([entry("a", 1), sub])
        table.adopt(second, of: root)
        #expect(look(table, "sub", second, root) == id && look(table, "sub", first, root) == id)
        #expect(table.known("sub", in: root) == id && table.known("b", in: root) == nil)
        #expect(try table.modified(#require(table.peek(id))) == 2)
        // Another URL is another directory.
        sub.url = ResourceURL("http://elsewhere/sub/")!
        let third = listed([sub])
        table.adopt(third, of: root)
        #expect(look(table, "sub", third, root) != id)
        #expect(table[id]?.url == ResourceURL("http://h/films/sub/"))
    }

    @Test func whatIsForgottenIsGoneAndItsNumberNeverComesBack() throws {
        let table = NodeTable(root: root)
        let list = listed([entry("sub", 0, isDirectory: true), entry("a", 1)])
        let sub = try #require(look(table, "sub", list, root))
        let directory = try #require(table[sub])
        let inner = listed([entry("x", 1), entry("y", 1)])
        let child = try #require(look(table, "x", inner, directory))
        #expect(look(table, "x", inner, directory) == child)
        table.forget(child, count: 1)
        #expect(table.peek(child)?.name == "x")
        // The directory first: the file can be forgotten all the same, and nothing else.
        table.forget(sub, count: 1)
        #expect(table.peek(child) == nil && table[sub] == nil)
        #expect(look(table, "x", inner, directory) == nil)
        table.forget(child, count: 5)
        #expect(table.counts.known == 1)
        var seen: Set<NodeID> = [sub, child]
        for _ in 0..<10 {
            for name in ["sub", "a"] {
                let id = try #require(look(table, name, list, root))
                #expect(seen.insert(id).inserted)
                table.forget(id, count: 1)
            }
        }
        #expect(table.counts == (known: 1, used: 1))
    }

    @Test func aSupersededNodeLeavesItsNameToAnother() throws {
        let table = NodeTable(root: root)
        let list = listed([entry("a", 1)])
        let id = try #require(look(table, "a", list, root))
        let node = try #require(table[id])
        table.supersede(node)
        let better = Node.Facts(length: 5, modified: nil)
        let next = try #require(table.node(at: 0, of: list, better, in: root, isUsed: false))
        #expect(next.id != id && next.node?.listed.length == 5 && table[id] === node)
        #expect(table.node(at: 0, of: list, better, in: root, isUsed: false)?.id == next.id)
    }

    @Test(arguments: [UInt64(99), .random(in: 0...(.max))])
    func anyOrderOfLooksListingsAndForgettingKeepsTheAccount(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let table = NodeTable(root: root)
        var current = listed([])
        var held: [NodeID: (count: UInt64, name: String, length: Int64)] = [:]
        for _ in 0..<3000 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0:
                let names = (0..<20).filter { _ in Bool.random(using: &random) }
                current = listed(names.map { entry("f\($0)", Int64.random(in: 1...2, using: &random)) })
                if Bool.random(using: &random) { table.adopt(current, of: root) }
            case 1...3:
                guard let (id, what) = held.randomElement(using: &random) else { continue }
                let count = UInt64.random(in: 1...what.count, using: &random)
                table.forget(id, count: count)
                held[id] = what.count == count ? nil : (what.count - count, what.name, what.length)
            case 4:
                if let id = held.keys.randomElement(using: &random) { _ = table[id] }
            default:
                guard let place = current.entries.indices.randomElement(using: &random) else { continue }
                let entry = current.entries[place]
                let found = look(table, entry.name, current, root)
                guard let id = found else { Issue.record("seed \(seed): no node"); return }
                held[id] = ((held[id]?.count ?? 0) + 1, entry.name, entry.length!)
            }
            for (id, what) in held {
                guard let node = table.peek(id), node.name == what.name, node.listed.length == what.length else {
                    Issue.record("seed \(seed): \(what) is something else")
                    return
                }
            }
            guard table.counts.known == held.count + 1 else { Issue.record("seed \(seed): the account"); return }
        }
    }
}
