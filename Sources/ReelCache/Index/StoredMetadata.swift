import ReelCore

/// Content information as it was when the origin was last asked.
package struct StoredInformation: Hashable, Sendable {
    /// The information as the origin sent it.
    package var information: ContentInformation
    /// Seconds since 1970.
    package var checkedAt: Int64

    /// - Parameter checkedAt: seconds since 1970.
    package init(information: ContentInformation, checkedAt: Int64) {
        self.information = information
        self.checkedAt = checkedAt
    }
}

/// One entry of a remembered listing.
package struct StoredEntry: Hashable, Sendable {
    /// The name in its directory.
    package var name: String
    /// The URL as text, without credentials.
    package var url: String
    /// Whether it is a directory of the source.
    package var isDirectory: Bool
    /// Bytes, nil if the listing gives no exact length.
    package var length: Int64?
    /// Seconds since 1970.
    package var modified: Int64?

    /// - Parameters:
    ///   - length: bytes.
    ///   - modified: seconds since 1970.
    package init(name: String, url: String, isDirectory: Bool, length: Int64? = nil, modified: Int64? = nil) {
        self.name = name
        self.url = url
        self.isDirectory = isDirectory
        self.length = length
        self.modified = modified
    }
}

/// The entries of a listing in their order. Each is made when it is written, because a listing may be large.
package protocol StoredEntries: Sendable {
    var count: Int { get }
    func stored(at place: Int) -> StoredEntry
}

extension [StoredEntry]: StoredEntries {
    /// The entry itself.
    package func stored(at place: Int) -> StoredEntry { self[place] }
}

/// A directory of the source as it was when it was last fetched.
package struct StoredListing: Sendable {
    /// In the listing's order.
    package var entries: any StoredEntries
    /// Seconds since 1970.
    package var fetchedAt: Int64
    /// False where the listing was cut (a page of several, a limit).
    package var complete: Bool

    /// - Parameter fetchedAt: seconds since 1970.
    package init(entries: any StoredEntries, fetchedAt: Int64, complete: Bool) {
        self.entries = entries
        self.fetchedAt = fetchedAt
        self.complete = complete
    }
}
