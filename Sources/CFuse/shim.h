#pragma once
#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

// A function here, a macro from libfuse 3.17 on: one source builds on both.
static inline struct fuse_session *reel_session_new(
    struct fuse_args *arguments, const struct fuse_lowlevel_ops *operations, void *context) {
    return fuse_session_new(arguments, operations, sizeof *operations, context);
}

// pthread_setname_np(3): only declared with _GNU_SOURCE.
extern int pthread_setname_np(pthread_t, const char *);
static inline void reel_name_thread(pthread_t thread, const char *name) { pthread_setname_np(thread, name); }

// Glibc's Swift module lacks sys/xattr.h.
#include <sys/xattr.h>
