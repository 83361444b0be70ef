/* Many segments at once against the careful probe of each: what probe_list, probe_all,
 * candidates and probe_keys say over random stores is what tamis_snapshot_probe() says,
 * before anything was opened, while pages are still to be checked, when all are good,
 * and after one of them rots. */
#include "tests/unit/store_snapshot/many_support.h"

enum { MAX_SEGMENTS = 300, MAX_TARGETS = 400, N_KEYS = 150, UNIVERSE = 3000 };

/* ---- random stores ---- */

static const enum segment_kind kinds[] = {SEALED, BY_HASH, GROWING, STAGES,
                                          BARE,   LOST,    DAMAGED, LARGE};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

struct world {
    struct tamis_store *store;
    struct tamis_domain domain;
    size_t n;
    enum segment_kind kind[MAX_SEGMENTS];
    uint64_t first[MAX_SEGMENTS], n_keys[MAX_SEGMENTS];
    uint64_t watermark[MAX_SEGMENTS];
};

/* "", keys whose first eight bytes are the same, and others. */
static struct tamis_key key_of(const struct world *w, uint64_t i)
{
    static char text[UNIVERSE + 1][32];
    char *t = text[i % (UNIVERSE + 1)];
    snprintf(t, sizeof text[0], "%s", i == UNIVERSE ? "" : key_text(i * 7));
    if (i % 50 == 7)
        t[5] = 0; /* short */
    return tamis_key_of(&w->domain, t, strlen(t));
}

static void put_built(struct world *w, struct tamis_edit *e, size_t i)
{
    struct tamis_builder *b;
    struct tamis_builder_options opt = {
        .size = sizeof opt,
        .domain = &w->domain,
        .identity.name = name_of(i),
        .identity.name_bytes = strlen(name_of(i)),
        .error = (double[]){0.2, 0.01, 1e-3, 1e-4, 1e-6}[random_below(5)],
        .watermark = w->watermark[i] = random_below(4),
    };
    OK(tamis_builder_create(&opt, &b, NULL));
    for (uint64_t k = w->first[i]; k < w->first[i] + w->n_keys[i]; k++) {
        struct tamis_key key = key_of(w, k);
        add_to(b, w->kind[i], &key);
    }
    for (uint64_t n = w->kind[i] == LARGE ? 20000 : 0; n > 0; n--)
        OK(tamis_builder_add_hashes(b, w->domain.tag, &(uint64_t){random_u64()}, 1));
    OK(tamis_edit_put(e, b, NULL));
    tamis_builder_free(b);
}

static void put(struct world *w, struct tamis_edit *e, size_t i)
{
    w->first[i] = random_below(UNIVERSE);
    w->n_keys[i] = random_below(UNIVERSE + 1 - w->first[i]) % 300;
    if (random_below(10) == 0) /* the empty key, the first one of all */
        w->first[i] = UNIVERSE, w->n_keys[i] = 1;
    w->watermark[i] = 0;
    if (!put_unbuilt(e, name_of(i), w->kind[i]))
        put_built(w, e, i);
}

/* The first capacity is 100 keys. */
static void grow(struct world *w, size_t i)
{
    struct tamis_writer *writer;
    OK(tamis_store_writer(w->store, name_of(i), strlen(name_of(i)), &writer, NULL));
    for (uint64_t k = w->first[i]; k < w->first[i] + w->n_keys[i]; k++)
        OK(tamis_writer_add_hashes(writer, w->domain.tag,
                                   &(uint64_t){key_of(w, k).hash}, 1));
    w->watermark[i] = random_below(4);
    if (w->kind[i] == STAGES)
        OK(tamis_writer_seal(writer, w->watermark[i], NULL, NULL));
    else
        OK(tamis_writer_commit(writer, w->watermark[i], NULL));
    OK(tamis_writer_close(writer));
}

static void world_make(struct world *w, size_t n)
{
    memset(w, 0, sizeof *w);
    w->n = n;
    w->store = store_new("s");
    w->domain = tamis_store_domain(w->store);
    struct tamis_edit *e = edit_new(w->store);
    for (size_t i = 0; i < n; i++) {
        w->kind[i] = random_below(2) ? SEALED : kinds[random_below(N_KINDS)];
        if ((w->kind[i] == GROWING || w->kind[i] == STAGES) && random_below(4))
            w->kind[i] = SEALED;
        put(w, e, i);
    }
    OK(tamis_edit_commit(e, NULL));
    for (size_t i = 0; i < n; i++) {
        if (w->kind[i] == GROWING || w->kind[i] == STAGES)
            grow(w, i);
        hurt(w->store, name_of(i), w->kind[i]);
    }
}

