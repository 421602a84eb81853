/// What `reelfs status` shows of one mount. Bytes everywhere, rates in bytes a second.
package struct VolumeStatus: Codable, Sendable {
    package struct File: Codable, Sendable {
        /// Inside the mount, without a leading `/`.
        package var path: String
        /// nil for a resource whose length nobody knows yet.
        package var length: Int64?
        package var cachedBytes: Int64
        package var openHandles: Int
        /// From the origin, over the last seconds.
        package var rate: Int64

        package init(path: String, length: Int64?, cachedBytes: Int64, openHandles: Int, rate: Int64) {
            self.path = path
            self.length = length
            self.cachedBytes = cachedBytes
            self.openHandles = openHandles
            self.rate = rate
        }
    }

    /// An origin that is away.
    package struct Outage: Codable, Sendable {
        /// Scheme, host and port.
        package var origin: String
        /// `unreachable` or `silent`.
        package var kind: String
        /// Seconds since 1970.
        package var since: Int64

        package init(origin: String, kind: String, since: Int64) {
            self.origin = origin
            self.kind = kind
            self.since = since
        }
    }

    /// A directory that shows its last good listing because there is no newer one to be had.
    package struct StaleDirectory: Codable, Sendable {
        /// Inside the mount, without a leading `/`; empty for the root.
        package var path: String
        /// As in `user.reelfs.stale`.
        package var trouble: String
        /// Seconds since 1970.
        package var since: Int64

        package init(path: String, trouble: String, since: Int64) {
            self.path = path
            self.trouble = trouble
            self.since = since
        }
    }

    package var cacheUsed: Int64
    package var cacheCap: Int64
    /// Why nothing is written to the cache's disk at present; nil: it is.
    package var cacheFailure: String?
    /// Bytes that are kept in memory, as the disk does not take them.
    package var bytesInMemory: Int64
    /// Blocks that were not what had been written to them, and were fetched again.
    package var damagedBlocks: Int64
    package var bytesFromOrigin: Int64
    package var bytesServed: Int64
    /// Reads answered from the cache, and reads that had to wait for the origin.
    package var hits: Int64
    package var misses: Int64
    /// Of the bytes from the origin: those that somebody waited for, and all others.
    package var demanded: Int64
    package var speculative: Int64
    /// Of what was fetched ahead: not read before its file had been closed for some seconds or it left the cache; and
    /// bytes that came a second time.
    package var wasted: Int64
    package var outages: [Outage]
    /// At most some hundreds.
    package var staleDirectories: [StaleDirectory]
    /// Open files first, then those with cached bytes, by path; at most some hundreds.
    package var files: [File]

    package init(
        cacheUsed: Int64, cacheCap: Int64, cacheFailure: String?, bytesInMemory: Int64, damagedBlocks: Int64,
        bytesFromOrigin: Int64, bytesServed: Int64, hits: Int64, misses: Int64, demanded: Int64, speculative: Int64,
        wasted: Int64, outages: [Outage] = [], staleDirectories: [StaleDirectory] = [], files: [File]
    ) {
        self.cacheUsed = cacheUsed
        self.cacheCap = cacheCap
        self.cacheFailure = cacheFailure
        self.bytesInMemory = bytesInMemory
        self.damagedBlocks = damagedBlocks
        self.bytesFromOrigin = bytesFromOrigin
        self.bytesServed = bytesServed
        self.hits = hits
        self.misses = misses
        self.demanded = demanded
        self.speculative = speculative
        self.wasted = wasted
        self.outages = outages
        self.staleDirectories = staleDirectories
        self.files = files
    }
}
