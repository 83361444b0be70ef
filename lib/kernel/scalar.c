/* The kernel for every processor: word by word, in C. */
#include "lib/kernel/kernel.h"
#include "lib/kernel/ribbon.h"

#define KERNEL             static
#define KERNEL_NAME        "scalar"
#define KERNEL_SYMBOL      kernel_scalar
#define RIBBON_SYMBOL      ribbon_scalar
#define ANY_ADDRESS        false
#define NEAR_BYTES         (512 << 10)
#define VECTOR_BYTES       16

#define WORDS(words)       (words)
#define PLANE_WORDS(plane) ((plane)->words)

struct pattern {
    uint64_t h;
};

KERNEL inline struct pattern pattern_of(uint64_t h)
{
    return (struct pattern){h};
}

/* Words are little-endian on disk, and in a mapping. */
KERNEL inline uint64_t disk_order(uint64_t word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(word);
#else
    return word;
#endif
}

KERNEL inline uint64_t word_mask(uint64_t h, uint32_t word)
{
    return disk_order(UINT64_C(1) << geometry_bit(h, word));
}

KERNEL inline uint8_t pattern_lacks(const struct pattern *x, uint32_t words,
                                    const uint8_t *block)
{
    const uint64_t *w = (const uint64_t *)(const void *)block;
    uint32_t start = geometry_start(x->h);
    uint64_t missing = 0;
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word = (start + i) % WORDS_PER_BLOCK;
        missing |= ~__atomic_load_n(&w[word], __ATOMIC_RELAXED) & word_mask(x->h, word);
    }
    return missing != 0;
}

KERNEL inline uint32_t pattern_add(const struct pattern *x, uint32_t words,
                                   uint8_t *block, bool alone)
{
    uint64_t *w = (uint64_t *)(void *)block;
    uint32_t start = geometry_start(x->h), fresh = 0;
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word = (start + i) % WORDS_PER_BLOCK;
        uint64_t mask = word_mask(x->h, word);
        /* A set bit stays set: no need to take the line for writing. */
        if (__atomic_load_n(&w[word], __ATOMIC_RELAXED) & mask)
            continue;
        fresh += set_missing(&w[word], mask, alone);
    }
    return fresh;
}

KERNEL inline void pattern_fill(const struct pattern *x, uint32_t words, uint8_t *block)
{
    uint64_t *w = (uint64_t *)(void *)block;
    uint32_t start = geometry_start(x->h);
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word = (start + i) % WORDS_PER_BLOCK;
        w[word] |= word_mask(x->h, word);
    }
}

/* Counts of 2, 4, 8 bits are made side by side in each word, and those bytes, of at
 * most 8 * 8, added up. */
KERNEL inline uint64_t block_count(const uint8_t *block)
{
    const uint64_t *w = (const uint64_t *)(const void *)block;
    uint64_t sums = 0;
    for (uint32_t i = 0; i < WORDS_PER_BLOCK; i++) {
        uint64_t v = __atomic_load_n(&w[i], __ATOMIC_RELAXED);
        v -= v >> 1 & UINT64_C(0x5555555555555555);
        v = (v & UINT64_C(0x3333333333333333)) +
            (v >> 2 & UINT64_C(0x3333333333333333));
        sums += (v + (v >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    }
    sums = (sums & UINT64_C(0x00ff00ff00ff00ff)) +
           (sums >> 8 & UINT64_C(0x00ff00ff00ff00ff));
    return sums * UINT64_C(0x0001000100010001) >> 48;
}

#include "lib/kernel/loops.h"

/* ==== ribbons: SPEC.md section 19 ==== */

KERNEL inline uint64_t column_word(const uint8_t *at)
{
    struct le64 word;
    memcpy(&word, at, sizeof word);
    return le64_get(word);
}

KERNEL inline uint32_t parities_of(const uint8_t *here, const uint8_t *next,
                                   uint64_t low, uint64_t high)
{
    uint32_t odd = 0;
    for (uint32_t j = 0; j < 8; j++) {
        uint64_t chosen =
            (column_word(here + 8 * j) & low) ^ (column_word(next + 8 * j) & high);
        odd |= (uint32_t)__builtin_parityll(chosen) << j;
    }
    return odd;
}

#include "lib/kernel/digits.h"