static void world_free(struct world *w)
{
    tamis_store_close(w->store);
    OK(nftw(path_of("s"), remove_one, 16, FTW_DEPTH | FTW_PHYS));
}

/* ---- random questions ---- */

static void random_questions(const struct world *w, struct tamis_key *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        keys[i] = key_of(w, random_below(UNIVERSE + 1));
        if (random_below(6) == 0)
            keys[i].bytes = NULL;
        if (random_below(25) == 0)
            keys[i].tag ^= random_below(2) ? 1 : random_u64();
        if (random_below(25) == 0) {
            keys[i].bytes = "\xff\xff\xff\xff\xff\xff\xff\xff\xff";
            keys[i].n_bytes = random_below(10);
            keys[i].hash = random_u64();
        }
    }
}

static struct tamis_target random_target(const struct world *w,
                                         struct tamis_snapshot *s,
                                         struct tamis_snapshot *other)
{
    size_t n = tamis_snapshot_n_segments(s);
    struct tamis_target t = {0};
    switch (n ? random_below(12) : random_below(4)) {
    case 0:
        return t;
    case 1:
        return tamis_snapshot_target(other, random_below(w->n + 2));
    case 2:
        t = tamis_snapshot_target(s, n ? random_below(n) : 0);
        t.refusal = (uint32_t)random_below(12);
        return t;
    case 3:
        t = tamis_snapshot_target(s, 0);
        t.snapshot = s->serial;
        t.refusal = 0;
        t.slot = (uint32_t)(n + random_below(3));
        return t;
    case 4:
    case 5:
        tamis_snapshot_find(s, name_of(random_below(w->n + 1)), 4, NULL, 0,
                            random_below(5), &t);
        return t;
    default:
        return tamis_snapshot_target(s, random_below(n));
    }
}

/* ---- what the careful probe says ---- */

static uint8_t careful(struct tamis_snapshot *s, const struct tamis_target *t,
                       const struct tamis_key *key)
{
    enum tamis_reason why;
    enum tamis_answer a = tamis_snapshot_probe(s, t, key, &why);
    assert_int_equal(a == TAMIS_ABSENT, why == ABSENT_HERE);
    return (uint8_t)why;
}

static void check_answers(const uint8_t *want, const uint64_t *absent,
                          const uint8_t *reasons, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (reasons)
            assert_int_equal(reasons[i], want[i]);
        assert_int_equal(absent[i / 64] >> (i % 64) & 1, want[i] == ABSENT_HERE);
    }
    if (n % 64)
        assert_int_equal(absent[n / 64] >> (n % 64), 0);
}

static void check_candidates(struct tamis_snapshot *s, const struct tamis_key *key,
                             const uint8_t *want, size_t n, bool all)
{
    uint32_t got[MAX_SEGMENTS + 4];
    size_t max = random_below(n + 2), n_got = 99, n_want = 0;
    memset(got, 0xa5, sizeof got);
    assert_int_equal(tamis_snapshot_candidates(s, key, got, max, &n_got), all);
    for (size_t i = 0; i < n; i++)
        if (want[i] != ABSENT_HERE && n_want++ < max)
            assert_int_equal(got[n_want - 1], i);
    assert_int_equal(n_got, n_want);
    if (n_want < max)
        max = n_want;
    assert_int_equal(got[max], 0xa5a5a5a5);
}

