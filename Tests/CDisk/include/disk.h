#pragma once
#include <stdint.h>
#include <sys/types.h>

/// What is wrong with the disk below the cache.
enum reel_disk_trouble {
    REEL_DISK_WELL,
    /// Nothing can be written: ENOSPC. Holes can be made.
    REEL_DISK_FULL,
    /// Writes fail with EIO, and so does what makes them durable, with what was written before.
    REEL_DISK_FAILS,
    /// Writes succeed, and are lost: what makes them durable fails with EIO.
    REEL_DISK_FORGETS,
    /// Nothing can be changed: EROFS.
    REEL_DISK_READ_ONLY,
};

/// The filesystem on which the calls below fail and are noted; 0: none.
void reel_disk_watch(dev_t device);
void reel_disk_trouble(enum reel_disk_trouble trouble);
/// While true, calls are what they always are.
void reel_disk_pass(_Bool passes);

/// Makes of a copy of a file, as it is now, what a power failure would leave of that file: of the writes since it was
/// last made durable, some are undone, page by page.
/// @param file The inode of the file.
/// @param copy Open for reading and writing.
/// @param chance Decides which.
void reel_disk_lose(ino_t file, int copy, uint64_t chance);
