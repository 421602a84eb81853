import ReelCore

/// The entries of one directory, packed: a directory of a hundred thousand is held in memory for as long as the kernel
/// knows it, so an entry is its name, 24 bytes and a place in a table, and no object of its own.
///
/// A value that never changes; copies share it. Entries are made when they are asked for.
package struct EntryList: RandomAccessCollection, Sendable {
    private let storage: Storage

    private final class Storage: Sendable {
        let entries: PackedEntries
        init(_ entries: PackedEntries) { self.entries = entries }
    }

    private init(_ entries: PackedEntries) { storage = Storage(entries) }

    package init(_ entries: some Sequence<SourceEntry>) {
        var builder = Builder()
        for entry in entries { builder.append(entry) }
        self = builder.list()
    }

    /// The same entries, some with another date. - Parameter dates: seconds since 1970, by place.
    package func replacing(dates: [Int: Int64]) -> EntryList {
        var entries = storage.entries
        for (place, date) in dates { entries.records[place].modified = date }
        return EntryList(entries)
    }

    package var startIndex: Int { 0 }
    package var endIndex: Int { storage.entries.records.count }

    package subscript(place: Int) -> SourceEntry {
        SourceEntry(
            name: name(at: place), url: url(at: place), isDirectory: isDirectory(at: place), length: length(at: place),
            modified: modified(at: place))
    }

    package func name(at place: Int) -> String { String(decoding: storage.entries.name(at: place), as: UTF8.self) }
    package func url(at place: Int) -> ResourceURL { storage.entries.url(at: place) }
    package func isDirectory(at place: Int) -> Bool { storage.entries.records[place].flags.contains(.isDirectory) }
    /// Bytes, as `SourceEntry.length`.
    package func length(at place: Int) -> Int64? { storage.entries.records[place].length }
    /// Seconds since 1970, as `SourceEntry.modified`.
    package func modified(at place: Int) -> Int64? { storage.entries.records[place].modified }

    /// nil if the source gave none.
    package func tag(at place: Int) -> EntryTag? { storage.entries.tag(at: place) }

    /// Whether all entries have the tags that those in the same places of the other list have.
    package func hasSameTags(as other: EntryList) -> Bool { storage.entries.hasSameTags(as: other.storage.entries) }

    /// The index of the entry with that name, compared byte by byte; the first one if several have it.
    package func place(of name: String) -> Int? { storage.entries.place(of: Array(name.utf8)[...]) }

    /// Below which the URLs of all entries lie; nil where they do not.
    package var folder: ResourceURL? { storage.entries.others.isEmpty ? storage.entries.folder : nil }

    /// Distinguishes it from other lists in memory (`isIdentical`).
    package var identity: ObjectIdentifier { ObjectIdentifier(storage) }

    /// Whether both are one and the same in memory.
    package func isIdentical(to other: EntryList) -> Bool { storage === other.storage }

    /// Bytes of memory that the list takes, those of URLs elsewhere apart.
    package var footprint: Int { storage.entries.footprint }

    /// Takes entries one by one.
    package struct Builder {
        private var entries = PackedEntries()
        private let limit: Int

        /// - Parameter limit: entries.
        package init(limit: Int = Listing.mostEntries) { self.limit = Swift.min(limit, PackedEntries.most) }

        package var count: Int { entries.records.count }

        func place(of name: [UInt8]) -> Int? { entries.place(of: name[...]) }
        func isDirectory(at place: Int) -> Bool { entries.records[place].flags.contains(.isDirectory) }

        /// - Returns: false, and nothing taken, where the name is none that a directory can hold or there are too many;
        ///   what was read back from the cache is not trusted to be better.
        @discardableResult
        package mutating func append(_ entry: SourceEntry, tag: EntryTag? = nil) -> Bool {
            let folder = entries.folder ?? entry.url.folder
            let suffix = entry.url.suffix(below: folder)
            return append(
                entry.name, below: folder, suffix, isDirectory: entry.isDirectory, length: entry.length,
                modified: entry.modified, tag: tag, elsewhere: entry.url)
        }

        /// - Parameters:
        ///   - folder: the same for all entries.
        ///   - suffix: what the URL has behind the folder's, nil if it is not below it, but `elsewhere`.
        mutating func append(
            _ name: String, below folder: ResourceURL, _ suffix: [UInt8]?, isDirectory: Bool, length: Int64?,
            modified: Int64?, tag: EntryTag?, elsewhere: ResourceURL? = nil
        ) -> Bool {
            let name = Array(name.utf8)
            guard (1...SafeName.longest).contains(name.count), !name.contains(0), !name.contains(0x2F),
                name != [0x2E], name != [0x2E, 0x2E], count < limit
            else { return false }
            return entries.append(
                name, PackedEntries.Record(length: length, modified: modified, isDirectory: isDirectory),
                below: folder, suffix, elsewhere, tag)
        }

        /// Adds what a later link says of an entry that is there.
        package mutating func complete(_ place: Int, length: Int64?, modified: Int64?) {
            let record = entries.records[place]
            entries.records[place].length = record.length ?? length
            entries.records[place].modified = record.modified ?? modified
        }

        package func list() -> EntryList { EntryList(entries.exact) }
    }
}

extension EntryList: Equatable {
    /// Tags do not count. Packed alike, as the packing follows from the entries alone.
    package static func == (one: EntryList, other: EntryList) -> Bool {
        one.storage === other.storage || one.storage.entries == other.storage.entries
    }
}
