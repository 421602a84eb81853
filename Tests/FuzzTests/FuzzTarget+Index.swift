import Glibc
import ReelCore
import ReelSources

@testable import ReelCache

extension FuzzTarget {
    /// What the cache has written down, and somebody else may have changed.
    static let index = [
        FuzzTarget("rows") { bytes in
            var input = FuzzBytes(bytes)
            guard let connection = try openTables(IndexConnection(inMemory: ())) else { return }
            for _ in 0..<4 where !input.isEmpty { try insert(&input, connection) }
            // The first that a store does with an index.
            try connection.run("DELETE FROM objects WHERE length NOT BETWEEN 0 AND \(BlockSize.longestFile)")
            for row in try connection.rows(where: "1") {
                let known = try connection.information(for: row.version.key)?.information
                try require(known?.length ?? 0 >= 0, "a length below zero")
                for validator in [row.version.validator, known?.validator] {
                    _ = (validator?.ifRange, validator?.ifChanged)
                }
                _ = try connection.row(of: row.version)
                // Longer ones would only cost time here.
                guard (0...1 << 36).contains(row.version.length) else { continue }
                let blocks = try connection.blocks(of: row)
                try require(
                    (0...row.version.length).contains(blocks.states.filledBytes), "\(blocks.states.filledBytes) bytes")
                for (extent, bytes, _) in blocks.states.usedExtents.prefix(4) {
                    _ = try connection.sums(of: row.id, extent: extent)
                    try require((0...BlockSize.extent).contains(bytes), "\(bytes) bytes in extent \(extent)")
                }
            }
        },
        FuzzTarget("stored") { bytes in
            var input = FuzzBytes(bytes)
            let place = ResourceURL("http://host/films/")!
            var builder = EntryList.Builder(limit: 100)
            while !input.isEmpty {
                let (name, text) = (input.text(), input.text())
                let isDirectory = input.byte() & 1 == 0
                let (length, date) = (input.number(), input.number())
                guard let url = place.resolve(text) else { continue }
                builder.append(
                    SourceEntry(name: name, url: url, isDirectory: isDirectory, length: length, modified: date))
            }
            for entry in builder.list() {
                let name = Array(entry.name.utf8)
                let isSafe = (1...255).contains(name.count) && !name.contains(0) && !name.contains(0x2F)
                try require(isSafe && name != [0x2E] && name != [0x2E, 0x2E], "the name \(name)")
                try require(ResourceURL(entry.url.text)?.text == entry.url.text, "another URL than \(entry.url.text)")
            }
            if let name = FileName(bytes: bytes) { try require(FileName(text: name.text) == name, name.text) }
            if let name = FileName(text: String(decoding: bytes, as: UTF8.self)) { _ = name.directory }
        },
    ]

    private static func insert(_ input: inout FuzzBytes, _ connection: IndexConnection) throws {
        let key = Value.text(input.text())
        let length = input.number()
        let tag = input.byte() & 1 == 0 ? Value.null : .bytes(input.blob())
        func number() -> Value { .integer(input.number()) }
        let values: [Value] = [
            key, .integer(length), tag, number(), number(), .bytes(input.bytes(Int(input.byte() & 31))), number(),
            number(),
            number(),
        ]
        let columns = "key, length, tag, weak, modified, file, cached, last_use, superseded, unclean"
        // Two of one name are refused.
        try? connection.run("INSERT INTO objects (\(columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)", values)
        let object = connection.lastRow
        for _ in 0..<Int(input.byte() & 3) {
            let sums = Value.bytes(Array(repeating: input.byte(), count: [0, 8, 512, 513][Int(input.byte() & 3)]))
            let extent: [Value] = [.integer(object), number(), number(), sums, number()]
            try? connection.run("INSERT INTO extents VALUES (?, ?, ?, ?, ?, 0)", extent)
        }
        let resource: [Value] = [key, number(), tag, number(), number(), .bytes(input.blob()), number(), number()]
        if input.byte() & 1 == 0 {
            try? connection.run("INSERT INTO resources VALUES (?, ?, ?, ?, ?, ?, ?, ?)", resource)
        }
    }
}
