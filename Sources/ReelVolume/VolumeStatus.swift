/// The state of one mount, for `reelfs status`. Bytes everywhere, rates in bytes a second.
package struct VolumeStatus: Codable, Sendable {
    /// One file of the mount.
    package struct File: Codable, Sendable {
        /// Inside the mount, without a leading `/`.
        package var path: String
        /// nil for a resource whose length is not known yet.
        package var length: Int64?
        package var cachedBytes: Int64
        package var openHandles: Int
        /// From the origin, over the last seconds.
        package var rate: Int64
    }

    /// An origin that is away.
    package struct Outage: Codable, Sendable {
        /// Scheme, host and port.
        package var origin: String
        /// `unreachable` or `silent`.
        package var kind: String
        /// Seconds since 1970.
        package var since: Int64
    }

    /// A directory that shows its last good listing because no newer one could be fetched.
    package struct StaleDirectory: Codable, Sendable {
        /// Inside the mount, without a leading `/`; empty for the root.
        package var path: String
        /// As in `user.reelfs.stale`.
        package var trouble: String
        /// Seconds since 1970.
        package var since: Int64
    }

    /// Of the cache, index and all.
    package var cacheUsed: Int64
    /// The most it may grow to.
    package var cacheCap: Int64
    /// Why nothing is written to the cache's disk at present; nil: it is.
    package var cacheFailure: String?
    /// Bytes that are kept in memory, as the disk does not take them.
    package var bytesInMemory: Int64
    /// Blocks that were not what had been written to them, and were fetched again.
    package var damagedBlocks: Int64
    /// Bodies of files, listings and answers to single bytes.
    package var bytesFromOrigin: Int64
    /// Copied to readers; the kernel's own reads are not among them.
    package var bytesServed: Int64
    /// Reads answered from the cache.
    package var hits: Int64
    /// Reads that had to wait for the origin.
    package var misses: Int64
    /// Of the bytes from the origin: those that a read waited for.
    package var demanded: Int64
    /// All others.
    package var speculative: Int64
    /// Of what was fetched ahead: not read before its file had been closed for some seconds or it left the cache; and
    /// bytes that came a second time.
    package var wasted: Int64
    /// Origins that are away.
    package var outages: [Outage] = []
    /// At most some hundreds.
    package var staleDirectories: [StaleDirectory] = []
    /// Open files first, then those with cached bytes, by path; at most some hundreds.
    package var files: [File]
}
