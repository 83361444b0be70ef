/* Every way to ask a snapshot, compared with the careful probe of one segment by one
 * key: the same answers and reasons, and not a bit or byte beyond them. */
#ifndef TAMIS_TESTS_WAYS_H
#define TAMIS_TESTS_WAYS_H

#include "../store_support.h"
#include "lib/tamis_inline.h"

enum { WAYS_SEGMENTS = 400, WAYS_KEYS = 150, WAYS_WORDS = WAYS_SEGMENTS / 64 + 1 };

/* n_words words, all ones, before a page that may not be touched: a writer of zeros
 * behind them would undo what another thread writes there. */
static UNUSED uint64_t *fenced(size_t n_words)
{
    static uint8_t *fence;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (size_t)1 << 16;
    assert_true(n_words * 8 <= room);
    if (!fence) {
        fence = mmap(NULL, room + page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(fence != MAP_FAILED);
        OK(mprotect(fence += room, page, PROT_NONE));
    }
    return memset(fence - n_words * 8, 0xff, n_words * 8);
}

/* The answers of all ways but the careful one to one question. */
struct asked_one {
    uint64_t absent[WAYS_WORDS];
    uint8_t reasons[WAYS_SEGMENTS + 1];
    uint32_t found[WAYS_SEGMENTS + 1];
    size_t n_found, max;
    enum tamis_answer answer, by_candidates;
};

static UNUSED void ask_one_way(struct tamis_snapshot *s,
                               const struct tamis_target *targets, size_t n,
                               const struct tamis_key *key, struct asked_one *a)
{
    size_t n_words = (n + 63) / 64;
    uint64_t *bits = fenced(n_words);
    memset(a, 0xff, sizeof *a);
    a->reasons[n] = 0xa5;
    a->max = random_below(n + 2);
    a->answer = targets
                    ? tamis_snapshot_probe_list(s, targets, n, key, bits, a->reasons)
                    : tamis_snapshot_probe_all(s, key, bits, a->reasons);
    memcpy(a->absent, bits, n_words * 8);
    memset(bits, 0xff, n_words * 8);
    IS(targets ? tamis_snapshot_probe_list(s, targets, n, key, bits, NULL)
               : tamis_snapshot_probe_all(s, key, bits, NULL),
       a->answer);
    assert_memory_equal(bits, a->absent, n_words * 8);
    if (targets)
        return;
    a->by_candidates = tamis_snapshot_candidates(s, key, a->found, a->max, &a->n_found);
    IS(tamis_snapshot_probe_all(s, key, NULL, NULL), a->answer);
}

static UNUSED void check_row(const uint64_t *row, const uint8_t *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        IS(row[i / 64] >> i % 64 & 1, want[i] == ABSENT_HERE);
    if (n % 64)
        IS(row[n / 64] >> n % 64, 0);
}

static UNUSED uint32_t rank_at(struct tamis_snapshot *s, size_t i)
{
    struct tamis_segment_info info;
    OK(tamis_snapshot_segment(s, i, &info));
    return info.state || info.name ? info.rank : UINT32_MAX;
}

/* All that may have the key, in the order of ranks. If nothing is proven, any order
 * would say as little: that of numbers. */
static UNUSED void check_found(struct tamis_snapshot *s, const struct asked_one *a,
                               const struct tamis_key *key, const uint8_t *want)
{
    bool ranked = s->complete && key->tag == s->domain.tag;
    uint64_t ranks[WAYS_SEGMENTS]; /* of those that are not told yet */
    size_t n_want = 0;
    memset(ranks, 0xff, sizeof ranks);
    for (size_t i = 0; tamis_snapshot_next(s, &i); i++)
        if (want[i] != ABSENT_HERE && ++n_want)
            ranks[i] = ranked ? rank_at(s, i) : i;
    IS(a->n_found, n_want);
    size_t n = n_want < a->max ? n_want : a->max;
    IS(a->found[n], UINT32_MAX);
    for (size_t k = 0; k < n; k++) {
        size_t first = 0;
        for (size_t i = 1; i < s->n; i++)
            first = ranks[i] < ranks[first] ? i : first;
        IS(a->found[k], first);
        ranks[first] = UINT64_MAX;
    }
}

static UNUSED void check_asked(struct tamis_snapshot *s, const struct asked_one *a,
                               const struct tamis_key *key, const uint8_t *want,
                               size_t n, bool listed, bool all)
{
    IS(a->answer, all);
    check_row(a->absent, want, n);
    assert_memory_equal(a->reasons, want, n);
    IS(a->reasons[n], 0xa5);
    if (listed)
        return;
    IS(a->by_candidates, all);
    check_found(s, a, key, want);
}

/* By an inline value, for a key without bytes: it heeds no range. */
static UNUSED enum tamis_reason ask_inline(struct tamis_snapshot *s,
                                           const struct tamis_target *t,
                                           const struct tamis_key *key)
{
    enum tamis_reason why;
    struct tamis_inline v;
    OK(tamis_snapshot_inline(s, t, TAMIS_INLINE_VERSION, &v));
    enum tamis_answer answer = tamis_inline_probe(&v, key, &why);
    IS(answer == TAMIS_ABSENT, why == ABSENT_HERE);
    tamis_inline_release(&v);
    return why;
}

/* By one segment alone: with the explanation, and as a batch if there is no range. */
static UNUSED uint8_t ask_carefully(struct tamis_snapshot *s,
                                    const struct tamis_target *t,
                                    const struct tamis_key *key, bool more)
{
    enum tamis_reason why;
    struct tamis_explanation x;
    uint64_t absent;
    enum tamis_answer answer = tamis_snapshot_probe(s, t, key, &why);
    IS(answer == TAMIS_ABSENT, why == ABSENT_HERE);
    if (more && !key->bytes)
        IS(ask_inline(s, t, key), why);
    if (!more)
        return (uint8_t)why;
    IS(tamis_snapshot_explain(s, t, key, &x), answer);
    IS(x.reason, why);
    if (t->refusal)
        return (uint8_t)why;
    tamis_snapshot_probe_batch(s, t, key->tag, &key->hash, 1, &absent, NULL);
    assert_true(!absent || answer == TAMIS_ABSENT);
    if (!key->bytes)
        IS(absent, answer);
    return (uint8_t)why;
}

/* Asks a list of numbers that follow each other here and there: as runs of any length,
 * or one by one. `want` has the answers of all numbers. */
static UNUSED void ask_by_runs(struct tamis_snapshot *s, size_t n,
                               const struct tamis_key *keys, size_t n_asked,
                               const uint8_t *want)
{
    static struct tamis_target list[WAYS_SEGMENTS];
    uint8_t listed[WAYS_SEGMENTS], reasons[WAYS_SEGMENTS];
    size_t at[WAYS_SEGMENTS], n_list = 1 + random_below(n),
                              n_words = (n_list + 63) / 64;
    unsigned often = random_below(2) ? 2 : 100;
    for (size_t i = 0; i < n_list; i++) {
        at[i] = i && random_below(often) ? (at[i - 1] + 1) % n : random_below(n);
        list[i] = tamis_snapshot_target(s, at[i]);
    }
    uint64_t *rows = fenced(n_asked * n_words);
    size_t got = tamis_snapshot_probe_keys(s, list, n_list, keys, n_asked, rows);
    for (size_t k = 0; k < n_asked; k++) {
        for (size_t i = 0; i < n_list; i++)
            listed[i] = want[k * n + at[i]];
        check_row(rows + k * n_words, listed, n_list);
        got -= all_zero(listed, n_list); /* absent from all: TAMIS_NO_REASON */
    }
    IS(got, 0);
    tamis_snapshot_probe_list(s, list, n_list, &keys[n_asked - 1], NULL, reasons);
    assert_memory_equal(reasons, listed, n_list);
}

/* Asks keys of n targets, or of all n numbers if that is NULL. The many ways come
 * first: the careful probe opens what it asks. `want`: n reasons a key; or NULL. */
static UNUSED void ask_every_way(struct tamis_snapshot *s,
                                 const struct tamis_target *targets, size_t n,
                                 const struct tamis_key *keys, size_t n_asked,
                                 uint8_t *want)
{
    static uint8_t own[WAYS_KEYS * WAYS_SEGMENTS];
    static struct asked_one some[4];
    size_t n_words = (n + 63) / 64, n_all = 0, n_some = n_asked < 4 ? n_asked : 4;
    want = want ? want : own;
    assert_true(n <= WAYS_SEGMENTS && n_asked <= WAYS_KEYS);
    for (size_t k = 0; k < n_some; k++)
        ask_one_way(s, targets, n, &keys[k], &some[k]);
    uint64_t *rows = fenced(n_asked * n_words);
    size_t got = tamis_snapshot_probe_keys(s, targets, targets ? n : random_below(9),
                                           keys, n_asked, rows);
    IS(tamis_snapshot_probe_keys(s, targets, n, keys, n_asked, NULL), got);
    for (size_t k = 0; k < n_asked; k++) {
        uint8_t *w = want + k * n;
        bool all = n > 0 && (targets || s->complete);
        for (size_t i = 0; i < n; i++) {
            size_t next = i;
            struct tamis_target t = targets ? targets[i] : tamis_snapshot_target(s, i);
            w[i] = ask_carefully(s, &t, &keys[k], k < n_some && i % (1 + n / 16) == 0);
            bool hole = !targets && !(tamis_snapshot_next(s, &next) && next == i);
            assert_true(!hole || w[i] == TAMIS_UNKNOWN_SEGMENT);
            all &= hole || w[i] == ABSENT_HERE;
        }
        n_all += all;
        check_row(rows + k * n_words, w, n);
        if (k < n_some)
            check_asked(s, &some[k], &keys[k], w, n, targets != NULL, all);
    }
    IS(got, n_all);
    if (!targets && n)
        ask_by_runs(s, n, keys, n_asked, want);
}

#endif
