/* Sorted numbers in the code of Elias and Fano: the lower bits of each side by side,
 * the upper ones in unary, so that the bit of number i is at (upper part + i). A number
 * is looked for among those of its upper part, which lie between two zeros; samples of
 * the places of zeros lead there. */
#include "tests/bench/peers/forms.h"
#include "tests/bench/peers/peers.h"

enum { SAMPLED = 64 }; /* every so many zeros */

struct elias_fano {
    unsigned low_bits;
    size_t n;
    uint64_t n_upper, n_samples;
    uint8_t *low;
    uint64_t *upper;
    uint32_t *samples; /* the place of zero number 64 * i */
};

INLINE uint64_t low_of(const struct elias_fano *e, size_t i)
{
    uint64_t at = i * e->low_bits, word;
    memcpy(&word, e->low + at / 8, sizeof word); /* low_bits is at most 56 */
    return word >> at % 8 & ((UINT64_C(1) << e->low_bits) - 1);
}

struct elias_fano *elias_fano_new(const uint64_t *sorted, size_t n)
{
    struct elias_fano *e = allocate(sizeof *e);
    unsigned upper_bits = 8;
    while (UINT64_C(2) << upper_bits <= n)
        upper_bits++;
    e->n = n;
    e->low_bits = 64 - upper_bits;
    e->n_upper = n + (UINT64_C(1) << upper_bits);
    e->low = allocate(n * e->low_bits / 8 + 16);
    e->upper = allocate(e->n_upper / 8 + 16);
    e->n_samples = (UINT64_C(1) << upper_bits) / SAMPLED;
    e->samples = allocate(e->n_samples * sizeof *e->samples);
    for (size_t i = 0; i < n; i++) {
        uint64_t at = i * e->low_bits, word;
        uint64_t bit = (sorted[i] >> e->low_bits) + i;
        memcpy(&word, e->low + at / 8, sizeof word);
        word |= (sorted[i] & ((UINT64_C(1) << e->low_bits) - 1)) << at % 8;
        memcpy(e->low + at / 8, &word, sizeof word);
        e->upper[bit / 64] |= UINT64_C(1) << bit % 64;
    }
    uint64_t n_zeros = 0;
    for (uint64_t bit = 0; bit < e->n_upper; bit++)
        if (!(e->upper[bit / 64] >> bit % 64 & 1)) {
            if (n_zeros % SAMPLED == 0)
                e->samples[n_zeros / SAMPLED] = (uint32_t)bit;
            n_zeros++;
        }
    return e;
}

uint64_t elias_fano_bits(const struct elias_fano *e)
{
    return e->n * e->low_bits + e->n_upper + 32 * e->n_samples;
}

void elias_fano_free(struct elias_fano *e)
{
    free(e->low), free(e->upper), free(e->samples);
    free(e);
}

/* Returns the place of zero number i. */
INLINE uint64_t select_zero(const struct elias_fano *e, uint64_t i)
{
    uint64_t at = e->samples[i / SAMPLED], left = i % SAMPLED;
    uint64_t word = ~e->upper[at / 64] & UINT64_MAX << at % 64, n;
    at /= 64;
    while (left >= (n = (uint64_t)__builtin_popcountll(word))) {
        left -= n;
        word = ~e->upper[++at];
    }
    while (left--)
        word &= word - 1;
    return at * 64 + (uint64_t)__builtin_ctzll(word);
}

INLINE bool has(const struct elias_fano *e, uint64_t x)
{
    uint64_t upper = x >> e->low_bits, low = x & ((UINT64_C(1) << e->low_bits) - 1);
    uint64_t at = upper ? select_zero(e, upper - 1) + 1 : 0;
    for (; e->upper[at / 64] >> at % 64 & 1; at++) {
        uint64_t is = low_of(e, at - upper);
        if (is >= low)
            return is == low;
    }
    return false;
}

#define FORM(name, TARGET)                                                             \
    TARGET static size_t count_##name(const struct elias_fano *e, const uint64_t *x,   \
                                      size_t n)                                        \
    {                                                                                  \
        const struct elias_fano own = *e;                                              \
        size_t n_absent = 0;                                                           \
        for (size_t i = 0; i < n; i++)                                                 \
            n_absent += !has(&own, x[i]);                                              \
        return n_absent;                                                               \
    }

FORM(plain, PLAIN)
#ifdef __x86_64__
FORM(avx2, AVX2) /* for its popcnt and tzcnt */
#endif

size_t ask_elias_fano(void *elias_fano, const struct piece *p)
{
#ifdef __x86_64__
    if (have_avx2())
        return count_avx2(elias_fano, p->hashes, p->n);
#endif
    return count_plain(elias_fano, p->hashes, p->n);
}
