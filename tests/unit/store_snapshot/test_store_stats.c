/* Counts agree with answers: each reason, by each way of asking, for each segment and
 * in sum. The oracle asks each key of each segment alone, with counting
 * off. */
#include "tests/support/store_packs.h"

enum { SEGMENTS = 150, NUMBERS = 256, KEYS = 100 };

/* ---- a store of all kinds of segments ---- */

/* In some rounds all are sealed, and then packed, so that packs alone are asked; or so
 * few that they are asked at once. */
static bool all_sealed;
static size_t n_segments = SEGMENTS;

static enum segment_kind kind_of(size_t i)
{
    static const enum segment_kind kinds[] = {SEALED, BY_HASH, GROWING,   BARE,
                                              LOST,   DAMAGED, UNREADABLE};
    return i < 80 || all_sealed ? (i % 10 ? SEALED : BY_HASH) : kinds[i % 7];
}

static const char *name_at(size_t i)
{
    static char name[8];
    snprintf(name, sizeof name, "s%03d", (int)i);
    return name;
}

/* Overlapping ranges, so that of some segments a key is outside; an error of 30%. */
static void put_one(struct tamis_store *s, struct tamis_edit *e, size_t i)
{
    struct tamis_domain d = tamis_store_domain(s);
    const char *name = name_at(i);
    if (put_unbuilt(e, name, kind_of(i)))
        return;
    BUILDER b;
    OK(tamis_edit_builder(e, name, strlen(name), 0.3, NULL, &b, NULL));
    for (uint64_t k = i; k < i + 60; k += 3) {
        struct tamis_key key = tamis_key_of(&d, key_text(k), strlen(key_text(k)));
        add_to(b, kind_of(i), &key);
    }
    if (kind_of(i) == DAMAGED) /* one of its pages is: others answer */
        for (unsigned k = 0; k < 20000; k++)
            OK(tamis_builder_add_hashes(b, d.tag, &(uint64_t){random_u64()}, 1));
    OK(tamis_edit_put(e, b, NULL, NULL));
}

static struct tamis_store *store_of_all_kinds(void)
{
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < n_segments; i++)
        put_one(s, e, i);
    OK(tamis_edit_commit(e, NULL));
    for (size_t i = 0; i < n_segments; i++)
        hurt(s, name_at(i), kind_of(i));
    tamis_store_close(s);
    if (!all_sealed)
        poke_catalog("s", "segments", name_at(n_segments - 1), "rubbish", 7);
    return store_open("s");
}

/* Some with their bytes, some without, and some of another domain. */
static void some_keys(const struct tamis_domain *d, struct tamis_key *keys, size_t n)
{
    static char text[KEYS][32];
    struct tamis_domain other;
    OK(tamis_domain_init(&other, 1, 4711));
    for (size_t i = 0; i < n; i++) {
        snprintf(text[i], sizeof text[i], "%s", key_text(random_below(300)));
        bool foreign = i % 17 == 5 && n_segments == SEGMENTS;
        keys[i] = tamis_key_of(foreign ? &other : d, text[i], strlen(text[i]));
        if (i % 5 == 0)
            keys[i].bytes = NULL;
    }
}

/* Segments in order, some twice, and targets that something speaks against. */
static size_t some_targets(const struct tamis_snapshot *s,
                           const struct tamis_target *all, struct tamis_target *t)
{
    size_t n = 0;
    for (size_t i = 0; i < n_segments; i++) {
        t[n++] = all[i];
        if (i % 50 == 0) /* so that there are runs between */
            t[n++] = all[n_segments - 1 - i];
        if (i % 31 == 0 && n_segments == SEGMENTS) { /* another snapshot's */
            t[n] = all[i];
            t[n++].snapshot++;
        }
        /* The filter itself is behind. */
        if ((i % 37 == 0 && n_segments == SEGMENTS) || kind_of(i) == GROWING) {
            t[n] = all[i];
            t[n++].min_watermark = 99;
        }
    }
    if (n_segments < SEGMENTS)
        return n;
    t[n++] = (struct tamis_target){0};
    tamis_snapshot_find(s, "s000", 4, "x", 1, 0, &t[n++]); /* refused */
    return n;
}

/* ---- what should have been counted ---- */

struct expected {
    struct tamis_stats all;
    uint64_t absent[NUMBERS], maybe[NUMBERS][N_REASONS];
};

static bool of_snapshot(const struct tamis_snapshot *s, const struct tamis_target *t)
{
    return !t->refusal && t->ordinal && t->snapshot == s->serial;
}

static bool is_outside(const struct tamis_snapshot *s, const struct tamis_target *t,
                       const struct tamis_key *key)
{
    struct tamis_segment_info info = segment_at(s, t->ordinal - 1);
    struct piece k = {key->bytes, key->n_bytes};
    struct piece first = {info.first_key, info.first_key_bytes},
                 last = {info.last_key, info.last_key_bytes};
    return k.at && first.at &&
           (name_compare(k, first) < 0 || name_compare(k, last) > 0);
}

