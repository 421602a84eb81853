import ReelCore

/// One named resource or directory that a listing or a list tells of.
package struct SourceEntry: Hashable, Sendable {
    /// Safe for a filesystem and unique among its siblings; see `SafeName`.
    package var name: String
    package var url: ResourceURL
    package var isDirectory: Bool
    /// Bytes, only where the source tells them exactly; nil for a rounded size and for a directory.
    package var length: Int64?
    /// Seconds since 1970, only where the source tells a date. Listings often show minutes, and no time zone: such a
    /// date is read as UTC, which nginx and Caddy write; Apache and lighttpd write the server's local time.
    package var modified: Int64?

    package init(name: String, url: ResourceURL, isDirectory: Bool, length: Int64? = nil, modified: Int64? = nil) {
        self.name = name
        self.url = url
        self.isDirectory = isDirectory
        self.length = length
        self.modified = modified
    }
}
