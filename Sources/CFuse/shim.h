#pragma once
#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

// A function here, a macro from libfuse 3.17 on: one source builds on both.
static inline struct fuse_session *reel_session_new(
    struct fuse_args *arguments, const struct fuse_lowlevel_ops *operations, void *context) {
    return fuse_session_new(arguments, operations, sizeof *operations, context);
}

// Glibc's Swift module lacks sys/xattr.h.
#include <sys/xattr.h>