/* One question, asked alone and not counted. */
static void expect_one(struct expected *x, struct tamis_snapshot *s,
                       const struct tamis_target *t, const struct tamis_key *key)
{
    enum tamis_reason why;
    tamis_snapshot_probe(s, t, key, &why);
    x->all.n_probes++;
    if (why == ABSENT_HERE) {
        x->all.n_absent++;
        if (is_outside(s, t, key))
            x->all.n_excluded++;
        else
            x->absent[t->ordinal - 1]++;
        return;
    }
    x->all.n_maybe[why]++;
    if (of_snapshot(s, t))
        x->maybe[t->ordinal - 1][why]++;
}

static void expect(struct expected *x, struct tamis_snapshot *s,
                   const struct tamis_target *t, size_t n, const struct tamis_key *keys,
                   size_t n_of_keys)
{
    atomic_store(&s->counts.on, false);
    for (size_t k = 0; k < n_of_keys; k++)
        for (size_t i = 0; i < n; i++)
            expect_one(x, s, &t[i], &keys[k]);
    OK(stats_begin(s));
}

/* All columns of a pack are asked before the ranges are looked at: fewer answers are by
 * a range alone. */
static bool packed;

static void check_stats(const struct tamis_stats *got, const struct tamis_stats *want,
                        bool of_segment)
{
    if (!packed)
        IS(got->n_excluded, want->n_excluded);
    assert_true(got->n_excluded <= want->n_excluded);
    if (packed && of_segment) {
        assert_true(got->n_absent >= want->n_absent);
    } else {
        IS(got->n_probes, want->n_probes);
        IS(got->n_absent, want->n_absent);
    }
    for (size_t r = 0; r < TAMIS_MAX_REASONS; r++)
        if (got->n_maybe[r] != want->n_maybe[r])
            fail_msg("%s: %llu, not %llu", tamis_reason_name((enum tamis_reason)r),
                     (unsigned long long)got->n_maybe[r],
                     (unsigned long long)want->n_maybe[r]);
    IS(got->n_false_positives, want->n_false_positives);
}

static void check(const struct expected *x, struct tamis_snapshot *s, const char *how)
{
    struct tamis_stats got;
    print_message("%s\n", how);
    OK(tamis_snapshot_stats(s, 0, &got));
    check_stats(&got, &x->all, false);
    for (size_t i = 0; tamis_snapshot_next(s, &i); i++) {
        struct tamis_segment_stats one;
        struct tamis_stats want = {0};
        OK(tamis_snapshot_segment_stats(s, i, &one));
        want.n_absent = want.n_probes = x->absent[i];
        for (size_t r = 0; r < N_REASONS; r++)
            want.n_probes += want.n_maybe[r] = x->maybe[i][r];
        check_stats(&one.counts, &want, true);
        struct tamis_target t = tamis_snapshot_target(s, i);
        if (segment_at(s, (uint32_t)i).state > TAMIS_SEGMENT_BARE)
            continue;
        IS(tamis_snapshot_report_false_positive(s, &t), TAMIS_ERR_NO_SEGMENT);
        assert_true(one.target_error == 0 && !one.over_target);
    }
}

/* ---- the ways to ask ---- */

struct world {
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    struct tamis_target all[SEGMENTS], list[2 * SEGMENTS];
    size_t n_list;
    struct tamis_key keys[KEYS];
    struct expected x;
};

static void ask_single(struct world *w)
{
    for (size_t k = 0; k < KEYS; k++)
        for (size_t i = 0; i < w->n_list; i++)
            tamis_snapshot_probe(w->snapshot, &w->list[i], &w->keys[k], NULL);
    expect(&w->x, w->snapshot, w->list, w->n_list, w->keys, KEYS);
    check(&w->x, w->snapshot, "one by one");
}

static void ask_batch(struct world *w)
{
    struct tamis_domain d = tamis_snapshot_info(w->snapshot).domain;
    struct tamis_key keys[KEYS];
    uint64_t hashes[KEYS], absent[KEYS / 64 + 1];
    for (size_t k = 0; k < KEYS; k++) {
        hashes[k] = w->keys[k].hash;
        keys[k] = (struct tamis_key){.tag = d.tag, .hash = hashes[k]};
    }
    for (size_t i = 0; i < w->n_list; i++) {
        ASK(w->snapshot, LIST(&w->list[i], 1), HASHES(hashes, KEYS, d.tag),
            .absent_from_all = absent);
        ASK(w->snapshot, LIST(&w->list[i], 1), HASHES(hashes, 3, d.tag + 1),
            .absent_from_all = absent);
    }
    expect(&w->x, w->snapshot, w->list, w->n_list, keys, KEYS);
    for (size_t k = 0; k < 3; k++)
        keys[k].tag++;
    expect(&w->x, w->snapshot, w->list, w->n_list, keys, 3);
    check(&w->x, w->snapshot, "a batch");
}

