/* Filters made from filters whose files change under them, or that answer nothing but
 * MAYBE: refused, or no key is lost. */
#include "tests/support/filters.h"
#include "tests/support/algebra_support.h"

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
    enum tamis_answer answer = TAMIS_ABSENT;
    for (enum how how = UNION; how < HOWS; how++)
        IS(make(how, f, 2, path_of("out")), err);
    assert_false(exists(path_of("out")));
    IS(tamis_filter_contains(f[0], f[1], &answer, NULL), err);
    IS(answer, TAMIS_MAYBE);
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
    struct tamis_writer_options opt = {
        .size = sizeof opt, .growth = {.first_capacity = 1000}, .domain = &domain};
    struct tamis_writer *w = writer_made(path_of("a"), &opt);
    add_hashes(w, keys[0], FEW);
    OK(tamis_writer_commit(w, WATERMARK, NULL));
    FREED uint8_t *before = file_read(path_of("a"), &n);
    seal_and_close(w, WATERMARK);
    struct tamis_filter *f[2] = {opened_file("a"), built("b", keys[1], FEW, 0.01)};
    file_poke(path_of("a"), 0, before, HEADER_MAX_BYTES);
    check_refused(f, TAMIS_ERR_UNFIT);
}

/* Opened for a watermark that it has not reached it answers MAYBE, BEHIND. What is made
 * of its bits would answer ABSENT. */
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

/* ---- damage anywhere, before the files are opened and after ---- */

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

/* The keys that the result must have: keys[0] of an intersection are in both sources.
 */
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
