import Glibc
import ReelFilesystem

extension VolumeError {
    /// The one table from errors to errnos (the page Errors).
    package var errno: Int32 {
        switch self {
        /// lookup of a name that the listing lacks.
        case .notFound: ENOENT
        /// opendir, lookup below a file.
        case .notDirectory: ENOTDIR
        /// open(2) of a directory as a file.
        case .isDirectory: EISDIR
        /// Every operation that would change something.
        case .readOnly: EROFS
        /// 401 and 403: the one errno that makes a user think of credentials.
        case .accessDenied: EACCES
        /// After this answer to open(2) the kernel looks the path up again and opens the new node; on a read it means
        /// "reopen", as with NFS.
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
        /// xattr(7): `ls -l` takes it for "do not ask for the other files".
        case .unsupported: EOPNOTSUPP
        /// Over 255 bytes, as every local filesystem says.
        case .nameTooLong: ENAMETOOLONG
        /// The errno of openat2(2) with RESOLVE_BENEATH.
        case .leadsOut: EXDEV
        }
    }

    /// The errno of requests that wait when the mount ends; the kernel gives the same to later ones.
    package static let shutdownErrno: Int32 = ENOTCONN
}