static void ask_list(struct world *w)
{
    uint64_t absent[2 * SEGMENTS / 64 + 1];
    uint8_t reasons[2 * SEGMENTS];
    for (size_t k = 0; k < KEYS; k++) {
        ASK(w->snapshot, LIST(w->list, w->n_list), KEYS(&w->keys[k], 1),
            .absent = absent, .reasons = reasons);
        ASK(w->snapshot, LIST(w->list, 3), KEYS(&w->keys[k], 1));
    }
    expect(&w->x, w->snapshot, w->list, w->n_list, w->keys, KEYS);
    expect(&w->x, w->snapshot, w->list, 3, w->keys, KEYS);
    check(&w->x, w->snapshot, "a list");
}

static void ask_all(struct world *w)
{
    uint32_t segments[SEGMENTS];
    size_t n;
    for (size_t k = 0; k < KEYS; k++) {
        ASK(w->snapshot, ALL, KEYS(&w->keys[k], 1));
        ASK(w->snapshot, ALL, KEYS(&w->keys[k], 1), FOUND(segments, SEGMENTS, &n));
    }
    for (size_t i = 0; i < 2; i++)
        expect(&w->x, w->snapshot, w->all, n_segments, w->keys, KEYS);
    check(&w->x, w->snapshot, "all");
}

static void ask_many_keys(struct world *w)
{
    ASK(w->snapshot, ALL, KEYS(w->keys, KEYS));
    ASK(w->snapshot, LIST(w->list, w->n_list), KEYS(w->keys, KEYS));
    for (size_t n = 1; n < 34; n += 8) {
        ASK(w->snapshot, LIST(w->list, w->n_list), KEYS(w->keys, n));
        expect(&w->x, w->snapshot, w->list, w->n_list, w->keys, n);
    }
    expect(&w->x, w->snapshot, w->all, n_segments, w->keys, KEYS);
    expect(&w->x, w->snapshot, w->list, w->n_list, w->keys, KEYS);
    check(&w->x, w->snapshot, "many keys");
}

/* Packs what can be packed, and damages a page of rows, or none. */
static void pack_it(struct world *w, bool damaged)
{
    assert_true(pack_all(w->store).n_packed >= 80);
    tamis_store_close(w->store);
    if (damaged)
        zero_page(pack_file(), 1);
    w->store = store_open("s");
}

/* First each way when nothing was opened before, then each with all of it opened. */
static void each_way(bool damaged)
{
    static void (*const ways[])(struct world *) = {ask_single, ask_batch, ask_list,
                                                   ask_all, ask_many_keys};
    for (size_t first = 0; first < 5; first++) {
        static struct world w;
        memset(&w, 0, sizeof w);
        random_state = first + 1;
        w.store = store_of_all_kinds();
        if (packed)
            pack_it(&w, damaged);
        OK(tamis_store_count(w.store, 1, NULL));
        w.snapshot = snapshot_of(w.store);
        struct tamis_domain d = tamis_store_domain(w.store);
        assert_true(w.snapshot->n_segments == n_segments && w.snapshot->n <= NUMBERS);
        for (size_t i = 0, n = 0; tamis_snapshot_next(w.snapshot, &i); i++)
            w.all[n++] = tamis_snapshot_target(w.snapshot, i);
        w.n_list = some_targets(w.snapshot, w.all, w.list);
        for (size_t i = 0; i < 6; i++) {
            some_keys(&d, w.keys, KEYS);
            ways[(first + i) % 5](&w);
        }
        for (size_t r = TAMIS_HIT; r < N_REASONS && !all_sealed; r++)
            assert_true(w.x.all.n_maybe[r] > 0);
        assert_true(w.x.all.n_excluded > 0 && w.x.all.n_excluded < w.x.all.n_absent);
        struct tamis_stats total;
        OK(tamis_snapshot_stats(w.snapshot, 1, &total));
        check_stats(&total, &w.x.all, false);
        tamis_snapshot_release(w.snapshot);
        tamis_store_close(w.store);
        remove_tree("s");
    }
}

TEST_IN_DIR_WITH_FAULTS(each_reason_each_way)
{
    each_way(false);
}

TEST_IN_DIR_WITH_FAULTS(few_count_alike)
{
    all_sealed = true;
    for (n_segments = 2; n_segments < 15; n_segments += 6)
        each_way(false);
    all_sealed = false;
    n_segments = SEGMENTS;
}

TEST_IN_DIR_WITH_FAULTS(packs_count_alike)
{
    for (int round = 0; round < 4; round++) {
        packed = true;
        all_sealed = round / 2;
        each_way(round % 2);
    }
    packed = all_sealed = false;
}

RUN_TESTS(NULL, NULL)
