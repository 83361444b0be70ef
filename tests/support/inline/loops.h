/* Loops over inline probes (tamis_inline.h), compiled once for each processor that a
 * caller's compiler may be told: for plain C, AVX2, AVX-512 and NEON, as far as this
 * machine's compiler can. Tests compare their answers, the benchmark their speed. */
#ifndef TAMIS_TESTS_INLINE_LOOPS_H
#define TAMIS_TESTS_INLINE_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tamis_domain;
struct tamis_inline;
struct tamis_inline_blocks;
struct tamis_inline_geometry;
struct tamis_key;

struct inline_loops {
    const char *name;
    bool (*runs_here)(void);
    /* Asks one value for n keys. Bit i % 64 of absent[i / 64]: key i is ABSENT. Returns
     * how many are. */
    size_t (*probe)(const struct tamis_inline *value, uint64_t tag,
                    const uint64_t *hashes, size_t n, uint64_t *absent);
    /* The same, and only counts. */
    size_t (*count)(const struct tamis_inline *value, uint64_t tag,
                    const uint64_t *hashes, size_t n);
    /* As probe(), `few` keys at a time, each few with a word of its own. */
    size_t (*probe_few)(const struct tamis_inline *value, uint64_t tag,
                        const uint64_t *hashes, size_t n, size_t few, uint64_t *absent);
    /* Asks n values for one key. Returns how many say ABSENT. */
    size_t (*probe_each)(const struct tamis_inline *values, size_t n,
                         const struct tamis_key *key);
    /* As tamis_key_of(). */
    void (*key_of)(const struct tamis_domain *domain, const void *bytes, size_t n_bytes,
                   struct tamis_key *key);
    /* As probe(), of blocks. */
    size_t (*probe_blocks)(const struct tamis_inline_blocks *value, const void *bits,
                           size_t n_bytes, uint64_t tag, const uint64_t *hashes,
                           size_t n, uint64_t *absent);
    /* Adds n keys to blocks, one by one. Returns how many were refused. */
    size_t (*add_blocks)(const struct tamis_inline_blocks *value, void *bits,
                         size_t n_bytes, uint64_t tag, const uint64_t *hashes,
                         size_t n);
    /* Bits without a value: counts the absent ones of n keys; adds n keys, with the
     * lines of the one `ahead` keys later fetched, or 0. */
    size_t (*count_by_hand)(const struct tamis_inline_geometry *g,
                            const unsigned char *bits, const uint64_t *hashes,
                            size_t n);
    void (*add_by_hand)(const struct tamis_inline_geometry *g, unsigned char *bits,
                        const uint64_t *hashes, size_t n, size_t ahead);
};

extern const struct inline_loops inline_plain, inline_avx2, inline_avx512;

/* The best of those that run here, "plain" last; NULL beyond. */
static inline const struct inline_loops *inline_loops_at(size_t i)
{
    static const struct inline_loops *const all[] = {&inline_avx512, &inline_avx2,
                                                     &inline_plain};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        if (all[k]->runs_here() && i-- == 0)
            return all[k];
    return NULL;
}

#endif
