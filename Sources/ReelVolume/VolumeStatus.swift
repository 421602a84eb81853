/// The state of one mount, for `reelfs status`. Sizes are in bytes, rates in bytes a second.
package struct VolumeStatus: Codable, Sendable {
    /// One file of the mount.
    package struct File: Codable, Sendable {
        /// The path inside the mount, without a leading `/`.
        package var path: String
        /// The length; nil where it is not known yet.
        package var length: Int64?
        /// The bytes in the cache.
        package var cachedBytes: Int64
        /// The handles of programs.
        package var openHandles: Int
        /// The rate from the origin, over the last seconds.
        package var rate: Int64
    }

    /// An origin that is away.
    package struct Outage: Codable, Sendable {
        /// Scheme, host and port.
        package var origin: String
        /// The kind of outage: `unreachable` or `silent`.
        package var kind: String
        /// Seconds since 1970.
        package var since: Int64
    }

    /// A directory that shows its last good listing because no newer one could be fetched.
    package struct StaleDirectory: Codable, Sendable {
        /// The path inside the mount, without a leading `/`; empty for the root.
        package var path: String
        /// The trouble, as in `user.reelfs.stale`.
        package var trouble: String
        /// Seconds since 1970.
        package var since: Int64
    }

    /// A source of a catalogue that is not open, so that nothing of it is shown.
    package struct ClosedSource: Codable, Sendable {
        /// The path of its folder inside the mount.
        package var path: String
        /// Why, as a sentence; nil: the first attempt is under way.
        package var trouble: String?
        /// Seconds since 1970.
        package var since: Int64?
    }

    /// The size of the cache, the index among it.
    package var cacheUsed: Int64
    /// The cap of the cache.
    package var cacheCap: Int64
    /// Why the cache's disk takes nothing at present; nil: it does.
    package var cacheFailure: String?
    /// Whether the cache is encrypted; nil: not told.
    package var isEncrypted: Bool?
    /// Bytes in memory, as the disk does not take them.
    package var bytesInMemory: Int64
    /// Blocks whose bytes had changed on the disk, and that were fetched again.
    package var damagedBlocks: Int64
    /// Bytes of all bodies: of files, listings and requests for information.
    package var bytesFromOrigin: Int64
    /// Bytes copied to readers, without those that the kernel reads itself.
    package var bytesServed: Int64
    /// Reads answered from the cache.
    package var hits: Int64
    /// Reads that had to wait for the origin.
    package var misses: Int64
    /// The bytes from the origin for which a read waited.
    package var demanded: Int64
    /// All other bytes from the origin.
    package var speculative: Int64
    /// The bytes that were fetched ahead and left the cache unread, or whose file was closed for some seconds before a
    /// read; and bytes that came a second time.
    package var wasted: Int64
    /// Origins that are away.
    package var outages: [Outage] = []
    /// Directories that show an old listing; at most some hundreds.
    package var staleDirectories: [StaleDirectory] = []
    /// Sources of a catalogue that are not open; nil where none is, or the mount is of one source.
    package var closedSources: [ClosedSource]?
    /// Open files first, then those with cached bytes, by path; at most some hundreds.
    package var files: [File]
}
