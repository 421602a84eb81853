// Stands before the C library's calls that change files, and passes on: notes what a power failure could undo, and
// fails as a sick disk does. Only for files on the filesystem that is watched, so that all else is as ever.
#define _GNU_SOURCE
#include "disk.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

/// What a write replaced: bytes of one page, and the length of the file.
struct undo {
    struct undo *before;
    ino_t file;
    off_t offset, length;
    size_t count;
    char bytes[];
};

static dev_t watched;
static enum reel_disk_trouble trouble;
static _Bool passes;
/// The latest first. No lock: in a simulation one thread runs at a time, and nobody else sets `watched`.
static struct undo *latest;

void reel_disk_watch(dev_t device) { watched = device; }
void reel_disk_trouble(enum reel_disk_trouble new) { trouble = new; }
void reel_disk_pass(_Bool new) { passes = new; }

#define REAL(name, ...) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name);

/// How often each file has changed.
static struct count {
    ino_t file;
    long changes;
} *counts;
static size_t counted;

static long *changes(ino_t file) {
    for (size_t place = 0; place < counted; place++)
        if (counts[place].file == file) return &counts[place].changes;
    if (counted % 256 == 0) counts = realloc(counts, (counted + 256) * sizeof *counts);
    if (!counts) abort();
    counts[counted] = (struct count){file, 0};
    return &counts[counted++].changes;
}

static _Bool is_on_watched(const struct stat *status) {
    return watched && status->st_dev == watched && S_ISREG(status->st_mode);
}

static _Bool is_watched(int fd, struct stat *status) {
    REAL(fstat)
    if (!watched || passes) return 0;
    int kept = errno;
    _Bool result = real(fd, status) == 0 && is_on_watched(status);
    errno = kept;
    return result;
}

/// The error of a call that writes, 0 if there is none.
static int refusal(void) {
    switch (trouble) {
    case REEL_DISK_FULL: return ENOSPC;
    case REEL_DISK_FAILS: return EIO;
    case REEL_DISK_READ_ONLY: return EROFS;
    default: return 0;
    }
}

static int refuse(int error) {
    errno = error;
    return -1;
}

/// Notes the bytes of a range that is about to change.
static void note(int fd, const struct stat *status, off_t offset, off_t count) {
    ++*changes(status->st_ino);
    off_t end = offset + count;
    do {
        off_t next = (offset / PAGE + 1) * PAGE;
        size_t length = (size_t)((next < end ? next : end) - offset);
        struct undo *undo = malloc(sizeof(struct undo) + length);
        if (!undo) abort();
        *undo = (struct undo){latest, status->st_ino, offset, status->st_size, length};
        ssize_t got = length ? pread(fd, undo->bytes, length, offset) : 0;
        if (got < 0) got = 0;
        memset(undo->bytes + got, 0, length - (size_t)got);
        latest = undo;
        offset = next;
    } while (offset < end);
}

/// All that was written to a file is durable.
static void keep(ino_t file) {
    for (struct undo **place = &latest; *place;) {
        struct undo *undo = *place;
        if (undo->file != file) {
            place = &undo->before;
            continue;
        }
        *place = undo->before;
        free(undo);
    }
}

static uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
}

void reel_disk_lose(ino_t file, int copy, uint64_t chance) {
    _Bool passed = passes;
    passes = 1;
    // From the latest back. Of each page a number of last writes is lost, none of many pages.
    off_t length = -1;
    for (struct undo *undo = latest; undo; undo = undo->before) {
        if (undo->file != file) continue;
        uint64_t page = mixed(chance + (uint64_t)(undo->offset / PAGE) * 0x9E3779B97F4A7C15u);
        // How many later writes of the same page there are.
        uint64_t later = 0;
        for (struct undo *other = latest; other != undo; other = other->before)
            if (other->file == file && other->offset / PAGE == undo->offset / PAGE) later++;
        if (page % 2 == 0 || later >= (page >> 8) % 4 + 1) continue;
        if (undo->count) pwrite(copy, undo->bytes, undo->count, undo->offset);
        if (chance % 2 == 0) length = undo->length;
    }
    if (length >= 0) {
        if (ftruncate(copy, length) != 0) abort();
    }
    passes = passed;
}

// MARK: The C library's names

/// A file's dates count its changes: those of the clock fall together or not, as the machine is busy or not.
int fstat(int fd, struct stat *status) {
    REAL(fstat)
    int result = real(fd, status);
    if (result == 0 && is_on_watched(status)) {
        status->st_mtim = status->st_ctim = (struct timespec){1750000000, *changes(status->st_ino)};
    }
    return result;
}

#define WRITE(name, offset_type) \
    ssize_t name(int fd, const void *bytes, size_t count, offset_type offset) { \
        REAL(name) \
        struct stat status; \
        if (is_watched(fd, &status)) { \
            int error = refusal(); \
            if (error) return refuse(error); \
            note(fd, &status, offset, (off_t)count); \
        } \
        return real(fd, bytes, count, offset); \
    }
WRITE(pwrite, off_t)
WRITE(pwrite64, off64_t)

#define TRUNCATE(name, offset_type) \
    int name(int fd, offset_type length) { \
        REAL(name) \
        struct stat status; \
        if (is_watched(fd, &status)) { \
            int error = refusal(); \
            if (error && error != ENOSPC) return refuse(error); \
            if (length < status.st_size) note(fd, &status, length, status.st_size - length); \
            else note(fd, &status, status.st_size, 0); \
        } \
        return real(fd, length); \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

/// A data file of the cache; the others are the index and its log.
static _Bool is_data(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return strstr(path, "/objects/") != NULL;
}

/// What was written since the last success is lost, as pages that could not be written are dropped from memory sooner
/// or later (fsync(2), "EIO").
static void lose(int fd, ino_t file) {
    _Bool passed = passes;
    passes = 1;
    for (struct undo *undo = latest; undo; undo = undo->before)
        if (undo->file == file && undo->count && pwrite(fd, undo->bytes, undo->count, undo->offset) < 0) abort();
    keep(file);
    passes = passed;
}

#define SYNC(name) \
    int name(int fd) { \
        REAL(name) \
        struct stat status; \
        if (is_watched(fd, &status)) { \
            if (trouble == REEL_DISK_FAILS || trouble == REEL_DISK_FORGETS) { \
                if (is_data(fd)) lose(fd, status.st_ino); \
                return refuse(EIO); \
            } \
            keep(status.st_ino); \
            return 0; \
        } \
        return real(fd); \
    }
SYNC(fsync)
SYNC(fdatasync)

#define ALLOCATE(name, offset_type) \
    int name(int fd, int mode, offset_type offset, offset_type length) { \
        REAL(name) \
        struct stat status; \
        if (is_watched(fd, &status) && mode & FALLOC_FL_PUNCH_HOLE) { \
            int error = refusal(); \
            if (error && error != ENOSPC) return refuse(error); \
            offset_type end = offset + length < status.st_size ? offset + length : status.st_size; \
            if (offset < end) note(fd, &status, offset, end - offset); \
        } \
        return real(fd, mode, offset, length); \
    }
ALLOCATE(fallocate, off_t)
ALLOCATE(fallocate64, off64_t)
