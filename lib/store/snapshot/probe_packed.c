/* One key, all segments, where each is a column of a pack: the shortest way.
 *
 * Nothing is done segment by segment but for hits: rows make words of hits
 * (packs_ask.c), and these are the answers. A page that fails its check, a key of
 * another domain, a store that was replaced: then probe_many.c asks with care. */
#include "lib/store/base/counters.h"
#include "lib/store/catalog/origin.h"
#include "lib/store/snapshot/snapshot.h"

#include <string.h>

static size_t words_of(size_t n)
{
    return n / 64 + (n % 64 != 0);
}

/* The segments of a word. */
static uint64_t asked_in(size_t n, size_t word)
{
    size_t left = n - word * 64;
    return left < 64 ? (UINT64_C(1) << left) - 1 : UINT64_MAX;
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

/* Takes out the segments of a word whose range excludes the key; returns them. */
static uint64_t exclude(const struct tamis_snapshot *s, const struct tamis_key *key,
                        size_t word, uint64_t *hits)
{
    uint64_t prefix = key_prefix(key->bytes, key->n_bytes), out = 0;
    for (uint64_t m = *hits; m; m &= m - 1)
        if (outside_gate(s, word * 64 + (size_t)__builtin_ctzll(m), prefix, key))
            out |= m & -m;
    *hits &= ~out;
    return out;
}

/* With ranges, or counting. */
static __attribute__((noinline)) void
refine(struct tamis_snapshot *s, const struct tamis_key *key, uint64_t *hits)
{
    bool ranged = key->bytes && s->planes.any_range;
    struct sheet *sheet =
        counters_on(&s->counts) ? counters_sheet(&s->counts, s->n) : NULL;
    for (size_t word = 0; word < words_of(s->n); word++) {
        uint64_t asked = asked_in(s->n, word);
        uint64_t by_range = ranged ? exclude(s, key, word, &hits[word]) : 0;
        if (!sheet)
            continue;
        if (by_range)
            count_excluded(s, by_range);
        count_of_all(sheet, word, asked, asked & ~(hits[word] | by_range), hits[word]);
    }
}

/* Hits as reasons, or as a list. */
static void tell_hits(const uint64_t *hits, size_t n, struct outputs *to)
{
    if (to->reasons)
        memset(to->reasons, TAMIS_NO_REASON, n);
    for (size_t word = 0; word < words_of(n); word++)
        for (uint64_t m = hits[word]; m; m &= m - 1, to->n_segments++) {
            size_t i = word * 64 + (size_t)__builtin_ctzll(m);
            if (to->reasons)
                to->reasons[i] = TAMIS_HIT;
            if (to->n_segments < to->max_segments)
                to->segments[to->n_segments] = (uint32_t)i;
        }
}

/* Answers leave when they are whole: whoever jumps out of a probe, from a signal
 * handler of the host's perhaps, is left with MAYBE. */
static bool probe_packed(struct tamis_snapshot *s, const struct tamis_key *key,
                         struct outputs *to, enum tamis_answer *answer)
{
    uint64_t hits[PACK_WORDS];
    bool damaged;
    if (!s || !key || !all_packed(s) || key->tag != s->domain.tag ||
        origin_quick(s->origin, 1) != TAMIS_NO_REASON)
        return false;
    if (to->absent)
        clear_words(to->absent, words_of(s->n));
    if (to->reasons)
        memset(to->reasons, TAMIS_UNREADABLE, s->n);
    packs_ask(&s->packs, 0, s->n, key->hash, hits, &damaged);
    if (damaged)
        return false;
    if (counters_on(&s->counts) || (key->bytes && s->planes.any_range))
        refine(s, key, hits);
    if (to->reasons || to->candidates)
        tell_hits(hits, s->n, to);
    *answer = tell_absent(s, hits, to->absent) ? TAMIS_MAYBE : TAMIS_ABSENT;
    return true;
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
           key->tag == s->domain.tag && !(key->bytes && s->planes.any_range) &&
           !counters_on(&s->counts) && origin_quick(s->origin, 1) == TAMIS_NO_REASON;
}

static inline enum tamis_answer answer_by_row(const struct tamis_snapshot *s,
                                              const uint8_t *const *rows,
                                              uint64_t *absent)
{
    const struct stripe *t = s->packs.stripes;
    const struct band_rows *b = &t->rows;
    size_t n_words = words_of(s->n);
    uint64_t hits[ROW_MAX_WORDS];
    if (absent)
        clear_words(absent, n_words);
    if (absent && n_words == t->n_words) {
        bool any =
            b->kernel->answer_rows(rows, b->words, b->row_bytes, t->living, absent);
        if (s->n % 64) /* no segments behind them */
            absent[n_words - 1] &= asked_in(s->n, n_words - 1);
        return any ? TAMIS_MAYBE : TAMIS_ABSENT;
    }
    b->kernel->and_rows(rows, b->words, b->row_bytes, t->living, hits);
    return tell_absent(s, hits, absent) ? TAMIS_MAYBE : TAMIS_ABSENT;
}

/* ---- the ways in ---- */

static __attribute__((noinline)) enum tamis_answer
probe_all(struct tamis_snapshot *s, const struct tamis_key *key, struct outputs *to)
{
    enum tamis_answer answer;
    return probe_packed(s, key, to, &answer) ? answer : probe_all_with_care(s, key, to);
}

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
