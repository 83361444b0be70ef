/* One key, all segments: loose ones by what is at hand of each (probe_many.c), columns
 * of packs by their rows, stripe by stripe:
 *
 *     rows of the key --AND--> columns that may have it   0 1 1 0 ...
 *                                                           | |
 *     first + c                                             v v
 *                                                     0 1 1 0 ...     numbers
 *
 * Nothing is done segment by segment but for hits, of which there are few: a key's
 * range is compared with theirs, and where they are listed, ranks order them. */
#include "lib/store/base/counters.h"
#include "lib/store/catalog/origin.h"
#include "lib/store/snapshot/snapshot.h"

#include <string.h>

/* ---- rows of all stripes ---- */

/* Keys, one after the other, each asked of all stripes:
 *
 *     key 0           key 1           key 2
 *     stripe 0 1 2    stripe 0 1 2    stripe 0 1 2
 *            ^ asked next                    ^ fetched next  */
enum { STRIPES_AHEAD = 8 };
struct turn {
    const struct packs *all;
    const uint64_t *hashes;
    size_t n_keys, key;   /* whose rows are fetched next, */
    size_t stripe, asked; /* of this stripe; the stripe that is asked next */
    uint32_t n_fetched, n_asked;
    struct key_rows ring[STRIPES_AHEAD];
};

static inline void fetch_next(struct turn *t)
{
    const struct packs *p = t->all;
    if (t->key == t->n_keys)
        return;
    pack_fetch_rows(&p->stripes[t->stripe].rows, t->hashes[t->key],
                    &t->ring[t->n_fetched++ % STRIPES_AHEAD]);
    if (++t->stripe == p->n_stripes) {
        t->stripe = 0;
        t->key++;
    }
}

static void stripes_begin(struct turn *t, const struct packs *p, const uint64_t *hashes,
                          size_t n_keys)
{
    t->all = p;
    t->hashes = hashes;
    t->n_keys = p->n_stripes ? n_keys : 0;
    t->key = t->stripe = t->asked = 0;
    t->n_fetched = t->n_asked = 0;
    for (size_t i = 0; i < STRIPES_AHEAD; i++)
        fetch_next(t);
}

/* The columns of the next stripe that may have the key, a bit each. *damaged: pages
 * that failed took part, so that a bit may stand for damage alone. */
static const struct stripe *stripes_next(struct turn *t, uint64_t hits[ROW_MAX_WORDS],
                                         bool *damaged)
{
    const struct stripe *s = &t->all->stripes[t->asked];
    *damaged = false;
    pack_ask_rows(&s->rows, &t->ring[t->n_asked++ % STRIPES_AHEAD], s->living, hits,
                  damaged);
    fetch_next(t);
    t->asked = t->asked + 1 == t->all->n_stripes ? 0 : t->asked + 1;
    return s;
}

/* ---- columns, by stripes ---- */

/* Adds words of columns, the first of which is this number, to a row of numbers. */
static void add_words(uint64_t *row, size_t first, const uint64_t *words, uint32_t n)
{
    uint64_t *to = row + first / 64;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t high = first % 64 ? words[i] >> (64 - first % 64) : 0;
        to[i] |= words[i] << first % 64;
        if (high) /* else there may be no next word */
            to[i + 1] |= high;
    }
}

/* Rows of pages that failed say too much: each column is asked by itself. */
static enum tamis_reason reason_of_hit(const struct stripe *t, uint32_t column,
                                       const struct tamis_key *key, bool damaged,
                                       bool *by_range)
{
    uint32_t of_pack = t->band->first_column + column;
    enum tamis_reason why =
        damaged ? pack_probe_column(t->view->pack->filter, t->band, column, key->hash)
                : TAMIS_HIT;
    if (why == TAMIS_NO_REASON || !key->bytes)
        return why;
    enum tamis_reason hit = column_hit(t->view, of_pack, key, by_range);
    return hit == TAMIS_HIT ? why : hit;
}

static struct tamis_target target_of(const struct tamis_snapshot *s, size_t index)
{
    return (struct tamis_target){.slot = (uint32_t)index + 1, .snapshot = s->serial};
}

