/* The ways to ask a filter, and to add to blocks in memory, that are ours. */
#include "tests/bench/bench.h"
#include "tests/support/inline/loops.h"

/* XXH3 alone: compiled into the loop. */
#define XXH_INLINE_ALL
#include <xxhash.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- by hash ---- */

size_t ask_call(void *subject, const struct piece *p)
{
    const struct subject *s = subject;
    EACH_KEY(p, tamis_filter_probe(s->filter, &key, NULL));
}

size_t ask_calls(void *subject, const struct piece *p)
{
    const struct subject *s = subject;
    uint64_t absent[16];
    size_t n_absent = 0;
    for (size_t at = 0; at < p->n; at += s->few)
        n_absent +=
            tamis_filter_probe_batch(s->filter, bench.domain.tag, p->hashes + at,
                                     least(p->n - at, s->few), absent, NULL);
    return n_absent;
}

size_t ask_inline(void *subject, const struct piece *p)
{
    const struct subject *s = subject;
    return inline_loops_at(0)->count(&s->value, bench.domain.tag, p->hashes, p->n);
}

size_t ask_inline_plain(void *subject, const struct piece *p)
{
    const struct subject *s = subject;
    return inline_plain.count(&s->value, bench.domain.tag, p->hashes, p->n);
}

size_t ask_hand(void *subject, const struct piece *p)
{
    const struct subject *s = subject;
    return inline_loops_at(0)->count_by_hand(&s->value.geometry, s->bits.base,
                                             p->hashes, p->n);
}

/* ---- by string ---- */

size_t ask_string(void *subject, const struct piece *p)
{
    const struct subject *s = subject;
    const struct tamis_domain domain = bench.domain;
    size_t n_absent = 0;
    for (size_t i = 0; i < p->n; i++) {
        struct tamis_key key =
            tamis_key_of(&domain, p->keys[i].bytes, p->keys[i].n_bytes);
        n_absent += tamis_filter_probe(s->filter, &key, NULL) == TAMIS_ABSENT;
    }
    return n_absent;
}

size_t ask_strings(void *subject, const struct piece *p)
{
    enum { A_CALL = 128 };
    const struct subject *s = subject;
    uint64_t hashes[A_CALL], absent[A_CALL / 64], tag = bench.domain.tag;
    size_t n_absent = 0;
    for (size_t at = 0; at < p->n; at += A_CALL) {
        size_t n = least(p->n - at, A_CALL);
        tamis_domain_hash(&bench.domain, p->bytes, p->ends + at, n, hashes);
        n_absent += tamis_filter_probe_batch(s->filter, tag, hashes, n, absent, NULL);
    }
    return n_absent;
}

size_t hash_keys(void *subject, const struct piece *p)
{
    (void)subject;
    tamis_domain_hash(&bench.domain, p->bytes, p->ends, p->n, p->hashes);
    return p->hashes[p->n - 1] >> 1;
}

size_t hash_xxh3(void *subject, const struct piece *p)
{
    const uint64_t seed = bench.domain.seed;
    (void)subject;
    for (size_t i = 0; i < p->n; i++)
        p->keys[i].hash =
            XXH3_64bits_withSeed(p->keys[i].bytes, p->keys[i].n_bytes, seed);
    return p->keys[p->n - 1].hash >> 1;
}

/* ---- blocks in memory ---- */

size_t ask_blocks(void *subject, const struct piece *p)
{
    const struct subject *s = subject;
    EACH_KEY(p,
             tamis_blocks_probe(&s->blocks, s->bits.base, s->bits.n_bytes, &key, NULL));
}

size_t add_blocks(void *subject, const struct piece *p)
{
    struct subject *s = subject;
    int rc = 0;
    for (size_t at = 0; at < p->n; at += s->few)
        rc |= tamis_blocks_add(&s->blocks, s->scratch[0], s->bits.n_bytes, p->keys + at,
                               least(p->n - at, s->few));
    must(rc, NULL, "adding to blocks");
    return 0;
}

size_t add_blocks_inline(void *subject, const struct piece *p)
{
    struct subject *s = subject;
    size_t n_refused = inline_loops_at(0)->add_blocks(&s->inline_blocks, s->scratch[0],
                                                      s->bits.n_bytes, bench.domain.tag,
                                                      p->hashes, p->n);
    must(n_refused ? TAMIS_ERR_RANGE : 0, NULL, "adding to blocks");
    return 0;
}

size_t add_hand(void *subject, const struct piece *p)
{
    enum { WINDOW = 64 };
    struct subject *s = subject;
    inline_loops_at(0)->add_by_hand(&s->inline_blocks.geometry, s->scratch[1],
                                    p->hashes, p->n, s->few > 1 ? WINDOW : 0);
    return 0;
}
