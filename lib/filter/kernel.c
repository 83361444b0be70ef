/* Probe and add on mapped bits: the seam behind which fast kernels live. All are
 * bit-identical to format/geometry.c. Mapped words are shared with other threads
 * and processes, so they are read and written with relaxed atomics. */
#include "lib/internal.h"

#include <pthread.h>
#include <stdlib.h>

/* Words are little-endian on disk, and in a mapping. */
static inline uint64_t disk_order(uint64_t word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(word);
#else
    return word;
#endif
}

static inline uint64_t word_mask(uint64_t h, uint32_t word)
{
    return disk_order(UINT64_C(1) << geometry_bit(h, word));
}

static bool scalar_probe(const uint8_t *block, uint32_t words, uint64_t h)
{
    const uint64_t *w = (const uint64_t *)(const void *)block;
    uint32_t start = geometry_start(h);
    uint64_t missing = 0;
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word = (start + i) % WORDS_PER_BLOCK;
        missing |= ~__atomic_load_n(&w[word], __ATOMIC_RELAXED) & word_mask(h, word);
    }
    return missing == 0;
}

static uint32_t scalar_add(uint8_t *block, uint32_t words, uint64_t h)
{
    uint64_t *w = (uint64_t *)(void *)block;
    uint32_t start = geometry_start(h), fresh = 0;
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word = (start + i) % WORDS_PER_BLOCK;
        uint64_t mask = word_mask(h, word);
        /* A set bit stays set: no need to take the line for writing. */
        if (__atomic_load_n(&w[word], __ATOMIC_RELAXED) & mask)
            continue;
        fresh += !(__atomic_fetch_or(&w[word], mask, __ATOMIC_RELAXED) & mask);
    }
    return fresh;
}

static const struct kernel kernels[] = {
    {"scalar", scalar_probe, scalar_add},
};

static const struct kernel *chosen = &kernels[0];
static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;

static void choose(void)
{
    const char *name = getenv("TAMIS_KERNEL");
    for (size_t i = 0; name && i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i].name, name) == 0)
            chosen = &kernels[i];
}

const struct kernel *kernel_get(void)
{
    pthread_once(&chosen_once, choose);
    return chosen;
}
