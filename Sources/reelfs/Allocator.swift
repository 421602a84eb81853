import CLinux

/// Large pieces of memory come from the system one by one and go back as soon as they are free, however often that
/// happens: glibc would raise both limits each time one is freed, up to 32 MiB (mallopt(3)). Then the second large listing
/// would be read in the arena of the thread that reads it, and what stays free at such an arena's end malloc_trim(3) does
/// not give back. What reads take is kept for the next read, and not asked for anew.
func keepAllocatorLimits() {
    // As glibc has them at first.
    mallopt(M_MMAP_THRESHOLD, 128 << 10)
    mallopt(M_TRIM_THRESHOLD, 128 << 10)
}
