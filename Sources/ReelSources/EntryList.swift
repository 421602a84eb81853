import ReelCore

/// The entries of one directory, packed: a directory of a hundred thousand is held in memory for as long as the kernel
/// knows it, so an entry is its name, 24 bytes and a place in a table, and no object of its own.
///
/// A value that never changes; copies share it. Names are found by a table that is seeded anew in every process, as the
/// origin chooses the names. Entries are made when they are asked for.
package struct EntryList: RandomAccessCollection, Sendable {
    private let storage: Storage

    private final class Storage: Sendable {
        let records: [Record]
        let text: [UInt8]
        let folder: ResourceURL?
        let others: [ResourceURL]
        /// Places + 1 by the hash of the name, open addressing; 0 is free. At most three quarters are taken.
        let table: [UInt32]

        init(_ builder: Builder) {
            // Without the room to grow that the builder's arrays have.
            records = exact(builder.records)
            text = exact(builder.text)
            folder = builder.folder
            others = builder.others
            var size = 4
            while size * 3 < records.count * 4 { size *= 2 }
            var table = [UInt32](repeating: 0, count: size)
            for place in records.indices {
                let name = records[place].name(in: text)
                var slot = hash(name) & (size - 1)
                var isNew = true
                while table[slot] != 0 {
                    if records[Int(table[slot]) - 1].name(in: text).elementsEqual(name) {
                        isNew = false
                        break
                    }
                    slot = (slot + 1) & (size - 1)
                }
                if isNew { table[slot] = UInt32(place + 1) }
            }
            self.table = table
        }
    }

    fileprivate struct Record: Equatable {
        var length: Int64
        var modified: Int64
        /// Of the name in `text`. Behind it, up to the next record's start, stands what `Kind` says.
        var start: UInt32
        var nameCount: UInt8
        var flags: Flags

        func name(in text: [UInt8]) -> ArraySlice<UInt8> { text[Int(start)..<Int(start) + Int(nameCount)] }
    }

    fileprivate struct Flags: OptionSet {
        let rawValue: UInt8
        static let isDirectory = Flags(rawValue: 1)
        static let hasLength = Flags(rawValue: 2)
        static let hasDate = Flags(rawValue: 4)
        /// Behind the name stands what the URL has behind the folder's. Else the URL is made of the name.
        static let hasSuffix = Flags(rawValue: 8)
        /// Behind the name stand four bytes: a place in `others`, lowest byte first.
        static let isElsewhere = Flags(rawValue: 16)
    }

    package init(_ entries: some Sequence<SourceEntry>) {
        var builder = Builder()
        for entry in entries { builder.append(entry) }
        self = builder.list()
    }

    fileprivate init(_ builder: Builder) { storage = Storage(builder) }

    package var startIndex: Int { 0 }
    package var endIndex: Int { storage.records.count }

    package subscript(place: Int) -> SourceEntry {
        let record = storage.records[place]
        return SourceEntry(
            name: name(at: place), url: url(at: place), isDirectory: record.flags.contains(.isDirectory),
            length: record.flags.contains(.hasLength) ? record.length : nil,
            modified: record.flags.contains(.hasDate) ? record.modified : nil)
    }

    package func name(at place: Int) -> String {
        String(decoding: storage.records[place].name(in: storage.text), as: UTF8.self)
    }

    package func isDirectory(at place: Int) -> Bool { storage.records[place].flags.contains(.isDirectory) }

    /// Where the entry of that name stands, compared byte by byte; the first where several have it.
    package func place(of name: String) -> Int? {
        var name = name
        return name.withUTF8 { name in
            var slot = hash(name) & (storage.table.count - 1)
            while storage.table[slot] != 0 {
                let place = Int(storage.table[slot]) - 1
                if storage.records[place].name(in: storage.text).elementsEqual(name) { return place }
                slot = (slot + 1) & (storage.table.count - 1)
            }
            return nil
        }
    }

    /// Whether both are one and the same in memory.
    package func isIdentical(to other: EntryList) -> Bool { storage === other.storage }

    /// Bytes of memory that the list takes, those of `others` apart.
    package var footprint: Int {
        storage.records.capacity * MemoryLayout<Record>.stride + storage.text.capacity
            + storage.table.capacity * MemoryLayout<UInt32>.stride
    }

    private func url(at place: Int) -> ResourceURL {
        let record = storage.records[place]
        let start = Int(record.start) + Int(record.nameCount)
        let end = place + 1 < storage.records.count ? Int(storage.records[place + 1].start) : storage.text.count
        let rest = storage.text[start..<end]
        if record.flags.contains(.isElsewhere) {
            return storage.others[rest.reversed().reduce(0) { $0 << 8 | Int($1) }]
        }
        let suffix =
            record.flags.contains(.hasSuffix)
            ? rest : escaped(record.name(in: storage.text), isDirectory: record.flags.contains(.isDirectory))[...]
        return storage.folder!.below(suffix)
    }

    /// Takes entries one by one.
    package struct Builder {
        fileprivate var records: [Record] = []
        fileprivate var text: [UInt8] = []
        /// Of the first entry: the others' are mostly the same.
        fileprivate var folder: ResourceURL?
        fileprivate var others: [ResourceURL] = []

        package init() {}

        package var count: Int { records.count }

        /// - Returns: false, and nothing taken, where the name is none that a directory can hold or there are too many;
        ///   what was read back from the cache is not trusted to be better.
        @discardableResult
        package mutating func append(_ entry: SourceEntry) -> Bool {
            let name = Array(entry.name.utf8)
            guard (1...SafeName.longest).contains(name.count), !name.contains(0), !name.contains(0x2F),
                name != [0x2E], name != [0x2E, 0x2E], records.count < Listing.mostEntries,
                text.count < Int(UInt32.max) >> 1
            else { return false }
            var record = Record(
                length: entry.length ?? 0, modified: entry.modified ?? 0, start: UInt32(text.count),
                nameCount: UInt8(name.count), flags: [])
            if entry.isDirectory { record.flags.insert(.isDirectory) }
            if entry.length != nil { record.flags.insert(.hasLength) }
            if entry.modified != nil { record.flags.insert(.hasDate) }
            let folder = folder ?? entry.url.folder
            self.folder = folder
            // Longer ones are no link of a listing; a quarter of the text's limit is left for names.
            if let suffix = entry.url.suffix(below: folder), suffix.count < 1 << 30 {
                text += name
                if !suffix.elementsEqual(escaped(name[...], isDirectory: entry.isDirectory)) {
                    record.flags.insert(.hasSuffix)
                    text += suffix
                }
            } else {
                text += name
                record.flags.insert(.isElsewhere)
                text += withUnsafeBytes(of: UInt32(others.count).littleEndian) { Array($0) }
                others.append(entry.url)
            }
            records.append(record)
            return true
        }

        /// What a later link tells of an entry that is there.
        package mutating func complete(_ place: Int, length: Int64?, modified: Int64?) {
            if let length, !records[place].flags.contains(.hasLength) {
                records[place].length = length
                records[place].flags.insert(.hasLength)
            }
            if let modified, !records[place].flags.contains(.hasDate) {
                records[place].modified = modified
                records[place].flags.insert(.hasDate)
            }
        }

        package func list() -> EntryList { EntryList(self) }
    }
}

extension EntryList: Equatable {
    /// Packed alike, as the packing follows from the entries alone.
    package static func == (one: EntryList, other: EntryList) -> Bool {
        one.storage === other.storage
            || one.storage.records == other.storage.records && one.storage.text == other.storage.text
                && one.storage.folder == other.storage.folder && one.storage.others == other.storage.others
    }
}

/// Swift's own hash: seeded, so that no page can be written whose names all fall into one place.
private func hash(_ name: some Sequence<UInt8>) -> Int {
    var hasher = Hasher()
    let isDone: Void? = name.withContiguousStorageIfAvailable { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    if isDone == nil { for byte in name { hasher.combine(byte) } }
    return hasher.finalize()
}

/// A name as most servers write it into a link: what may not stand in a path escaped, `/` behind a directory.
private func escaped(_ name: ArraySlice<UInt8>, isDirectory: Bool) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(name.count + 16)
    for byte in name {
        if isSegmentByte(byte) { result.append(byte) } else { appendEscape(of: byte, to: &result) }
    }
    if isDirectory { result.append(0x2F) }
    return result
}

private func exact<Element>(_ array: [Element]) -> [Element] {
    var result: [Element] = []
    result.reserveCapacity(array.count)
    result += array
    return result
}
