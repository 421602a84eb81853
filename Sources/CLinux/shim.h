#pragma once
// Linux calls and constants that Glibc's Swift module lacks, because their headers hide them behind _GNU_SOURCE.

#include <linux/falloc.h>
#include <sys/syscall.h>
#include <unistd.h>

// fallocate(2): only declared with _GNU_SOURCE.
static inline int reel_punch_hole(int fd, long offset, long length) {
    return (int)syscall(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
}