/* Looks at each hit of key i, takes out those that are absent after all, and tells of
 * the others. Those that are hits still are `sure`, and are not counted here. */
static void look_at_hits(struct tamis_snapshot *s, const struct packs_asked *a,
                         size_t i, const struct stripe *t, uint64_t *hits, bool damaged,
                         uint64_t *sure)
{
    for (uint32_t word = 0; word < t->n_words; word++) {
        sure[word] = 0;
        for (uint64_t m = hits[word]; m; m &= m - 1) {
            uint32_t column = word * 64 + (uint32_t)__builtin_ctzll(m);
            struct tamis_target target = target_of(s, t->first + column);
            bool by_range = false;
            enum tamis_reason why =
                reason_of_hit(t, column, &a->keys[i], damaged, &by_range);
            if (why == TAMIS_HIT)
                sure[word] |= m & -m;
            else if (a->sheet)
                count_one(s, &target, why, by_range);
            if (why == TAMIS_NO_REASON)
                hits[word] &= ~(m & -m);
            else if (a->tells && a->tells->candidates)
                outputs_add(s, a->tells, t->first + column);
            if (a->tells && a->tells->reasons)
                a->tells->reasons[t->first + column] = (uint8_t)why;
        }
    }
}

static void count_stripe(const struct tamis_snapshot *s, struct sheet *sheet,
                         const struct stripe *t, const uint64_t *absent,
                         const uint64_t *hits)
{
    for (uint32_t i = 0; i < t->n_words; i++) {
        size_t at = t->first + (size_t)i * 64, shift = at % 64,
               left = s->n - at + shift;
        uint64_t asked = left < 64 ? (UINT64_C(1) << left) - 1 : UINT64_MAX;
        count_of_all(sheet, at / 64, asked, absent[i] << shift, hits[i] << shift);
        uint64_t high = shift ? absent[i] >> (64 - shift) : 0;
        uint64_t high_hits = shift ? hits[i] >> (64 - shift) : 0;
        if (!(high | high_hits))
            continue;
        left -= 64;
        asked = left < 64 ? (UINT64_C(1) << left) - 1 : UINT64_MAX;
        count_of_all(sheet, at / 64 + 1, asked, high, high_hits);
    }
}

static void tell_reasons(const struct stripe *t, const uint64_t *absent,
                         uint8_t *reasons)
{
    for (uint32_t word = 0; word < t->n_words; word++)
        for (uint64_t m = absent[word]; m; m &= m - 1)
            reasons[t->first + word * 64 + (size_t)__builtin_ctzll(m)] =
                TAMIS_NO_REASON;
}

/* May a column of the stripe have key i? */
static bool take_stripe(struct tamis_snapshot *s, const struct packs_asked *a, size_t i,
                        const struct stripe *t, uint64_t *hits, bool damaged)
{
    uint64_t absent[ROW_MAX_WORDS], sure[ROW_MAX_WORDS], any = 0;
    for (uint32_t w = 0; a->sheet && w < t->n_words; w++)
        absent[w] = t->living[w] & ~hits[w];
    if (damaged || a->sheet || a->tells || a->keys[i].bytes)
        look_at_hits(s, a, i, t, hits, damaged, sure);
    if (a->sheet)
        count_stripe(s, a->sheet, t, absent, sure);
    for (uint32_t w = 0; w < t->n_words; w++) {
        any |= hits[w];
        absent[w] = t->living[w] & ~hits[w];
    }
    if (a->rows)
        add_words(a->rows + i * a->n_words, t->first, absent, t->n_words);
    if (a->tells && a->tells->reasons)
        tell_reasons(t, absent, a->tells->reasons);
    return any;
}

