#pragma once
#define FUSE_USE_VERSION 314
#include <errno.h>
#include <fuse_lowlevel.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// A function here, a macro from libfuse 3.17 on: one source builds on both.
static inline struct fuse_session *reel_session_new(
    struct fuse_args *arguments, const struct fuse_lowlevel_ops *operations, void *context) {
    return fuse_session_new(arguments, operations, sizeof *operations, context);
}

// Passthrough. The kernel's side is Linux 6.9's <linux/fuse.h>, which may be newer than the headers installed. libfuse has
// it from 3.17 on; from 3.13 on the handshake can be amended on its way to the kernel (Handshake.swift); before, there is none.
typedef ssize_t (*reel_writev)(int, struct iovec *, int, void *);
typedef ssize_t (*reel_read)(int, void *, size_t, void *);

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
static inline bool reel_has_native_passthrough(void) { return true; }

// In `init`, after `want` is set. False: the kernel does not offer it.
static inline bool reel_want_passthrough(struct fuse_conn_info *connection, unsigned depth) {
    if (!(connection->capable & FUSE_CAP_PASSTHROUGH)) return false;
    connection->want |= FUSE_CAP_PASSTHROUGH;
    // libfuse counts what is below the mount, and adds the mount itself: one more than the kernel's limit is no passthrough.
    connection->max_backing_stack_depth = depth - 1;
    return true;
}

static inline int reel_reply_open_passthrough(fuse_req_t request, struct fuse_file_info info, int backing) {
    info.backing_id = backing;
    return fuse_reply_open(request, &info);
}
#else
static inline bool reel_has_native_passthrough(void) { return false; }
static inline bool reel_want_passthrough(struct fuse_conn_info *connection, unsigned depth) { return false; }

// fuse_reply_open knows no backing id: struct fuse_open_out, FOPEN_NOFLUSH | FOPEN_PASSTHROUGH, and FOPEN_DIRECT_IO where asked for.
static inline int reel_reply_open_passthrough(fuse_req_t request, struct fuse_file_info info, int backing) {
    struct { uint64_t handle; uint32_t flags; int32_t backing; } answer = { info.fh, 1 << 5 | 1 << 7 | info.direct_io, backing };
    return fuse_reply_buf(request, (const char *)&answer, sizeof answer);
}
#endif

static inline bool reel_has_passthrough(void) { return FUSE_VERSION >= FUSE_MAKE_VERSION(3, 13); }

// Puts two functions between libfuse and its device; -ENOSYS where that is not needed or not there.
static inline int reel_intercept(struct fuse_session *session, reel_writev writev, reel_read read) {
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 13) && FUSE_VERSION < FUSE_MAKE_VERSION(3, 17)
    struct fuse_custom_io calls = { .writev = writev, .read = read };
    return fuse_session_custom_io(session, &calls, fuse_session_fd(session));
#else
    return -ENOSYS;
#endif
}

// FUSE_DEV_IOC_BACKING_OPEN and _CLOSE. libfuse's wrappers hide the errno and want a request, which a close has not.
static inline int reel_backing_open(int device, int file) {
    struct { int32_t file; uint32_t flags; uint64_t padding; } map = { file, 0, 0 };
    int result = ioctl(device, _IOW(229, 1, map), &map);
    return result < 0 ? -errno : result;
}
static inline int reel_backing_close(int device, int backing) {
    uint32_t number = backing;
    return ioctl(device, _IOW(229, 2, number), &number) < 0 ? -errno : 0;
}

// capget(2) has no wrapper in glibc. Of the calling thread; in whichever user namespace it is.
static inline bool reel_may_administer(void) {
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { 0 };
    return syscall(SYS_capget, &header, data) == 0 && (data[0].effective & 1u << CAP_SYS_ADMIN);
}

// Glibc's Swift module lacks these.
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
