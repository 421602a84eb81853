#pragma once

/// False where a sanitizer has an allocator of its own.
_Bool reel_counts_allocations(void);
/// How often this thread has asked the C library for memory, by whatever way.
unsigned long reel_allocations(void);
