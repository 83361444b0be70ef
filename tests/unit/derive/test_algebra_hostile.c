/* Filters made from filters, where that does not go well: what cannot be combined is
 * refused; files that change under them, answer nothing but MAYBE or are damaged cost
 * no key. */
#include "tests/support/algebra_support.h"

/* In every mode, none too, which trusts the medium for its own probes only. */
TEST_WITH_KEYS(test_damaged_sources)
{
    for (int mode = TAMIS_CHECK_LAZY; mode <= TAMIS_CHECK_NONE; mode++) {
        struct tamis_filter_options opt = {.size = sizeof opt,
                                           .check = (enum tamis_check)mode};
        build("a", keys[0], N, 0.01), build("b", keys[0], N, 0.01);
        if (mode != TAMIS_CHECK_FULL)
            flip_pages("a", 3), flip_pages("b", 2);
        struct tamis_filter *f[] = {opened_as("a", &opt), opened_as("b", &opt)};
        OK(unite(f, 2, "u"));
        IS(derived.n_damaged > 0, mode != TAMIS_CHECK_FULL);
        OK(intersect(f, 2, "i"));
        OK(fold(f[0], 2, "f"));
        IS(derived.n_damaged > 0, mode != TAMIS_CHECK_FULL);
        for (const char *out = "uif"; *out; out++) {
            char name[2] = {*out, 0};
            check_whole(path_of(name));
            check_present(path_of(name), keys[0], N);
        }
        forget();
    }
}

static void refused(struct tamis_filter **f, size_t n, int code)
{
    struct tamis_comparison c;
    const char *out = "refused";
    IS(intersect(f, n, out), code);
    IS(derive_diag.code, code);
    assert_true(derive_diag.what[0] != 0);
    if (n == 2)
        IS(tamis_filter_compare(f[0], f[1], &c, NULL), code);
    assert_false(exists(place(out)));
}

TEST_WITH_KEYS(test_refusals)
{
    struct tamis_domain before = domain;
    struct tamis_filter *a = built("a", keys[0], N, 0.01);
    struct tamis_filter *shape = built("shape", keys[0], N, 0.0001);
    struct tamis_filter *stages = grown("stages", keys[0], N);
    tamis_domain_init(&domain, 1, 43);
    struct tamis_filter *seed = built("seed", keys[0], N, 0.01);
    domain = before;
    WRITER w = create_writer(path_of("open"), 0.01, 2, 1000);
    struct tamis_filter *open = opened_file("open");
    struct {
        struct tamis_filter *f[2];
        size_t n;
        int code;
    } cases[] = {
        {{a, shape}, 2, TAMIS_ERR_UNFIT},   {{shape, a}, 2, TAMIS_ERR_UNFIT},
        {{a, stages}, 2, TAMIS_ERR_UNFIT},  {{stages, stages}, 2, TAMIS_ERR_UNFIT},
        {{a, seed}, 2, TAMIS_ERR_MISMATCH}, {{open}, 1, TAMIS_ERR_UNFIT},
        {{a, NULL}, 2, TAMIS_ERR_RANGE},
    };
    for (size_t i = 0; i < N_OF(cases); i++)
        refused(cases[i].f, cases[i].n, cases[i].code);
    refused(NULL, 0, TAMIS_ERR_RANGE);
    IS(fold(a, 0, "x"), TAMIS_ERR_UNFIT);
    for (size_t i = 0; i < 4; i++) {
        static const double bad[] = {0, -1, 0.6, NAN};
        IS(shrink(a, bad[i], "x"), TAMIS_ERR_RANGE);
    }
    for (int i = 0; i < 2; i++) {
        asks_no_report = i == 0;
        IS(shrink(a, 1e-6, "x"), TAMIS_ERR_UNFIT);
    }
    /* A file that is there already stays as it is. */
    file_write(path_of("there"), "x", 1);
    IS(tamis_filter_derive(&a, 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                           path_of("there"), NULL, NULL, NULL),
       TAMIS_ERR_EXISTS);
    file_has(path_of("there"), "x", 1);
}

