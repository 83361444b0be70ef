/* Filters of the literature that tamis is compared with, as short as they can be: a
 * classic Bloom filter (Bloom 1970; hashes as by Kirsch and Mitzenmacher 2006), and one
 * whose bits lie in one cache line (Putze, Sanders and Singler 2007). */
#include "tests/paper/kinds.h"

#include <math.h>
#include <stdlib.h>

static uint64_t below(uint64_t h, uint64_t n)
{
    __extension__ typedef unsigned __int128 u128;
    return (uint64_t)((u128)h * n >> 64);
}

static inline uint64_t mixed(uint64_t h)
{
    h = (h ^ h >> 29) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 32;
}

/* Calls f for each bit of a key, until it says false. In a block each bit takes nine
 * bits of a hash. Sums of two numbers, as for a classic filter, would be too few
 * different patterns there. */
typedef bool visit_fn(struct textbook *t, uint64_t bit);

static bool each_bit(struct textbook *t, uint64_t h, visit_fn *f)
{
    uint64_t second = mixed(h) | 1, word = second;
    uint64_t block = below(h, t->n_bits / BLOCK_BITS) * BLOCK_BITS;
    for (uint32_t i = 0; i < t->k; i++) {
        if (i % 7 == 0)
            word = mixed(word);
        uint64_t bit = t->blocked ? block + (word >> i % 7 * 9) % BLOCK_BITS
                                  : below(h + i * second, t->n_bits);
        if (!f(t, bit))
            return false;
    }
    return true;
}

static bool set_bit(struct textbook *t, uint64_t bit)
{
    t->words[bit / 64] |= UINT64_C(1) << bit % 64;
    return true;
}

static bool bit_is_set(struct textbook *t, uint64_t bit)
{
    return t->words[bit / 64] >> bit % 64 & 1;
}

/* As many bits as the formula says, in whole blocks; k as for a classic filter. */
void textbook_create(struct textbook *t, bool blocked, double bits_per_key, uint64_t n)
{
    uint64_t n_blocks = (uint64_t)ceil(bits_per_key * (double)n / BLOCK_BITS);
    *t = (struct textbook){.blocked = blocked, .n_bits = n_blocks * BLOCK_BITS};
    t->k = (uint32_t)fmax(1, round(bits_per_key * log(2)));
    t->words = calloc(n_blocks, BLOCK_BYTES);
    if (!t->words)
        exit(3);
}

void textbook_add(struct textbook *t, uint64_t h)
{
    each_bit(t, h, set_bit);
}

bool textbook_has(struct textbook *t, uint64_t h)
{
    return each_bit(t, h, bit_is_set);
}

void textbook_free(struct textbook *t)
{
    free(t->words);
}
