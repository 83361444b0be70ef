/* Few keys on few segments: every number of both, against the careful probe of each
 * pair. Before anything was opened, when every segment is ready, and after pages have
 * rotted; with key ranges, several lanes, segments that never are ready, targets that
 * something speaks against, keys of another domain. */
#include "tests/unit/store_snapshot/many_support.h"
#include "tests/support/shop/ways.h"

enum { N_SEGMENTS = 20, MOST = FEW_PLANES + 1, MOST_KEYS = 33, UNIVERSE = 2000 };

/* ---- stores ---- */

/* Half of them have a key range. */
static const enum segment_kind good[] = {SEALED, BY_HASH};
static const enum segment_kind any[] = {SEALED, GROWING, BY_HASH, STAGES, BARE,
                                        LOST,   SEALED,  DAMAGED, BY_HASH};

static struct tamis_key key_at(const struct tamis_domain *d, uint64_t i)
{
    static char text[UNIVERSE][32];
    snprintf(text[i], sizeof text[i], "%s", key_text(i));
    return tamis_key_of(d, text[i], strlen(text[i]));
}

static double same_error; /* of all segments; 0: each has its own */

static double error_of(size_t i)
{
    return same_error > 0 ? same_error : (double[]){0.2, 0.01, 1e-3, 1e-6}[i % 4];
}

/* Segment i has every tenth key from i * 50 on, and others behind each, so that there
 * is need of several lanes. */
static void put(struct tamis_store *s, struct tamis_edit *e, size_t i,
                enum segment_kind kind)
{
    struct tamis_domain d = tamis_store_domain(s);
    struct tamis_builder_options opt = {.size = sizeof opt,
                                        .domain = &d,
                                        .identity.name = name_of(i),
                                        .identity.name_bytes = strlen(name_of(i)),
                                        .error = error_of(i),
                                        .watermark = 2};
    if (put_unbuilt(e, name_of(i), kind))
        return;
    BUILDER b = builder_made(&opt);
    for (uint64_t k = i * 50; k < i * 50 + 1000; k += 10) {
        struct tamis_key key = key_at(&d, k);
        add_to(b, kind, &key);
        for (int more = 0; more < 40 && k < i * 50 + 990; more++) {
            char text[48];
            int n_bytes = snprintf(text, sizeof text, "%s-%d", key_text(k), more);
            key = tamis_key_of(&d, text, (size_t)n_bytes);
            add_to(b, kind, &key);
        }
    }
    OK(tamis_edit_put(e, b, NULL));
}

static struct tamis_store *store_of(size_t n, const enum segment_kind *kinds,
                                    size_t n_kinds)
{
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < n; i++)
        put(s, e, i, kinds[i % n_kinds]);
    OK(tamis_edit_commit(e, NULL));
    for (size_t i = 0; i < n; i++) {
        enum segment_kind kind = kinds[i % n_kinds];
        if (kind == GROWING || kind == STAGES)
            grow_or_seal(s, i, kind == STAGES);
        hurt(s, name_of(i), kind);
    }
    return s;
}

/* ---- questions ---- */

struct questions {
    struct tamis_snapshot *snapshot, *other;
    bool odd; /* something may speak against a key or a target */
    struct tamis_target targets[MOST];
    struct tamis_key keys[MOST_KEYS];
    size_t n, n_keys;
};

static struct tamis_target some_target(const struct questions *q, size_t i)
{
    struct tamis_snapshot *s = q->snapshot;
    struct tamis_target t = tamis_snapshot_target(s, random_below(s->n));
    if (!q->odd || i % 5 || random_below(6))
        return t;
    switch (random_below(5)) {
    case 0:
        return (struct tamis_target){0};
    case 1:
        return tamis_snapshot_target(q->other, random_below(q->other->n));
    case 2:
        t.min_watermark = random_below(4);
        return t;
    case 3:
        t.refusal = TAMIS_MISMATCH;
        return t;
    default:
        t.slot = (uint32_t)(s->n + random_below(3)) + 1;
        return t;
    }
}

static void some_questions(struct questions *q, size_t n, size_t n_keys)
{
    struct tamis_domain d = tamis_snapshot_domain(q->snapshot);
    q->n = n;
    q->n_keys = n_keys;
    for (size_t i = 0; i < n; i++)
        q->targets[i] = some_target(q, i);
    for (size_t k = 0; k < n_keys; k++) {
        q->keys[k] = key_at(&d, random_below(UNIVERSE));
        if (random_below(4) == 0)
            q->keys[k].bytes = NULL;
        if (q->odd && random_below(60) == 0)
            q->keys[k].tag ^= 1;
    }
}

static void check(struct questions *q, bool all)
{
    const struct tamis_target *targets = all ? NULL : q->targets;
    for (size_t i = 0; all && i < q->n; i++)
        q->targets[i] = tamis_snapshot_target(q->snapshot, i);
    ask_every_way(q->snapshot, targets, q->n, q->keys, q->n_keys, NULL);
}