/* One key, a list (NULL: all). The many first: the careful probe opens what it asks. */
static void check_one(struct tamis_snapshot *s, const struct tamis_target *targets,
                      size_t n, const struct tamis_key *key)
{
    uint64_t absent[MAX_TARGETS / 64 + 1], again[MAX_TARGETS / 64 + 1];
    uint8_t reasons[MAX_TARGETS], want[MAX_TARGETS];
    enum tamis_answer got;
    bool all = n > 0;
    memset(absent, 0xff, sizeof absent);
    memset(again, 0xff, sizeof again);
    if (random_below(2)) /* more than once: the first makes planes ready */
        targets ? tamis_snapshot_probe_list(s, targets, n, key, NULL, NULL)
                : tamis_snapshot_probe_all(s, key, again, NULL);
    got = targets ? tamis_snapshot_probe_list(s, targets, n, key, absent, reasons)
                  : tamis_snapshot_probe_all(s, key, absent, reasons);
    targets ? tamis_snapshot_probe_list(s, targets, n, key, again, NULL)
            : tamis_snapshot_probe_all(s, key, again, NULL);
    for (size_t i = 0; i < n; i++) {
        struct tamis_target t = targets ? targets[i] : tamis_snapshot_target(s, i);
        want[i] = careful(s, &t, key);
        all &= want[i] == ABSENT_HERE;
    }
    check_answers(want, absent, reasons, n);
    check_answers(want, again, NULL, n);
    if (!targets)
        all &= s->complete;
    assert_int_equal(got, all ? TAMIS_ABSENT : TAMIS_MAYBE);
    if (!targets)
        check_candidates(s, key, want, n, all);
}

static void check_keys(struct tamis_snapshot *s, const struct tamis_target *targets,
                       size_t n, const struct tamis_key *keys, size_t n_keys)
{
    static uint64_t absent[N_KEYS * (MAX_TARGETS / 64 + 1) + 1];
    uint8_t want[MAX_TARGETS];
    size_t n_words = (n + 63) / 64, n_all = 0;
    memset(absent, 0xa5, sizeof absent);
    size_t got = tamis_snapshot_probe_keys(s, targets, targets ? n : random_below(9),
                                           keys, n_keys, absent);
    for (size_t k = 0; k < n_keys; k++) {
        bool all = n > 0 && (targets || s->complete);
        for (size_t i = 0; i < n; i++) {
            struct tamis_target t = targets ? targets[i] : tamis_snapshot_target(s, i);
            want[i] = careful(s, &t, &keys[k]);
            all &= want[i] == ABSENT_HERE;
        }
        check_answers(want, absent + k * n_words, NULL, n);
        n_all += all;
    }
    assert_true(absent[n_keys * n_words] == 0xa5a5a5a5a5a5a5a5);
    assert_int_equal(got, n_all);
    assert_int_equal(tamis_snapshot_probe_keys(s, targets, n, keys, n_keys, NULL), got);
}

static void check_questions(struct world *w, struct tamis_snapshot *s,
                            struct tamis_snapshot *other)
{
    struct tamis_key keys[N_KEYS];
    struct tamis_target list[MAX_TARGETS];
    size_t n = tamis_snapshot_n_segments(s), n_list = random_below(MAX_TARGETS);
    size_t n_keys = 1 + random_below(random_below(3) ? 20 : N_KEYS);
    random_questions(w, keys, n_keys);
    for (size_t i = 0; i < n_list; i++)
        list[i] = random_target(w, s, other);
    for (int i = 0; i < 4; i++) {
        const struct tamis_key *key = &keys[random_below(n_keys)];
        bool some = random_below(2);
        check_one(s, some ? list : NULL, some ? n_list : n, key);
    }
    check_keys(s, NULL, n, keys, n_keys);
    check_keys(s, list, n_list, keys, n_keys);
}

/* ---- the stages of a snapshot's life ---- */

/* Every key of every segment; those of whole filters are there, the others may be. */
static void check_nothing_lost(struct world *w, struct tamis_snapshot *s)
{
    uint64_t absent[MAX_SEGMENTS / 64 + 1];
    for (size_t i = 0; i < w->n; i++) {
        struct tamis_target t;
        tamis_snapshot_find(s, name_of(i), 4, NULL, 0, 0, &t);
        for (uint64_t k = w->first[i]; t.slot && k < w->first[i] + w->n_keys[i];
             k += 13) {
            struct tamis_key key = key_of(w, k);
            tamis_snapshot_probe_all(s, &key, absent, NULL);
            assert_false(absent[(t.slot - 1) / 64] >> ((t.slot - 1) % 64) & 1);
        }
    }
}

/* A scrub finds, in each of some filters, a page that has rotted since. */
static void rot_some(struct world *w, struct tamis_snapshot *s)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->kind[i] == SEALED && random_below(4) == 0)
            zero_page(file_of(w->store, "s", name_of(i)), 1);
    verify_all(s);
}

