/* Every way to ask a snapshot, compared with the careful probe of one segment by one
 * key: the same answers and reasons, and not a bit or byte beyond them. */
#ifndef TAMIS_TESTS_WAYS_H
#define TAMIS_TESTS_WAYS_H

#include "../store_support.h"

enum { WAYS_SEGMENTS = 400, WAYS_KEYS = 150, WAYS_WORDS = WAYS_SEGMENTS / 64 + 1 };
#define GUARD_WORD UINT64_C(0xa5a5a5a5a5a5a5a5)

/* What all ways but the careful one have said to one question. */
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
    memset(a, 0xff, sizeof *a);
    a->reasons[n] = 0xa5;
    a->max = random_below(n + 2);
    a->answer =
        targets ? tamis_snapshot_probe_list(s, targets, n, key, a->absent, a->reasons)
                : tamis_snapshot_probe_all(s, key, a->absent, a->reasons);
    uint64_t again[WAYS_WORDS];
    memset(again, 0xff, sizeof again);
    IS(targets ? tamis_snapshot_probe_list(s, targets, n, key, again, NULL)
               : tamis_snapshot_probe_all(s, key, again, NULL),
       a->answer);
    assert_memory_equal(again, a->absent, (n + 63) / 64 * 8);
    if (!targets)
        a->by_candidates =
            tamis_snapshot_candidates(s, key, a->found, a->max, &a->n_found);
}

static UNUSED void check_row(const uint64_t *row, const uint8_t *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        IS(row[i / 64] >> i % 64 & 1, want[i] == ABSENT_HERE);
    if (n % 64)
        IS(row[n / 64] >> n % 64, 0);
}

static UNUSED void check_asked(const struct asked_one *a, const uint8_t *want, size_t n,
                               bool listed, bool all)
{
    size_t n_want = 0;
    IS(a->answer, all);
    check_row(a->absent, want, n);
    assert_memory_equal(a->reasons, want, n);
    IS(a->reasons[n], 0xa5);
    if (listed)
        return;
    IS(a->by_candidates, all);
    for (size_t i = 0; i < n; i++)
        if (want[i] != ABSENT_HERE && n_want++ < a->max)
            IS(a->found[n_want - 1], i);
    IS(a->n_found, n_want);
    IS(a->found[n_want < a->max ? n_want : a->max], UINT32_MAX);
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
    if (!more || t->refusal)
        return (uint8_t)why;
    IS(tamis_snapshot_explain(s, t, key, &x), answer);
    IS(x.reason, why);
    tamis_snapshot_probe_batch(s, t, key->tag, &key->hash, 1, &absent, NULL);
    assert_true(!absent || answer == TAMIS_ABSENT);
    if (!key->bytes)
        IS(absent, answer);
    return (uint8_t)why;
}

/* Asks keys of targets, or of all segments if that is NULL. The many ways come first:
 * the careful probe opens what it asks. `want`: n reasons a key; or NULL. */
static UNUSED void ask_every_way(struct tamis_snapshot *s,
                                 const struct tamis_target *targets, size_t n,
                                 const struct tamis_key *keys, size_t n_asked,
                                 uint8_t *want)
{
    static uint64_t rows[WAYS_KEYS * WAYS_WORDS + 1];
    static uint8_t own[WAYS_KEYS * WAYS_SEGMENTS];
    static struct asked_one some[4];
    size_t n_words = (n + 63) / 64, n_all = 0, n_some = n_asked < 4 ? n_asked : 4;
    want = want ? want : own;
    assert_true(n <= WAYS_SEGMENTS && n_asked <= WAYS_KEYS);
    memset(rows, 0xa5, sizeof rows);
    for (size_t k = 0; k < n_some; k++)
        ask_one_way(s, targets, n, &keys[k], &some[k]);
    size_t got = tamis_snapshot_probe_keys(s, targets, targets ? n : random_below(9),
                                           keys, n_asked, rows);
    IS(tamis_snapshot_probe_keys(s, targets, n, keys, n_asked, NULL), got);
    assert_true(rows[n_asked * n_words] == GUARD_WORD);
    for (size_t k = 0; k < n_asked; k++) {
        uint8_t *w = want + k * n;
        bool all = n > 0 && (targets || s->complete);
        for (size_t i = 0; i < n; i++) {
            struct tamis_target t = targets ? targets[i] : tamis_snapshot_target(s, i);
            w[i] = ask_carefully(s, &t, &keys[k], k < n_some && i % (1 + n / 16) == 0);
            all &= w[i] == ABSENT_HERE;
        }
        n_all += all;
        check_row(rows + k * n_words, w, n);
        if (k < n_some)
            check_asked(&some[k], w, n, targets != NULL, all);
    }
    IS(got, n_all);
}

#endif