TEST_WITH_KEYS(test_options)
{
    static char long_name[PATH_MAX + 1];
    struct tamis_filter *a = built("a", keys[0], 100, 0.01);
    struct tamis_derive_options bad[] = {
        {.size = sizeof bad[0], .identity.name = "x", .identity.name_bytes = 256},
        {.size = sizeof bad[0], .identity.binding = "x", .identity.binding_bytes = 65},
        {.size = sizeof bad[0], .identity.name_bytes = 1},
        {.size = sizeof bad[0], .identity.name = "a\0b", .identity.name_bytes = 3},
        {.size = sizeof bad[0], .identity.binding_bytes = 1},
        {.size = 0, .identity.name = "x", .identity.name_bytes = 1},
    };
    const struct tamis_derivation all = {.operation = TAMIS_UNION};
    for (size_t i = 0; i < N_OF(bad); i++)
        IS(tamis_filter_derive(&a, 1, &all, path_of("u"), &bad[i], NULL, NULL),
           TAMIS_ERR_RANGE);
    IS(unite(NULL, 1, "u"), TAMIS_ERR_RANGE);
    IS(unite(&a, SIZE_MAX, "u"), TAMIS_ERR_RANGE);
    IS(unite(&a, 1, NULL), TAMIS_ERR_RANGE);
    /* A directory, a name that is none, one that there is no room for. */
    snprintf(long_name, sizeof long_name, "%s/%0*d", test_dir, 300, 0);
    IS(unite(&a, 1, test_dir), TAMIS_ERR_EXISTS);
    IS(unite(&a, 1, "x/"), EISDIR);
    assert_non_null(strstr(derive_diag.what, "not a name"));
    IS(unite(&a, 1, long_name), ENAMETOOLONG);
    IS(unite(&a, 1, "no/x"), ENOENT);
    IS(count_files(test_dir), 1);
}

/* No operation, one that there is not, and a fold of none or of two. */
TEST_WITH_KEYS(test_derivations)
{
    struct tamis_filter *a = built("a", keys[0], 100, 0.01);
    struct tamis_filter *two[] = {a, a};
    const struct {
        size_t n;
        struct tamis_derivation what;
        const char *says;
    } bad[] = {
        {1, {.operation = (enum tamis_operation)4}, "no such derivation"},
        {2, {.operation = TAMIS_FOLD, .factor = 1}, "one source, not 2"},
        {2, {.operation = TAMIS_SHRINK, .error = 0.5}, "one source, not 2"},
        {0, {.operation = TAMIS_FOLD, .factor = 1}, ""},
    };
    for (size_t i = 0; i < N_OF(bad); i++) {
        IS(derive_to(two, bad[i].n, bad[i].what, "u"), TAMIS_ERR_RANGE);
        assert_non_null(strstr(derive_diag.what, bad[i].says));
    }
    IS(tamis_filter_derive(&a, 1, NULL, path_of("u"), NULL, NULL, NULL),
       TAMIS_ERR_RANGE);
    IS(count_files(test_dir), 1);
}

/* Four pages of one lane; twice as many keys are eight. */
enum { FEW = N / 2 };

enum how { UNION, INTERSECTION, FOLD, SHRINK, HOWS };

static int make(enum how how, struct tamis_filter *const *f, size_t n, const char *path)
{
    return how == UNION          ? unite(f, n, path)
           : how == INTERSECTION ? intersect(f, n, path)
           : how == FOLD         ? fold(f[0], 2, path)
                                 : shrink(f[0], 0.4, path);
}

static void check_refused(struct tamis_filter *const f[2], int err)
{
    struct tamis_comparison c;
    for (enum how how = UNION; how < HOWS; how++)
        IS(make(how, f, 2, path_of("out")), err);
    assert_false(exists(path_of("out")));
    IS(tamis_filter_compare(f[0], f[1], &c, NULL), err);
    IS(c.in[0] | c.in[1], TAMIS_MAYBE);
}

/* The first page of a file becomes another's, as a copy in place begins: what the one's
 * bits are is not what the other's header says, of seed or of stages. */
TEST_WITH_KEYS(test_written_over)
{
    static const char *const others[] = {"seed", "stages", "blocks", "twin"};
    for (size_t i = 0; i < 4; i++) {
        tamis_domain_init(&domain, 1, i == 0 ? 43 : 42);
        if (i == 1)
            grown(others[i], keys[1], FEW);
        else
            build(others[i], keys[1], i == 2 ? FEW / 3 : FEW, 0.01);
        size_t n;
        FREED uint8_t *bytes = file_read(path_of(others[i]), &n);
        tamis_domain_init(&domain, 1, 42);
        struct tamis_filter *f[2] = {built("a", keys[0], FEW, 0.01),
                                     built("b", keys[1], FEW, 0.01)};
        file_poke(path_of("a"), 0, bytes, PAGE_BYTES);
        struct header h;
        int err = filter_header(f[0], &h, NULL);
        assert_true(err == 0 || i == 1); /* its slots are not in the first page */
        check_refused(f, err ? err : TAMIS_ERR_MISMATCH);
        forget();
    }
}

