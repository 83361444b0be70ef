/* Queries of many segments against the careful probe of each: over random stores every
 * shape of query says what tamis_snapshot_probe() says, before anything was opened,
 * while pages are still to be checked, when all are good, and after one of them rots.
 * And few keys on few segments, in every number of both. */
#include "tests/unit/store_snapshot/many_support.h"
#include "tests/support/shop/ways.h"

enum { MAX_SEGMENTS = 300, MAX_TARGETS = 400, N_KEYS = 150, UNIVERSE = 3000, FEW = 16 };

/* ---- random stores ---- */

static const enum segment_kind kinds[] = {BY_HASH, SEALED, GROWING, STAGES, BARE,
                                          LOST,    RIBBON, DAMAGED, LARGE};
enum { N_KINDS = N_OF(kinds) };

struct world {
    struct tamis_store *store;
    struct tamis_domain domain;
    size_t n;
    double error; /* of all segments; 0: each has its own */
    bool few;     /* so many keys that some bits are hit by chance */
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
    struct tamis_builder_options opt = {
        .size = sizeof opt,
        .domain = &w->domain,
        .identity.name = name_of(i),
        .identity.name_bytes = strlen(name_of(i)),
        .error = w->error > 0
                     ? w->error
                     : (double[]){0.2, 0.01, 1e-3, 1e-4, 1e-6}[random_below(5)],
        .kind = w->kind[i] == RIBBON ? TAMIS_RIBBON : 0,
        .watermark = w->watermark[i] = random_below(4),
    };
    BUILDER b = builder_made(&opt);
    for (uint64_t k = w->first[i]; k < w->first[i] + w->n_keys[i]; k++) {
        struct tamis_key key = key_of(w, k);
        add_to(b, w->kind[i], &key);
        for (int more = 0; w->few && more < 40; more++) {
            char text[48];
            snprintf(text, sizeof text, "%s-%d", (const char *)key.bytes, more);
            struct tamis_key other = tamis_key_of(&w->domain, text, strlen(text));
            add_to(b, w->kind[i], &other);
        }
    }
    for (uint64_t n = w->kind[i] == LARGE ? 20000 : 0; n > 0; n--)
        OK(tamis_builder_add_hashes(b, w->domain.tag, &(uint64_t){random_u64()}, 1));
    OK(tamis_edit_put(e, b, NULL, NULL));
}

static void put(struct world *w, struct tamis_edit *e, size_t i)
{
    w->first[i] = random_below(UNIVERSE);
    w->n_keys[i] = random_below(UNIVERSE + 1 - w->first[i]) % 300;
    w->n_keys[i] += w->few;    /* of few none is empty */
    if (random_below(10) == 0) /* the empty key, the first one of all */
        w->first[i] = UNIVERSE, w->n_keys[i] = 1;
    w->watermark[i] = 0;
    if (!put_unbuilt(e, name_of(i), w->kind[i]))
        put_built(w, e, i);
}

/* The first capacity is 100 keys. */
static void grow(struct world *w, size_t i)
{
    WRITER writer = writer_of(w->store, name_of(i));
    for (uint64_t k = w->first[i]; k < w->first[i] + w->n_keys[i]; k++)
        OK(tamis_writer_add_hashes(writer, w->domain.tag,
                                   &(uint64_t){key_of(w, k).hash}, 1));
    w->watermark[i] = random_below(4);
    if (w->kind[i] == STAGES)
        OK(tamis_writer_seal(writer, w->watermark[i], NULL, NULL));
    else
        OK(tamis_writer_commit(writer, w->watermark[i], NULL));
}

