import Glibc
import ReelVolume

extension VolumeError {
    /// The one table from errors to errnos (the page Errors).
    package var errno: Int32 {
        switch self {
        /// lookup: no such name in the listing.
        case .notFound: ENOENT
        /// opendir, lookup below a file.
        case .notDirectory: ENOTDIR
        /// open(2) of a directory as a file.
        case .isDirectory: EISDIR
        /// Every operation that would change something.
        case .readOnly: EROFS
        /// 401 and 403: the one errno that makes a user think of credentials.
        case .accessDenied: EACCES
        /// After open(2) answered this the kernel looks the path up again and opens what it finds; on a read it says
        /// "reopen", as NFS does.
        case .stale: ESTALE
        /// The mount's own deadline; EAGAIN or EIO would be retried or taken for a broken disk.
        case .timedOut: ETIMEDOUT
        /// Programs know EIO from every disk and give up at once.
        case .unreachable: EIO
        /// The mount knows itself offline.
        case .offline: ENETUNREACH
        case .failed: EIO
        /// read(2) interrupted by a signal.
        case .interrupted: EINTR
        /// xattr(7): anything but this and EOPNOTSUPP breaks `ls -l` and `cp -a`.
        case .noAttribute: ENODATA
        /// xattr(7): what `ls -l` takes for "do not ask of the other files".
        case .unsupported: EOPNOTSUPP
        /// Over 255 bytes, as every local filesystem says.
        case .nameTooLong: ENAMETOOLONG
        }
    }

    /// The errno of requests that wait when the mount ends; the kernel answers later ones with the same.
    package static let shutdownErrno: Int32 = ENOTCONN
}
