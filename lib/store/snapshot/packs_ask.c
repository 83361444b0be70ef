/* Keys asked of all columns of a snapshot's packs.
 *
 *     rows of a stripe  --AND, living columns-->  0 1 0 0 1 0 ...   columns
 *                                                   |     |
 *                                 first + c, or slots[c] - 1
 *                                                   v     v
 *                                                 0 1 ... 1 0 ...   segments
 *
 * Rows of the next stripes, and of the next keys, are fetched meanwhile. */
#include "lib/store/snapshot/snapshot.h"

#include <string.h>

/* ---- from columns to segments ---- */

/* Columns that are set, as segments, one by one. */
static void note_each(const uint32_t *slots, uint64_t set, size_t base, uint64_t *hits)
{
    for (uint64_t m = set; m; m &= m - 1) {
        size_t index = slots[(uint32_t)__builtin_ctzll(m)] - (size_t)1 - base;
        if (index < (size_t)PACK_WINDOW) /* wraps: below */
            hits[index / 64] |= UINT64_C(1) << index % 64;
    }
}

/* A run within the window: without a branch, for about half of all words have a hit. */
static void note_run(const uint64_t *columns, uint32_t n_words, size_t to,
                     uint64_t *hits)
{
    uint32_t shift = to % 64;
    hits += to / 64;
    for (uint32_t i = 0; i < n_words; i++) {
        hits[i] |= columns[i] << shift;
        hits[i + 1] |= columns[i] >> 1 >> (63 - shift);
    }
}

/* The same where it begins with a word of segments. */
static void note_words(const uint64_t *columns, uint32_t n_words, uint64_t *hits)
{
    for (uint32_t i = 0; i < n_words; i++)
        hits[i] |= columns[i];
}

/* Asks a stripe whose rows were fetched, and adds to hits. */
static inline void ask_stripe(const struct stripe *s, const struct key_rows *rows,
                              size_t base, size_t n_words, uint64_t *hits,
                              bool *damaged)
{
    uint64_t columns[ROW_MAX_WORDS];
    size_t to = s->first - base, end = to / 64 + s->n_words; /* may wrap: below */
    pack_ask_rows(&s->rows, rows, s->living, columns, damaged);
    if (s->is_run && to % 64 == 0 && to < PACK_WINDOW && end <= n_words)
        note_words(columns, s->n_words, hits + to / 64);
    else if (s->is_run && to < PACK_WINDOW && end < n_words)
        note_run(columns, s->n_words, to, hits);
    else
        for (uint32_t i = 0; i < s->n_words; i++)
            note_each(s->slots + i * 64, columns[i], base, hits);
}

/* ---- one key after the other ---- */

static inline bool in_window(const struct stripe *s, size_t base)
{
    return s->last >= base && s->least < base + (size_t)PACK_WINDOW;
}

static inline size_t words_from(size_t base, size_t n)
{
    size_t n_words = (n - base + 63) / 64;
    return n_words < PACK_WORDS ? n_words : PACK_WORDS;
}

/* Fetches the rows of the next stripe that counts. */
static inline void fetch_next(struct packs_turn *t)
{
    const struct packs *p = t->packs;
    while (t->key < t->n_keys) {
        const struct stripe *s = &p->stripes[t->stripe];
        bool counts = in_window(s, t->base);
        if (counts)
            pack_fetch_rows(&s->rows, t->hashes[t->key],
                            &t->ring[t->n_fetched++ % PACKS_AHEAD]);
        if (++t->stripe == p->n_stripes) {
            t->stripe = 0;
            t->key++;
        }
        if (counts)
            return;
    }
}

void packs_begin(struct packs_turn *t, const struct packs *p, size_t base, size_t n,
                 const uint64_t *hashes, size_t n_keys)
{
    t->packs = p;
    t->base = base;
    t->n_words = words_from(base, n);
    t->hashes = hashes;
    t->n_keys = p->n_stripes ? n_keys : 0;
    t->key = t->stripe = 0;
    t->n_fetched = t->n_asked = 0;
    for (size_t i = 0; i < PACKS_AHEAD; i++)
        fetch_next(t);
}

void packs_next(struct packs_turn *t, uint64_t hits[PACK_WORDS], bool *damaged)
{
    const struct packs *p = t->packs;
    const struct stripe *s = p->stripes;
    *damaged = false;
    if (p->whole) {
        pack_ask_rows(&s->rows, &t->ring[t->n_asked++ % PACKS_AHEAD], s->living, hits,
                      damaged);
        fetch_next(t);
        return;
    }
    memset(hits, 0, t->n_words * sizeof *hits);
    for (; s < p->stripes + p->n_stripes; s++) {
        if (!in_window(s, t->base))
            continue;
        ask_stripe(s, &t->ring[t->n_asked++ % PACKS_AHEAD], t->base, t->n_words, hits,
                   damaged);
        fetch_next(t);
    }
}

void packs_ask(const struct packs *p, size_t base, size_t n, uint64_t h,
               uint64_t hits[PACK_WORDS], bool *damaged)
{
    struct packs_turn t;
    packs_begin(&t, p, base, n, &h, 1);
    packs_next(&t, hits, damaged);
}
