/// Why an operation failed. `ReelFuse` holds the one table that turns these into errnos.
package enum VolumeError: Error, Hashable, Sendable {
    case notFound
    case notDirectory
    case isDirectory
    case readOnly
    /// 401 or 403, also after another request to the original URL.
    case accessDenied
    /// 404 or 410 for a known name, or another version than the open one: reopen.
    case stale
    case timedOut
    /// The origin cannot be reached and the bytes are not cached.
    case unreachable
    /// The same, known before any request: none was made.
    case offline
    /// A server error after retries, a wrong answer, a cache that cannot be read.
    case failed
    case interrupted
    case noAttribute
    /// The filesystem has no attributes of that kind.
    case unsupported
    case nameTooLong
    /// A symbolic link leads out of the tree.
    case leadsOut
}
