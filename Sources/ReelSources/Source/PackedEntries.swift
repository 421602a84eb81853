import ReelCore

/// The storage of an `EntryList` and of its builder: a record for each entry, one text for all names, and a table that
/// finds them.
struct PackedEntries {
    private(set) var text: [UInt8] = []
    var records: [Record] = []
    /// The folder of the first entry: the others' are mostly the same.
    private(set) var folder: ResourceURL?
    private(set) var others: [ResourceURL] = []
    private var names = NameTable()
    /// More have no place in the table of names.
    static let most = Int(NameTable.placeMask)
    /// By index of the entry, up to the last one that has a tag: most sources give none.
    private var tags: [EntryTag?] = []

    /// 24 bytes. An optional number would take 16.
    struct Record: Equatable {
        private var lengthOrZero: Int64 = 0
        private var modifiedOrZero: Int64 = 0
        /// The start of the name in `text`. Behind it, up to the next record's start, stands what the flags say.
        fileprivate var start: UInt32 = 0
        fileprivate var nameCount: UInt8 = 0
        fileprivate(set) var flags: Flags

        /// Has no name yet.
        init(length: Int64?, modified: Int64?, isDirectory: Bool) {
            flags = isDirectory ? .isDirectory : []
            (self.length, self.modified) = (length, modified)
        }

        var length: Int64? {
            get { flags.contains(.hasLength) ? lengthOrZero : nil }
            set {
                // No file has another length, so it counts as missing.
                let length = newValue.flatMap { (0...BlockSize.longestFile).contains($0) ? $0 : nil }
                (lengthOrZero, flags) = (length ?? 0, flags.with(.hasLength, length != nil))
            }
        }

        var modified: Int64? {
            get { flags.contains(.hasDate) ? modifiedOrZero : nil }
            set { (modifiedOrZero, flags) = (newValue ?? 0, flags.with(.hasDate, newValue != nil)) }
        }

        fileprivate func name(in text: [UInt8]) -> ArraySlice<UInt8> {
            text[Int(start)..<Int(start) + Int(nameCount)]
        }
    }

    struct Flags: OptionSet {
        let rawValue: UInt8
        static let isDirectory = Flags(rawValue: 1)
        fileprivate static let hasLength = Flags(rawValue: 2)
        fileprivate static let hasDate = Flags(rawValue: 4)
        /// Behind the name stands what the URL has behind the folder's. Else the URL is made of the name.
        fileprivate static let hasSuffix = Flags(rawValue: 8)
        /// Behind the name stand four bytes: a place in `others`, lowest byte first.
        fileprivate static let isElsewhere = Flags(rawValue: 16)

        fileprivate func with(_ flag: Flags, _ isSet: Bool) -> Flags { isSet ? union(flag) : subtracting(flag) }
    }

    func name(at place: Int) -> ArraySlice<UInt8> { records[place].name(in: text) }

    func place(of name: ArraySlice<UInt8>) -> Int? { names.place(of: name, records, text) }

    func tag(at place: Int) -> EntryTag? { place < tags.count ? tags[place] : nil }

    func hasSameTags(as other: PackedEntries) -> Bool { tags == other.tags }

    func url(at place: Int) -> ResourceURL {
        let name = name(at: place)
        let rest = text[name.endIndex..<(place + 1 < records.count ? Int(records[place + 1].start) : text.count)]
        let flags = records[place].flags
        guard let folder, !flags.contains(.isElsewhere) else {
            return others[rest.reversed().reduce(0) { $0 << 8 | Int($1) }]
        }
        return folder.below(flags.contains(.hasSuffix) ? rest : link(name, flags.contains(.isDirectory))[...])
    }

    /// A name as most servers write it into a link, with `/` behind a directory's.
    private func link(_ name: ArraySlice<UInt8>, _ isDirectory: Bool) -> [UInt8] {
        encodedSegment(name) + (isDirectory ? [0x2F] : [])
    }

