#include "bytes.h"

#include <string.h>

/* The finalizer of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014). */
static uint64_t mixed(uint64_t word) {
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}

void reel_generate(uint64_t seed, int64_t offset, void *bytes, size_t count) {
    uint8_t *place = bytes;
    const uint64_t start = seed * 0xD6E8FEB86659FD93u;
    while (count > 0) {
        const size_t skipped = (size_t)(offset & 7);
        const size_t part = count < 8 - skipped ? count : 8 - skipped;
        const uint64_t word = mixed(((uint64_t)(offset & ~(int64_t)7) ^ start) + 0x9E3779B97F4A7C15u);
        /* Little-endian, as all that the tests run on. */
        memcpy(place, (const uint8_t *)&word + skipped, part);
        place += part;
        offset += (int64_t)part;
        count -= part;
    }
}
