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
        let names: NameTable

        init(_ builder: Builder) {
            // Without the room to grow that the builder's arrays have.
            records = exact(builder.records)
            text = exact(builder.text)
            folder = builder.folder
            others = builder.others
            names = builder.names
        }

        init(_ other: Storage, _ records: [Record]) {
            self.records = records
            (text, folder, others, names) = (other.text, other.folder, other.others, other.names)
        }
    }

    /// Where each name stands: places + 1 by the hash of the name, open addressing; 0 is free.
    fileprivate struct NameTable {
        var table = [UInt32](repeating: 0, count: 4)

        func place(of name: ArraySlice<UInt8>, _ records: [Record], _ text: [UInt8]) -> Int? {
            let slot = slot(of: name, records, text)
            return table[slot] == 0 ? nil : Int(table[slot]) - 1
        }

        /// The one that holds the name, or the free one where it would go.
        private func slot(of name: ArraySlice<UInt8>, _ records: [Record], _ text: [UInt8]) -> Int {
            var slot = hash(name) & (table.count - 1)
            while table[slot] != 0, records[Int(table[slot]) - 1].name(in: text) != name {
                slot = (slot + 1) & (table.count - 1)
            }
            return slot
        }

        /// Takes the last record in; the first of several of one name stays.
        mutating func insertLast(_ records: [Record], _ text: [UInt8]) {
            // At most three quarters are taken.
            if records.count * 4 > table.count * 3 {
                table = [UInt32](repeating: 0, count: table.count * 2)
                for place in records.indices { insert(place, records, text) }
            } else {
                insert(records.count - 1, records, text)
            }
        }

        private mutating func insert(_ place: Int, _ records: [Record], _ text: [UInt8]) {
            let slot = slot(of: records[place].name(in: text), records, text)
            if table[slot] == 0 { table[slot] = UInt32(place + 1) }
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

    /// The same entries, some with another date. - Parameter dates: seconds since 1970, by place.
    package func replacing(dates: [Int: Int64]) -> EntryList {
        var records = storage.records
        for (place, date) in dates {
            records[place].modified = date
            records[place].flags.insert(.hasDate)
        }
        return EntryList(Storage(storage, records))
    }

    private init(_ storage: Storage) { self.storage = storage }

    package var startIndex: Int { 0 }
    package var endIndex: Int { storage.records.count }

    package subscript(place: Int) -> SourceEntry {
        let record = storage.records[place]
        return SourceEntry(
            name: name(at: place), url: url(at: place), isDirectory: record.flags.contains(.isDirectory),
            length: length(at: place), modified: modified(at: place))
    }

    package func length(at place: Int) -> Int64? {
        storage.records[place].flags.contains(.hasLength) ? storage.records[place].length : nil
    }

    package func modified(at place: Int) -> Int64? {
        storage.records[place].flags.contains(.hasDate) ? storage.records[place].modified : nil
    }

    package func name(at place: Int) -> String {
        String(decoding: storage.records[place].name(in: storage.text), as: UTF8.self)
    }

    package func isDirectory(at place: Int) -> Bool { storage.records[place].flags.contains(.isDirectory) }

    /// Where the entry of that name stands, compared byte by byte; the first where several have it.
    package func place(of name: String) -> Int? {
        storage.names.place(of: Array(name.utf8)[...], storage.records, storage.text)
    }

    /// Below which the URLs of all entries lie; nil where they do not.
    package var folder: ResourceURL? { storage.others.isEmpty ? storage.folder : nil }

    /// Whether both are one and the same in memory.
    package func isIdentical(to other: EntryList) -> Bool { storage === other.storage }

    /// Bytes of memory that the list takes, those of `others` apart.
    package var footprint: Int {
        storage.records.capacity * MemoryLayout<Record>.stride + storage.text.capacity
            + storage.names.table.capacity * MemoryLayout<UInt32>.stride
    }

    package func url(at place: Int) -> ResourceURL {
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
        fileprivate var names = NameTable()
        private let limit: Int

        /// - Parameter limit: entries.
        package init(limit: Int = Listing.mostEntries) { self.limit = limit }

        package var count: Int { records.count }

        func place(of name: [UInt8]) -> Int? { names.place(of: name[...], records, text) }
        func isDirectory(at place: Int) -> Bool { records[place].flags.contains(.isDirectory) }

        /// - Returns: false, and nothing taken, where the name is none that a directory can hold or there are too many;
        ///   what was read back from the cache is not trusted to be better.
        @discardableResult
        package mutating func append(_ entry: SourceEntry) -> Bool {
            let name = Array(entry.name.utf8)
            guard (1...SafeName.longest).contains(name.count), !name.contains(0), !name.contains(0x2F),
                name != [0x2E], name != [0x2E, 0x2E], records.count < limit,
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
            names.insertLast(records, text)
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
private func hash(_ name: ArraySlice<UInt8>) -> Int {
    var hasher = Hasher()
    name.withUnsafeBytes { hasher.combine(bytes: $0) }
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