uint64_t ask_packs(struct tamis_snapshot *s, const struct packs_asked *a)
{
    uint64_t some = s->packs.n_mute ? a->plain : 0, hits[ROW_MAX_WORDS];
    struct turn turn;
    bool damaged, any = a->n == 1 && !a->rows && !a->sheet && !a->tells;
    stripes_begin(&turn, &s->packs, a->hashes, a->n);
    for (size_t i = 0; i < a->n; i++)
        /* The first that may have the key is the answer, if nobody asks which. */
        for (size_t k = 0; k < s->packs.n_stripes && !(any && some); k++) {
            const struct stripe *t = stripes_next(&turn, hits, &damaged);
            if (a->plain >> i & 1 && take_stripe(s, a, i, t, hits, damaged))
                some |= UINT64_C(1) << i;
        }
    return some;
}

static void tell_unlisted(const struct pack_view *v, uint8_t *reasons)
{
    for (uint32_t c = 0; c < v->n_columns; c++)
        if (!columns_have(v->listed, c))
            reasons[c] = TAMIS_UNKNOWN_SEGMENT;
}

/* *why: that of all of them, once it is known. */
static void tell_of_mute(struct tamis_snapshot *s, size_t index,
                         const struct tamis_key *key, bool count,
                         enum tamis_reason *why, struct outputs *to)
{
    struct tamis_target target = tamis_snapshot_target(s, index);
    bool by_range = false;
    if (*why == TAMIS_NO_REASON)
        *why = probe_target(s, &target, 0, key, &by_range);
    if (to->reasons)
        to->reasons[index] = (uint8_t)*why;
    if (count)
        count_one(s, &target, *why, false);
    if (to->candidates)
        outputs_add(s, to, index);
}

/* Nothing is asked of all but why nothing can be proven, once. */
void tell_mute(struct tamis_snapshot *s, const struct tamis_key *key, bool all,
               struct outputs *to)
{
    bool count = counters_on(&s->counts);
    enum tamis_reason why = TAMIS_NO_REASON;
    if (!count && !to->reasons && !to->candidates)
        return;
    for (size_t k = 0; k < s->packs.n; k++) {
        const struct pack_view *v = &s->packs.views[k];
        if (to->reasons)
            tell_unlisted(v, to->reasons + v->base);
        for (uint32_t at = 0; at < v->n_columns; at += 64) {
            uint64_t mute = columns_word(v->listed, at / 64);
            if (!all && v->dead)
                mute &= dead_word(v, at / 64);
            for (; mute; mute &= mute - 1) {
                why = all ? why : TAMIS_NO_REASON;
                tell_of_mute(s, v->base + at + (size_t)__builtin_ctzll(mute), key,
                             count, &why, to);
            }
        }
    }
}

/* ---- all of it ---- */

static void clear_answers(size_t n, const struct outputs *to)
{
    if (to->absent)
        memset(to->absent, 0, bit_words(n) * sizeof *to->absent);
    if (to->reasons)
        memset(to->reasons, TAMIS_UNREADABLE, n);
}

static bool probe_packs(struct tamis_snapshot *s, const struct tamis_key *key,
                        struct outputs *to)
{
    bool plain = key && s->complete && key->tag == s->domain.tag &&
                 origin_known(s->origin) == TAMIS_NO_REASON,
         some = !plain;
    if (plain) {
        struct packs_asked a = {
            .keys = key,
            .hashes = &key->hash,
            .n = 1,
            .plain = 1,
            .rows = to->absent,
            .n_words = bit_words(s->n),
            .sheet = counters_on(&s->counts) ? counters_sheet(&s->counts, s->n) : NULL,
            .tells = to->reasons || to->candidates ? to : NULL};
        some = ask_packs(s, &a) != 0;
    }
    if (!plain || to->reasons || s->packs.n_mute)
        tell_mute(s, key, !plain, to);
    return !some;
}

/* Holes between numbers say UNKNOWN_SEGMENT. */
static void tell_holes(const struct tamis_snapshot *s, uint8_t *reasons)
{
    size_t at = s->n_loose;
    for (size_t k = 0; k < s->packs.n; k++) {
        const struct pack_view *v = &s->packs.views[k];
        if (v->n_columns && v->base > at)
            memset(reasons + at, TAMIS_UNKNOWN_SEGMENT, v->base - at);
        at = v->n_columns ? v->base + v->n_columns : at;
    }
}