static void each_number(struct questions *q)
{
    for (size_t n = 1; n <= MOST; n++)
        for (size_t n_keys = 1; n_keys <= MOST_KEYS; n_keys++) {
            some_questions(q, n, n_keys);
            check(q, false);
        }
}

/* ---- the tests ---- */

/* Where all are alike, one look says that they are ready, until a page is bad. */
static void ready_with(double error)
{
    same_error = error;
    struct tamis_store *s = store_of(N_SEGMENTS, good, 2);
    struct questions q = {.snapshot = snapshot_of(s)};
    struct planes *planes = &q.snapshot->planes;
    put_segment(s, "another", 0, 10);
    q.other = snapshot_of(s);
    each_number(&q);
    verify_all(q.snapshot);
    each_number(&q);
    IS(n_ready(q.snapshot), N_SEGMENTS);
    IS(planes_uniform(planes), error > 0);
    if (error <= 0)
        check_planes_differ(q.snapshot);
    q.odd = true;
    each_number(&q);
    for (size_t i = 0; i < N_SEGMENTS; i += 3)
        zero_page(file_of(s, "s", name_of(i)), 1);
    verify_all(q.snapshot);
    each_number(&q);
    assert_true(n_ready(q.snapshot) < N_SEGMENTS);
    assert_false(planes_uniform(planes));
    tamis_snapshot_release(q.snapshot);
    tamis_snapshot_release(q.other);
    store_end(s);
    same_error = 0;
}

TEST_IN_DIR_WITH_FAULTS(ready_segments)
{
    ready_with(0);
    ready_with(0.01);
    ready_with(1e-6); /* several lanes */
}

TEST_IN_DIR_WITH_FAULTS(segments_of_every_kind)
{
    struct tamis_store *s = store_of(N_SEGMENTS, any, sizeof any / sizeof any[0]);
    struct questions q = {.snapshot = snapshot_of(s), .odd = true};
    put_segment(s, "another", 0, 10);
    q.other = snapshot_of(s);
    each_number(&q);
    verify_all(q.snapshot);
    each_number(&q);
    tamis_snapshot_release(q.snapshot);
    tamis_snapshot_release(q.other);
    store_end(s);
}

/* A store with ranges, and filters of the caller's. */
static void check_all(struct tamis_snapshot *s)
{
    struct questions q = {.snapshot = s, .other = s};
    for (int ready = 0; ready < 2; ready++) {
        for (size_t n_keys = 1; n_keys <= MOST_KEYS; n_keys++) {
            some_questions(&q, s->n, n_keys);
            check(&q, true);
        }
        verify_all(s);
    }
}

static void all_of_store(size_t n, const enum segment_kind *kinds, size_t n_kinds)
{
    struct tamis_filter *f[MOST];
    struct tamis_store *s = store_of(n, kinds, n_kinds);
    struct tamis_snapshot *snap = snapshot_of(s), *own;
    check_all(snap);
    IS(n_ready(snap), n);
    IS(planes_uniform(&snap->planes), n == 1 || same_error > 0);
    for (size_t i = 0; i < n; i++)
        OK(tamis_filter_open(file_of(s, "s", name_of(i)), NULL, &f[i], NULL));
    OK(tamis_snapshot_from_filters(f, n, &own));
    check_all(own);
    IS(n_ready(own), n);
    tamis_snapshot_release(own);
    for (size_t i = 0; i < n; i++)
        tamis_filter_close(f[i]);
    for (size_t i = 0; i < n; i += 3)
        zero_page(file_of(s, "s", name_of(i)), 1);
    check_all(snap);
    assert_false(planes_uniform(&snap->planes));
    tamis_snapshot_release(snap);
    store_end(s);
}

/* Alike and without ranges, up to 16 of them are asked of one key as of a row. */
TEST_IN_DIR_WITH_FAULTS(all_segments)
{
    for (size_t n = 1; n <= MOST; n++) {
        all_of_store(n, good, 2);
        same_error = n % 2 ? 0.01 : 1e-6; /* several lanes */
        all_of_store(n, good + 1, 1);
        same_error = 0;
    }
}

/* A list that nobody has confirmed: all segments prove nothing, few as they are. */
static void unconfirmed(const enum segment_kind *kinds, size_t n_kinds)
{
    struct tamis_store *s = store_of(5, kinds, n_kinds);
    struct tamis_snapshot *snap = snapshot_of(s);
    check_all(snap);
    snap->complete = false;
    struct tamis_domain d = tamis_snapshot_domain(snap);
    struct tamis_key key = key_at(&d, UNIVERSE - 1);
    uint8_t why[5];
    ask_every_way(snap, NULL, 5, &key, 1, why);
    for (size_t i = 0; i < 5; i++)
        IS(why[i], TAMIS_MISMATCH);
    snap->complete = true;
    tamis_snapshot_release(snap);
    store_end(s);
}

TEST_IN_DIR_WITH_FAULTS(unconfirmed_list)
{
    unconfirmed(good, 2);
    same_error = 0.01;
    unconfirmed(good + 1, 1);
    same_error = 0;
}

RUN_TESTS(NULL, NULL)
