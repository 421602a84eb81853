import ReelCore

/// One named resource or directory of a listing or a list.
package struct SourceEntry: Hashable, Sendable {
    /// Safe for a filesystem and unique among its siblings; see `SafeName`.
    package var name: String
    package var url: ResourceURL
    package var isDirectory: Bool
    /// Bytes, only if the source gives them exactly; nil for a rounded size and for a directory.
    package var length: Int64?
    /// Seconds since 1970, only if the source gives a date. Listings often show minutes, and no time zone: such a date
    /// is read as UTC, which nginx and Caddy write; Apache and lighttpd write the server's local time.
    package var modified: Int64?

    package init(name: String, url: ResourceURL, isDirectory: Bool, length: Int64? = nil, modified: Int64? = nil) {
        self.name = name
        self.url = url
        self.isDirectory = isDirectory
        self.length = length
        self.modified = modified
    }
}