static __attribute__((noinline)) enum tamis_answer
probe_all(struct tamis_snapshot *s, const struct tamis_key *key, struct outputs *to)
{
    enum tamis_answer answer;
    if (!s || probe_few_segments(s, NULL, s->n, key, to, &answer))
        return s ? answer : TAMIS_MAYBE;
    clear_answers(s->n, to);
    to->by_number =
        !s->packs.n_listed || !s->complete || !key || key->tag != s->domain.tag;
    if (to->reasons)
        tell_holes(s, to->reasons);
    bool absent = probe_loose(s, key, to);
    if (s->packs.n_listed || (s->n > s->n_loose && to->reasons))
        absent &= probe_packs(s, key, to);
    if (to->candidates)
        outputs_sort(s, to);
    /* An incomplete catalog proves nothing of the segments that it lacks. */
    return absent && s->n_segments && s->complete ? TAMIS_ABSENT : TAMIS_MAYBE;
}

/* ---- one row is all answers ---- */

/* Is there one band, of all segments and one lane? */
static inline bool is_one_row(const struct tamis_snapshot *s,
                              const struct tamis_key *key)
{
    return s && key && s->packs.whole && s->packs.stripes->rows.lanes == 1;
}

/* Is nothing to be asked but rows, whose pages were all good before? */
static inline bool only_a_row(struct tamis_snapshot *s, const struct tamis_key *key)
{
    return s->complete && stage_all_good(s->packs.stripes->rows.stage) &&
           key->tag == s->domain.tag && !key->bytes && !counters_on(&s->counts) &&
           origin_quick(s->origin, 1) == TAMIS_NO_REASON;
}

/* memset() takes longer than a line, and a compiler makes it of a loop of lines. */
static inline void clear_words(uint64_t *words, size_t n)
{
    typedef uint64_t line __attribute__((vector_size(64), aligned(8), may_alias));
    if (n == sizeof(line) / sizeof *words)
        *(line *)(void *)words = (line){0};
    else
        memset(words, 0, n * sizeof *words);
}

static inline enum tamis_answer answer_by_row(const struct tamis_snapshot *s,
                                              const uint8_t *const *rows,
                                              uint64_t *absent)
{
    const struct stripe *t = s->packs.stripes;
    const struct band_rows *b = &t->rows;
    size_t n_words = bit_words(s->n);
    uint64_t answers[ROW_MAX_WORDS];
    bool direct = absent && n_words == pack_row_words(t->band);
    if (absent)
        clear_words(absent, n_words);
    bool any = b->kernel->answer_rows(rows, b->words, b->row_bytes, t->living,
                                      direct ? absent : answers);
    for (size_t i = 0; absent && !direct && i < n_words; i++)
        absent[i] = answers[i];
    return any ? TAMIS_MAYBE : TAMIS_ABSENT;
}

/* ---- the ways in ---- */

enum tamis_answer tamis_snapshot_probe_all(struct tamis_snapshot *snapshot,
                                           const struct tamis_key *key,
                                           uint64_t *absent, uint8_t *reasons)
{
    /* The rows are on their way while it is made sure that nothing else is to be asked:
     * how much a processor has in flight at a time decides how long a key takes. */
    if (!reasons && is_one_row(snapshot, key)) {
        const uint8_t *rows[MAX_WORDS];
        pack_fetch_lane(&snapshot->packs.stripes->rows, 0, key->hash, rows);
        if (only_a_row(snapshot, key))
            return answer_by_row(snapshot, rows, absent);
    }
    struct outputs to = {.absent = absent, .reasons = reasons};
    return probe_all(snapshot, key, &to);
}

enum tamis_answer tamis_snapshot_candidates(struct tamis_snapshot *snapshot,
                                            const struct tamis_key *key,
                                            uint32_t *segments, size_t max, size_t *n)
{
    struct outputs to = {
        .segments = segments, .max_segments = segments ? max : 0, .candidates = true};
    enum tamis_answer answer = probe_all(snapshot, key, &to);
    if (n)
        *n = to.n_segments;
    return answer;
}
