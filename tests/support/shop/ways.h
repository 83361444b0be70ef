/* Every way to ask a snapshot, compared with the probe of one segment by one key, and
 * that with an explained one: the same answers and reasons, and not a bit or byte
 * beyond them. */
#ifndef TAMIS_TESTS_WAYS_H
#define TAMIS_TESTS_WAYS_H

#include "../store_support.h"
#include "lib/tamis_inline.h"

enum { WAYS_SEGMENTS = 400, WAYS_KEYS = 150, WAYS_WORDS = WAYS_SEGMENTS / 64 + 1 };
static UNUSED unsigned long long n_compared; /* pairs of a key and a target */

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

/* The list; or without one all segments. */
#define MEANT .all = !targets, LIST(targets, targets ? n : 0)

/* One key, without reasons. Returns whether it is absent from all. */
static UNUSED bool ask_one_way(struct tamis_snapshot *s,
                               const struct tamis_target *targets, size_t n,
                               const struct tamis_key *key, uint64_t *absent)
{
    uint64_t *bits = fenced((n + 63) / 64);
    size_t answer = ASK(s, MEANT, KEYS(key, 1), .absent = bits);
    memcpy(absent, bits, (n + 63) / 64 * 8);
    IS(ASK(s, MEANT, KEYS(key, 1)), answer);
    assert_true(ASK(s, MEANT, HASHES(&key->hash, 1, key->tag)) <= answer);
    return answer;
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
static UNUSED void check_found(struct tamis_snapshot *s, const uint32_t *found,
                               const uint8_t *why, size_t max, size_t n_found,
                               const struct tamis_key *key, const uint8_t *want)
{
    bool ranked = s->complete && key->tag == s->domain.tag;
    uint64_t ranks[WAYS_SEGMENTS]; /* of those that are not told yet */
    size_t n_want = 0;
    memset(ranks, 0xff, sizeof ranks);
    for (size_t i = 0; tamis_snapshot_next(s, &i); i++)
        if (want[i] != ABSENT_HERE && ++n_want)
            ranks[i] = ranked ? rank_at(s, i) : i;
    IS(n_found, n_want);
    for (size_t k = 0; k < max; k++) {
        if (k >= n_want) {
            IS(found[k], UINT32_MAX);
            continue;
        }
        size_t first = 0;
        for (size_t i = 1; i < s->n; i++)
            first = ranks[i] < ranks[first] ? i : first;
        IS(found[k], first);
        IS(why[k], want[first]);
        ranks[first] = UINT64_MAX;
    }
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
    ASK(s, LIST(t, 1), HASHES(&key->hash, 1, key->tag), .absent_from_all = &absent);
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
    size_t got = ASK(s, LIST(list, n_list), KEYS(keys, n_asked), .absent = rows);
    for (size_t k = 0; k < n_asked; k++) {
        for (size_t i = 0; i < n_list; i++)
            listed[i] = want[k * n + at[i]];
        check_row(rows + k * n_words, listed, n_list);
        got -= all_zero(listed, n_list); /* absent from all: TAMIS_NO_REASON */
    }
    IS(got, 0);
    ASK(s, LIST(list, n_list), KEYS(&keys[n_asked - 1], 1), .reasons = reasons);
    assert_memory_equal(reasons, listed, n_list);
}

/* Asks keys of n targets, or of all n numbers if that is NULL. The many ways come
 * first: the careful probe opens what it asks. `want`: n reasons a key; or NULL. */
static UNUSED void ask_every_way(struct tamis_snapshot *s,
                                 const struct tamis_target *targets, size_t n,
                                 const struct tamis_key *keys, size_t n_asked,
                                 uint8_t *want)
{
    static uint8_t own[WAYS_KEYS * WAYS_SEGMENTS],
        reasons[WAYS_KEYS * WAYS_SEGMENTS + 1];
    static uint64_t alone[4][WAYS_WORDS], again[WAYS_KEYS * WAYS_WORDS];
    static uint32_t found[4 * WAYS_SEGMENTS + 1];
    static uint8_t why[4 * WAYS_SEGMENTS];
    uint64_t lacking[WAYS_KEYS / 64 + 1];
    bool answers[4];
    struct tamis_stats want_counts, counts;
    size_t n_words = (n + 63) / 64, n_all = 0, n_some = n_asked < 4 ? n_asked : 4;
    size_t max = random_below(n + 2), n_found[4];
    max = max < n ? max : n;
    want = want ? want : own;
    assert_true(n <= WAYS_SEGMENTS && n_asked <= WAYS_KEYS);
    memset(found, 0xff, sizeof found);
    for (size_t k = 0; k < n_some; k++)
        answers[k] = ask_one_way(s, targets, n, &keys[k], alone[k]);
    uint64_t *rows = fenced(n_asked * n_words);
    size_t got = ASK(s, MEANT, KEYS(keys, n_asked), .absent = rows);
    reasons[n_asked * n] = 0xa5;
    OK(tamis_snapshot_stats(s, 0, &want_counts));
    IS(ASK(s, MEANT, KEYS(keys, n_asked), .absent = again, .absent_from_all = lacking,
           .reasons = reasons),
       got);
    OK(tamis_snapshot_stats(s, 0, &counts));
    n_compared += n_asked * n;
    assert_memory_equal(again, rows, n_asked * n_words * 8);
    IS(reasons[n_asked * n], 0xa5);
    if (!targets)
        ASK(s, ALL, KEYS(keys, n_some), FOUND(found, max, n_found), .reasons = why);
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
            want_counts.n_absent += w[i] == ABSENT_HERE;
            want_counts.n_maybe[w[i]] += w[i] != ABSENT_HERE && !hole;
        }
        n_all += all;
        IS(lacking[k / 64] >> k % 64 & 1, all);
        check_row(rows + k * n_words, w, n);
        assert_memory_equal(reasons + k * n, w, n);
        if (k >= n_some)
            continue;
        IS(answers[k], all);
        check_row(alone[k], w, n);
        if (!targets)
            check_found(s, found + k * max, why + k * max, max, n_found[k], &keys[k],
                        w);
    }
    IS(got, n_all);
    if (counters_on(&s->counts)) {
        IS(counts.n_absent, want_counts.n_absent);
        assert_memory_equal(counts.n_maybe, want_counts.n_maybe, sizeof counts.n_maybe);
    }
    IS(found[targets ? 0 : n_some * max], UINT32_MAX);
    if (!targets && n)
        ask_by_runs(s, n, keys, n_asked, want);
}

#endif