static void check_world(struct world *w)
{
    struct tamis_snapshot *s = snapshot_of(w->store), *cold;
    /* Empty, it is a snapshot all the same. */
    OK(tamis_snapshot_from_filters(NULL, 0, &cold));
    check_questions(w, s, cold);
    check_nothing_lost(w, s);
    check_questions(w, s, cold);
    verify_all(s);
    check_questions(w, s, cold);
    tamis_snapshot_release(cold);
    /* A change makes a new snapshot, which has at hand what the old one has. */
    size_t n_before = n_ready(s);
    put_segment(w->store, "another", 0, 10);
    struct tamis_snapshot *next = snapshot_of(w->store);
    assert_true(n_ready(next) >= n_before);
    if (w->n >= 40)
        assert_true(n_before > w->n / 3);
    check_questions(w, next, s);
    check_nothing_lost(w, next);
    rot_some(w, next);
    check_questions(w, s, next);
    check_questions(w, next, s);
    check_nothing_lost(w, s);
    check_nothing_lost(w, next);
    tamis_snapshot_release(s);
    tamis_snapshot_release(next);
}

static void many_say_what_each_says(void **state)
{
    static const size_t n[] = {0, 1, 3, 63, 64, 65, 130, 200, MAX_SEGMENTS};
    static struct world w;
    (void)state;
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++) {
        world_make(&w, n[i]);
        check_world(&w);
        world_free(&w);
    }
}

/* Filters of the caller's: of two domains, in every mode of checking, with watermarks
 * of their own. */
static void filters_of_the_caller(void **state)
{
    enum { N = 100 };
    struct tamis_filter *f[N];
    struct tamis_snapshot *s, *other;
    static struct world w;
    struct tamis_domain d[2];
    (void)state;
    w.n = 1;
    OK(tamis_domain_init(&d[0], 1, 42));
    OK(tamis_domain_init(&d[1], 1, 43));
    build_file(path_of("0"), &d[0], "x", "one", NULL); /* watermark 7 */
    build_file(path_of("1"), &d[1], "x", "two", NULL);
    build_file(path_of("2"), &d[0], NULL, NULL, NULL);
    zero_page(path_of("2"), 1);
    for (size_t i = 0; i < N; i++) {
        struct tamis_filter_options opt = {
            .size = sizeof opt,
            .check = random_below(2) ? TAMIS_CHECK_LAZY : TAMIS_CHECK_STRICT,
            .min_watermark = 5 + random_below(4)};
        char name[] = {(char)('0' + random_below(3)), 0};
        OK(tamis_filter_open(path_of(i ? name : "0"), &opt, &f[i], NULL));
    }
    OK(tamis_snapshot_from_filters(f, N, &s));
    OK(tamis_snapshot_from_filters(f, 1, &other));
    for (int round = 0; round < 20; round++) {
        w.domain = d[random_below(2)];
        check_questions(&w, s, other);
        if (round == 10)
            verify_all(s);
    }
    assert_true(n_ready(s) > 0);
    tamis_snapshot_release(s);
    tamis_snapshot_release(other);
    for (size_t i = 0; i < N; i++)
        tamis_filter_close(f[i]);
}

/* A list that is not confirmed proves nothing, ready or not; with a binding it does. */
static void unconfirmed_list(void **state)
{
    static struct world w;
    (void)state;
    world_make(&w, 70);
    tamis_store_close(w.store);
    struct meta m = meta_in("s");
    m.complete = 0;
    put_meta("s", &m);
    w.store = store_open("s");
    struct tamis_snapshot *s = snapshot_of(w.store);
    verify_all(s);
    check_questions(&w, s, s);
    struct tamis_target t[70];
    for (size_t i = 0; i < w.n; i++) {
        t[i] = tamis_snapshot_target(s, i);
        t[i].refusal = 0; /* as one found with a binding */
    }
    struct tamis_key key = key_of(&w, 5);
    for (int i = 0; i < 3; i++)
        check_one(s, t, w.n, &key);
    check_questions(&w, s, s);
    check_one(s, NULL, w.n, &key);
    tamis_snapshot_release(s);
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_DIR_WITH_FAULTS(many_say_what_each_says),
        TEST_IN_DIR_WITH_FAULTS(filters_of_the_caller),
        TEST_IN_DIR_WITH_FAULTS(unconfirmed_list),
    };
    return cmocka_run_group_tests_name("store_many", tests, NULL, NULL);
}
