import CFuse
import ReelFilesystem

/// Refuses every change of the tree with EROFS. The kernel does so itself while the mount is `ro`; these answer after
/// root has remounted it `rw`.
func refuseChanges(_ operations: inout fuse_lowlevel_ops) {
    operations.setattr = { request, _, _, _, _ in refuse(request) }
    operations.mknod = { request, _, _, _, _ in refuse(request) }
    operations.mkdir = { request, _, _, _ in refuse(request) }
    operations.unlink = { request, _, _ in refuse(request) }
    operations.rmdir = { request, _, _ in refuse(request) }
    operations.symlink = { request, _, _, _ in refuse(request) }
    operations.rename = { request, _, _, _, _, _ in refuse(request) }
    operations.link = { request, _, _, _ in refuse(request) }
    operations.create = { request, _, _, _, _ in refuse(request) }
    operations.write = { request, _, _, _, _, _ in refuse(request) }
    operations.setxattr = { request, _, _, _, _, _ in refuse(request) }
    operations.removexattr = { request, _, _ in refuse(request) }
    operations.fallocate = { request, _, _, _, _, _ in refuse(request) }
}

private func refuse(_ request: fuse_req_t!) { Reply(request).fail(.readOnly) }