/* Makes segments of the first n_kinds kinds. */
static void world_make(struct world *w, size_t n, double error, size_t n_kinds)
{
    memset(w, 0, sizeof *w);
    w->n = n;
    w->error = error;
    w->few = n_kinds < N_KINDS;
    w->store = store_new("s");
    w->domain = tamis_store_domain(w->store);
    struct tamis_edit *e = edit_new(w->store);
    for (size_t i = 0; i < n; i++) {
        w->kind[i] = !w->few && random_below(2) ? SEALED : kinds[random_below(n_kinds)];
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
    remove_tree("s");
}

/* ---- random questions ---- */

/* Something speaks against one question in `odd`; 0: against none. */
static void random_questions(const struct world *w, struct tamis_key *keys, size_t n,
                             unsigned odd)
{
    for (size_t i = 0; i < n; i++) {
        keys[i] = key_of(w, random_below(UNIVERSE + 1));
        if (random_below(6) == 0)
            keys[i].bytes = NULL;
        if (odd && random_below(25 * odd) == 0)
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
    size_t n = tamis_snapshot_info(s).n_numbers;
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
        t.ordinal = (uint32_t)(n + random_below(3));
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

static void check_some(struct world *w, struct tamis_snapshot *s,
                       struct tamis_snapshot *other, size_t n_list, size_t n_keys,
                       unsigned odd)
{
    struct tamis_key keys[N_KEYS];
    struct tamis_target list[MAX_TARGETS];
    size_t n = tamis_snapshot_info(s).n_numbers;
    random_questions(w, keys, n_keys, odd);
    for (size_t i = 0; i < n_list; i++)
        list[i] = odd && random_below(odd) == 0
                      ? random_target(w, s, other)
                      : tamis_snapshot_target(s, random_below(n));
    ask_every_way(s, NULL, n, keys, n_keys, NULL);
    ask_every_way(s, list, n_list, keys, n_keys, NULL);
}

static void check_questions(struct world *w, struct tamis_snapshot *s,
                            struct tamis_snapshot *other)
{
    check_some(w, s, other, random_below(MAX_TARGETS),
               1 + random_below(random_below(3) ? 20 : N_KEYS), 1);
}

/* ---- the stages of a snapshot's life ---- */

/* Every key of every segment; those of whole filters are there, the others may be. */
static void check_nothing_lost(struct world *w, struct tamis_snapshot *s)
{
    uint64_t absent[MAX_SEGMENTS / 64 + 1];
    for (size_t i = 0; i < w->n; i++) {
        struct tamis_target t;
        tamis_snapshot_find(s, name_of(i), 4, NULL, 0, 0, &t);
        for (uint64_t k = w->first[i]; t.ordinal && k < w->first[i] + w->n_keys[i];
             k += 13) {
            struct tamis_key key = key_of(w, k);
            ASK(s, ALL, KEYS(&key, 1), .absent = absent);
            assert_false(absent[(t.ordinal - 1) / 64] >> ((t.ordinal - 1) % 64) & 1);
        }
    }
}

/* A scrub finds, in each of some filters, a page that has rotted since. */
static void rot_some(struct world *w, struct tamis_snapshot *s)
{
    for (size_t i = 0; i < w->n; i++)
        if ((w->kind[i] == SEALED || w->kind[i] == RIBBON) && random_below(4) == 0)
            zero_page(file_of(w->store, "s", name_of(i)), 1);
    verify_all(s);
}

static void check_world(struct world *w)
{
    SNAPSHOT s = snapshot_of(w->store), cold;
    /* Empty, it is a snapshot all the same. */
    OK(tamis_snapshot_from_filters(NULL, 0, 0, &cold));
    check_questions(w, s, cold);
    check_nothing_lost(w, s);
    check_questions(w, s, cold);
    verify_all(s);
    check_questions(w, s, cold);
    /* A change makes a new snapshot, which has at hand what the old one has. */
    size_t n_before = n_ready(s);
    put_segment(w->store, "another", 0, 10);
    SNAPSHOT next = snapshot_of(w->store);
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
}

TEST_IN_DIR_WITH_FAULTS(many_say_what_each_says)
{
    static const size_t n[] = {0, 1, 3, 63, 64, 65, 130, 200, MAX_SEGMENTS};
    static struct world w;
    for (size_t i = 0; i < N_OF(n); i++) {
        world_make(&w, n[i], 0, N_KINDS);
        check_world(&w);
        world_free(&w);
    }
}

/* ---- few of them ---- */

static void check_few(struct world *w, struct tamis_snapshot *s,
                      struct tamis_snapshot *other)
{
    static const size_t n_list[] = {1, 2, 3, FEW - 1, FEW, FEW + 1};
    for (size_t i = 0; i < N_OF(n_list); i++)
        for (size_t n_keys = 1; n_keys <= 33; n_keys++)
            for (unsigned odd = 0; odd <= 20; odd += 20)
                check_some(w, s, other, n_list[i], n_keys, odd);
}

/* All are ready, alike or not, until a page is bad. */
static void few_of(size_t n, double error, size_t n_kinds)
{
    static struct world w;
    world_make(&w, n, error, n_kinds);
    SNAPSHOT s = snapshot_of(w.store);
    put_segment(w.store, "another", 0, 10);
    SNAPSHOT other = snapshot_of(w.store);
    check_few(&w, s, other);
    verify_all(s);
    check_few(&w, s, other);
    IS(n_ready(s), n);
    if (error == 1e-6)
        assert_true(s->planes.plane[0].lanes > 1);
    zero_page(file_of(w.store, "s", name_of(n / 2)), 1);
    verify_all(s);
    check_few(&w, s, other);
    assert_true(n_ready(s) < n);
    world_free(&w);
}

TEST_IN_DIR_WITH_FAULTS(few_say_what_each_says)
{
    static const size_t n[] = {1, 3, FEW - 1, FEW, FEW + 1};
    for (size_t i = 0; i < N_OF(n); i++)
        for (size_t n_kinds = 1; n_kinds <= 2; n_kinds++) {
            few_of(n[i], 0, n_kinds);
            few_of(n[i], i % 2 ? 0.01 : 1e-6, n_kinds); /* one lane, several */
        }
}

/* Filters of the caller's: of two domains, in every mode of checking, with watermarks
 * of their own. */
TEST_IN_DIR_WITH_FAULTS(filters_of_the_caller)
{
    enum { N = 100 };
    struct tamis_filter *f[N];
    struct tamis_snapshot *s, *other;
    static struct world w;
    struct tamis_domain d[2];
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
    OK(tamis_snapshot_from_filters(f, N, 0, &s));
    OK(tamis_snapshot_from_filters(f, 1, 0, &other));
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

/* A list that is not confirmed proves nothing, ready or not, few or many, though they
 * are alike; with a binding it does. */
static void unconfirmed(size_t n, double error, size_t n_kinds)
{
    static struct world w;
    world_make(&w, n, error, n_kinds);
    tamis_store_close(w.store);
    struct meta m = meta_in("s");
    m.complete = 0;
    put_meta("s", &m);
    w.store = store_open("s");
    SNAPSHOT s = snapshot_of(w.store);
    verify_all(s);
    check_questions(&w, s, s);
    struct tamis_target t[70];
    uint8_t why[70];
    for (size_t i = 0; i < w.n; i++) {
        t[i] = tamis_snapshot_target(s, i);
        t[i].refusal = 0; /* as one found with a binding */
    }
    struct tamis_key key = key_of(&w, 5);
    for (int i = 0; i < 3; i++)
        ask_every_way(s, t, w.n, &key, 1, NULL);
    check_questions(&w, s, s);
    ask_every_way(s, NULL, w.n, &key, 1, why);
    for (size_t i = 0; i < w.n; i++)
        assert_true(why[i] > TAMIS_HIT);
    world_free(&w);
}

TEST_IN_DIR_WITH_FAULTS(unconfirmed_list)
{
    unconfirmed(70, 0, N_KINDS);
    unconfirmed(5, 0, 2);
    unconfirmed(5, 0.01, 1);
}

RUN_TESTS(NULL, NULL)