    /// - Parameters:
    ///   - name: the entry's, of 1 to 255 bytes.
    ///   - folder: the same for all entries.
    ///   - suffix: what the URL has behind the folder's, nil if it is not below it, but `elsewhere`.
    /// - Returns: false, and nothing taken, where there is no room for more text.
    mutating func append(
        _ name: [UInt8], _ record: Record, below folder: ResourceURL, _ suffix: [UInt8]?, _ elsewhere: ResourceURL?,
        _ tag: EntryTag?
    ) -> Bool {
        guard text.count < Int(UInt32.max) >> 1 else { return false }
        if self.folder == nil { self.folder = folder }
        var record = record
        (record.start, record.nameCount) = (UInt32(text.count), UInt8(name.count))
        text += name
        // Longer ones are no link of a listing; a quarter of the text's limit is left for names.
        if let suffix, suffix.count < 1 << 30 {
            if suffix != link(name[...], record.flags.contains(.isDirectory)) {
                record.flags.insert(.hasSuffix)
                text += suffix
            }
        } else if let elsewhere {
            record.flags.insert(.isElsewhere)
            text += withUnsafeBytes(of: UInt32(others.count).littleEndian) { Array($0) }
            others.append(elsewhere)
        }
        records.append(record)
        names.insertLast(records, text)
        if let tag {
            tags += repeatElement(nil, count: records.count - 1 - tags.count)
            tags.append(tag)
        }
        return true
    }

    /// The same without the room to grow.
    var exact: PackedEntries {
        var result = self
        result.records = []
        result.records.reserveCapacity(records.count)
        result.records += records
        result.text = []
        result.text.reserveCapacity(text.count)
        result.text += text
        result.tags = []
        result.tags.reserveCapacity(tags.count)
        result.tags += tags
        return result
    }

    /// Bytes of memory, those of `others` apart.
    var footprint: Int {
        records.capacity * MemoryLayout<Record>.stride + text.capacity
            + names.table.capacity * MemoryLayout<UInt32>.stride
            + tags.capacity * MemoryLayout<EntryTag?>.stride
    }
}

extension PackedEntries: Equatable {
    /// Without the tags: they show whether an entry is of another version, and are none of its facts. The names follow
    /// from the text.
    static func == (one: PackedEntries, other: PackedEntries) -> Bool {
        one.records == other.records && one.text == other.text && one.folder == other.folder
            && one.others == other.others
    }
}

/// Where each name stands, by the hash of the name, with open addressing.
///
/// The hash is Swift's own, which is seeded in every process, so that no page can be written whose names all fall into
/// one place. A `Dictionary` would hold each name once more.
private struct NameTable {
    /// 0 is free. Else an index + 1, and above it bits of the hash, which rule out most other names at once.
    private(set) var table = [UInt32](repeating: 0, count: 4)
    /// The most places that a listing may have, which leaves twelve bits.
    static let placeMask: UInt32 = 0xFFFFF

    func place(of name: ArraySlice<UInt8>, _ records: [PackedEntries.Record], _ text: [UInt8]) -> Int? {
        let (slot, _) = slot(of: name, records, text)
        return table[slot] == 0 ? nil : Int(table[slot] & Self.placeMask) - 1
    }

    /// The one that holds the name, or the free one where it would go; and the bits of its hash.
    private func slot(
        of name: ArraySlice<UInt8>, _ records: [PackedEntries.Record], _ text: [UInt8]
    ) -> (slot: Int, bits: UInt32) {
        var hasher = Hasher()
        name.withUnsafeBytes { hasher.combine(bytes: $0) }
        let hash = hasher.finalize()
        let bits = UInt32(truncatingIfNeeded: hash >> 32) & ~Self.placeMask
        var slot = hash & (table.count - 1)
        while table[slot] != 0 {
            if table[slot] & ~Self.placeMask == bits,
                records[Int(table[slot] & Self.placeMask) - 1].name(in: text) == name
            {
                break
            }
            slot = (slot + 1) & (table.count - 1)
        }
        return (slot, bits)
    }

    /// Takes the last record in; the first of several of one name stays.
    mutating func insertLast(_ records: [PackedEntries.Record], _ text: [UInt8]) {
        var new = records.count - 1..<records.count
        // At most three quarters are taken.
        if records.count * 4 > table.count * 3 {
            table = [UInt32](repeating: 0, count: table.count * 2)
            new = records.indices
        }
        for place in new {
            let (slot, bits) = slot(of: records[place].name(in: text), records, text)
            if table[slot] == 0 { table[slot] = bits | UInt32(place + 1) }
        }
    }
}
