import ReelCore

/// One version of a resource: what the bytes of one data file are of.
package struct Version: Hashable, Sendable {
    /// The resource's URL as text, without credentials; may hold anything.
    package var key: String
    package var validator: Validator
    /// Bytes; `BlockSize.openEnd` until its end is known.
    package var length: Int64
    package var isOpenEnded: Bool { length == BlockSize.openEnd }

    package init(key: String, validator: Validator, length: Int64) {
        self.key = key
        self.validator = validator
        self.length = length
    }
}

/// Content information as it was when the origin was last asked.
package struct Remembered: Hashable, Sendable {
    package var information: ContentInformation
    /// Seconds since 1970.
    package var checkedAt: Int64

    package init(information: ContentInformation, checkedAt: Int64) {
        self.information = information
        self.checkedAt = checkedAt
    }
}

/// One entry of a remembered listing.
package struct StoredEntry: Hashable, Sendable {
    package var name: String
    package var url: String
    package var isDirectory: Bool
    /// Bytes, where the listing tells exactly.
    package var length: Int64?
    /// Seconds since 1970.
    package var modified: Int64?

    package init(name: String, url: String, isDirectory: Bool, length: Int64? = nil, modified: Int64? = nil) {
        self.name = name
        self.url = url
        self.isDirectory = isDirectory
        self.length = length
        self.modified = modified
    }
}

/// The entries of a listing in their order. Each is made when it is written, as a whole listing may be large.
package protocol StoredEntries: Sendable {
    var count: Int { get }
    func stored(at place: Int) -> StoredEntry
}

extension [StoredEntry]: StoredEntries {
    package func stored(at place: Int) -> StoredEntry { self[place] }
}

/// A directory of the source as it was when it was last fetched.
package struct RememberedListing: Sendable {
    package var entries: any StoredEntries
    /// Seconds since 1970.
    package var fetchedAt: Int64
    /// False where the listing was cut (a page of several, a limit).
    package var complete: Bool

    package init(entries: any StoredEntries, fetchedAt: Int64, complete: Bool) {
        self.entries = entries
        self.fetchedAt = fetchedAt
        self.complete = complete
    }
}

/// One data file, for `status`.
package struct ObjectSummary: Hashable, Sendable {
    package var key: String
    /// nil until its end is known.
    package var length: Int64?
    package var cachedBytes: Int64
    /// Milliseconds since 1970, moved on by at least one at each use.
    package var lastUse: Int64
    package var isPinned: Bool
}
