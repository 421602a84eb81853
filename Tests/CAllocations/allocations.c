// Stands before the C library's allocator in the test program, counts by thread, and passes on.
#include "allocations.h"

#include <errno.h>
#include <stddef.h>

static __thread unsigned long count __attribute__((tls_model("initial-exec")));

unsigned long reel_allocations(void) { return count; }

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

#ifdef SANITIZED
_Bool reel_counts_allocations(void) { return 0; }
#else
_Bool reel_counts_allocations(void) { return 1; }

// glibc's own names for what it does (malloc/malloc.c); its manual allows to replace the others ("Replacing malloc").
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t size) { count++; return __libc_malloc(size); }
void *calloc(size_t number, size_t size) { count++; return __libc_calloc(number, size); }
void *realloc(void *old, size_t size) { count++; return __libc_realloc(old, size); }
void *memalign(size_t alignment, size_t size) { count++; return __libc_memalign(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **memory, size_t alignment, size_t size) {
    *memory = memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}
#endif