/* A header of the same UUID, whole and of good checksum, but of another seed, or of
 * stages whose keys have more bits each. */
TEST_WITH_KEYS(test_header_of_the_same_name)
{
    for (int seed = 0; seed < 2; seed++) {
        struct header h;
        struct tamis_filter *f[2] = {built("a", keys[0], FEW, 0.01),
                                     built("b", keys[1], FEW, 0.01)};
        struct commit c = commit_of(path_of("a"));
        struct identity id = identity_of("a");
        id.hash_seed++;
        c.stages[0].geometry.words++;
        if (seed)
            put_identity("a", &id);
        else
            put_commit("a", &c);
        IS(filter_header(f[0], &h, NULL), 0);
        check_refused(f, TAMIS_ERR_MISMATCH);
        forget();
    }
}

/* The header that it had before it was sealed is put back: it grows again, they say. */
TEST_WITH_KEYS(test_header_of_before)
{
    size_t n;
    struct tamis_writer *w =
        WRITER_AS(path_of("a"), .growth = {.first_capacity = 1000}, .domain = &domain);
    add_hashes(w, keys[0], FEW);
    OK(tamis_writer_commit(w, WATERMARK, NULL));
    FREED uint8_t *before = file_read(path_of("a"), &n);
    seal_and_close(w, WATERMARK);
    struct tamis_filter *f[2] = {opened_file("a"), built("b", keys[1], FEW, 0.01)};
    file_poke(path_of("a"), 0, before, HEADER_MAX_BYTES);
    check_refused(f, TAMIS_ERR_UNFIT);
}

/* A filter that was opened for a watermark that it has not reached answers MAYBE,
 * BEHIND. A filter made of its bits would answer ABSENT. */
TEST_WITH_KEYS(test_behind)
{
    struct tamis_filter_options opt = {.size = sizeof opt,
                                       .min_watermark = WATERMARK + 1};
    build("a", keys[0], FEW, 0.01);
    struct tamis_filter *f[2] = {opened_as("a", &opt), built("b", keys[1], FEW, 0.01)};
    IS(count_absent(f[0], keys[1], FEW), 0);
    check_refused(f, TAMIS_ERR_MISMATCH);
    opt.min_watermark = WATERMARK;
    f[0] = opened_as("a", &opt);
    IS(make(UNION, f, 2, path_of("out")), 0);
}

static void hurt(const char *path, uint64_t from)
{
    size_t n;
    FREED uint8_t *bytes = file_read(path, &n);
    for (uint64_t times = random_below(3) + 1; times > 0; times--) {
        uint64_t at = from + random_below(n - from), length = random_below(600) + 1;
        if (length > n - at)
            length = n - at;
        memset(bytes + at, random_below(3) ? 0 : 0xff, length);
        if (random_below(2))
            bytes[at] ^= (uint8_t)(1 << random_below(8));
        file_poke(path, at, bytes + at, length);
    }
}

/* Keys that the result must have: keys[0] of an intersection are in both sources. */
static void check_keys(enum how how, const char *path)
{
    check_present(path, keys[0], FEW);
    if (how == UNION)
        check_present(path, keys[1], FEW);
}

static void try_damage(enum how how, unsigned *n_made)
{
    static uint64_t all[2 * FEW];
    bool several = random_below(2) && how != INTERSECTION;
    double error = random_below(2) ? 0.01 : 0.0001;
    memcpy(all, keys[0], FEW * sizeof all[0]);
    memcpy(all + FEW, keys[1], FEW * sizeof all[0]);
    struct tamis_filter *f[2] = {several ? grown("a", keys[0], FEW)
                                         : built("a", keys[0], FEW, error),
                                 how == INTERSECTION ? built("b", all, 2 * FEW, error)
                                                     : built("b", keys[1], FEW, error)};
    if (random_below(2)) /* what was looked at is remembered */
        count_absent(f[0], keys[0], FEW);
    hurt(path_of("a"), random_below(4) ? PAGE_BYTES : 0);
    if (random_below(2))
        hurt(path_of("b"), PAGE_BYTES);
    if (make(how, f, 2, path_of("out")) == 0) {
        check_keys(how, "out");
        ++*n_made;
    }
    forget();
}

TEST_WITH_KEYS(test_damage_anywhere)
{
    for (enum how how = UNION; how < HOWS; how++) {
        unsigned n_made = 0;
        for (int i = 0; i < 60; i++)
            try_damage(how, &n_made);
        assert_in_range(n_made, 10, 60);
    }
}

RUN_TESTS(NULL, NULL)
