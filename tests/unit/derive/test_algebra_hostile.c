/* Filters made from filters whose files change under them, or that answer nothing but
 * MAYBE: refused, or no key is lost. */
#include "tests/support/algebra_support.h"

#include "lib/filter/view.h"

/* Four pages of one lane; twice as many keys are eight. */
enum { FEW = N / 2 };

enum how { UNION, INTERSECTION, FOLD, SHRINK, HOWS };

static int make(enum how how, struct tamis_filter *const *f, size_t n, const char *path)
{
    switch (how) {
    case UNION:
        return tamis_filter_derive(f, n,
                                   &(struct tamis_derivation){.operation = TAMIS_UNION},
                                   path, NULL, NULL, NULL);
    case INTERSECTION:
        return tamis_filter_derive(
            f, n, &(struct tamis_derivation){.operation = TAMIS_INTERSECTION}, path,
            NULL, NULL, NULL);
    case FOLD:
        return tamis_filter_derive(
            &f[0], 1, &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = 2},
            path, NULL, NULL, NULL);
    case SHRINK:
    case HOWS:
        break;
    }
    return tamis_filter_derive(
        &f[0], 1, &(struct tamis_derivation){.operation = TAMIS_SHRINK, .error = 0.4},
        path, NULL, NULL, NULL);
}

static void check_refused(struct tamis_filter *const f[2], int err)
{
    enum tamis_answer answer = TAMIS_ABSENT;
    for (enum how how = UNION; how < HOWS; how++)
        assert_int_equal(make(how, f, 2, path_of("out")), err);
    assert_false(exists(path_of("out")));
    assert_int_equal(tamis_filter_contains(f[0], f[1], &answer, NULL), err);
    assert_int_equal(answer, TAMIS_MAYBE);
}

/* The first page of a file becomes another's, as a copy in place begins: what the one's
 * bits are is not what the other's header says, of seed or of stages. */
static void test_written_over(void **state)
{
    static const char *const others[] = {"seed", "stages", "blocks", "twin"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        tamis_domain_init(&domain, 1, i == 0 ? 43 : 42);
        struct tamis_filter *other =
            i == 1 ? grown(others[i], keys[1], FEW)
                   : built(others[i], keys[1], i == 2 ? FEW / 3 : FEW, 0.01);
        size_t n;
        uint8_t *bytes = file_read(path_of(others[i]), &n);
        tamis_filter_close(other);
        tamis_domain_init(&domain, 1, 42);
        struct tamis_filter *f[2] = {built("a", keys[0], FEW, 0.01),
                                     built("b", keys[1], FEW, 0.01)};
        file_poke(path_of("a"), 0, bytes, PAGE_BYTES);
        struct header h;
        int err = filter_header(f[0], &h, NULL);
        assert_true(err == 0 || i == 1); /* its slots are not in the first page */
        check_refused(f, err ? err : TAMIS_ERR_MISMATCH);
        close_all(f, 2);
        free(bytes);
        remove(path_of("a")), remove(path_of("b"));
    }
}

/* A header of the same UUID, whole and of good checksum, but of another seed, or of
 * stages whose keys have more bits each. */
static void test_header_of_the_same_name(void **state)
{
    (void)state;
    for (int seed = 0; seed < 2; seed++) {
        struct header h;
        struct tamis_filter *f[2] = {built("a", keys[0], FEW, 0.01),
                                     built("b", keys[1], FEW, 0.01)};
        struct commit c = commit_of(path_of("a"));
        struct identity id = identity_of(path_of("a"));
        id.hash_seed++;
        c.stages[0].geometry.words++;
        if (seed)
            put_identity(path_of("a"), &id);
        else
            put_commit(path_of("a"), &c);
        assert_int_equal(filter_header(f[0], &h, NULL), 0);
        check_refused(f, TAMIS_ERR_MISMATCH);
        close_all(f, 2);
        remove(path_of("a")), remove(path_of("b"));
    }
}

/* The header that it had before it was sealed is put back: it grows again, they say. */
static void test_header_of_before(void **state)
{
    size_t n;
    struct tamis_writer *w;
    struct tamis_writer_options opt = {
        .size = sizeof opt, .growth = {.first_capacity = 1000}, .domain = &domain};
    (void)state;
    assert_int_equal(tamis_writer_create(path_of("a"), &opt, &w, NULL), 0);
    add_hashes(w, keys[0], FEW);
    assert_int_equal(tamis_writer_commit(w, WATERMARK, NULL), 0);
    uint8_t *before = file_read(path_of("a"), &n);
    assert_int_equal(tamis_writer_seal(w, WATERMARK, NULL, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    struct tamis_filter *f[2] = {open_filter(path_of("a")),
                                 built("b", keys[1], FEW, 0.01)};
    file_poke(path_of("a"), 0, before, HEADER_MAX_BYTES);
    check_refused(f, TAMIS_ERR_UNFIT);
    close_all(f, 2);
    free(before);
}

/* Opened for a watermark that it has not reached it answers MAYBE, BEHIND. What is made
 * of its bits would answer ABSENT. */
static void test_behind(void **state)
{
    (void)state;
    struct tamis_filter_options opt = {.size = sizeof opt,
                                       .min_watermark = WATERMARK + 1};
    struct tamis_filter *f[2] = {NULL, built("b", keys[1], FEW, 0.01)};
    const char *path = build("a", keys[0], FEW, 0.01);
    assert_int_equal(tamis_filter_open(path, &opt, &f[0], NULL), 0);
    assert_int_equal(count_absent(f[0], keys[1], FEW), 0);
    check_refused(f, TAMIS_ERR_MISMATCH);
    tamis_filter_close(f[0]);
    opt.min_watermark = WATERMARK;
    assert_int_equal(tamis_filter_open(path, &opt, &f[0], NULL), 0);
    assert_int_equal(make(UNION, f, 2, path_of("out")), 0);
    close_all(f, 2);
}

/* ---- damage anywhere, before the files are opened and after ---- */

static void hurt(const char *path, uint64_t from)
{
    size_t n;
    uint8_t *bytes = file_read(path, &n);
    for (uint64_t times = random_below(3) + 1; times > 0; times--) {
        uint64_t at = from + random_below(n - from), length = random_below(600) + 1;
        if (length > n - at)
            length = n - at;
        memset(bytes + at, random_below(3) ? 0 : 0xff, length);
        if (random_below(2))
            bytes[at] ^= (uint8_t)(1 << random_below(8));
        file_poke(path, at, bytes + at, length);
    }
    free(bytes);
}

/* The keys that the result must have: keys[0] of an intersection are in both sources.
 */
static void check_keys(enum how how, const char *path)
{
    struct tamis_filter *f = open_filter(path);
    assert_int_equal(count_absent(f, keys[0], FEW), 0);
    if (how == UNION)
        assert_int_equal(count_absent(f, keys[1], FEW), 0);
    tamis_filter_close(f);
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
        check_keys(how, path_of("out"));
        ++*n_made;
    }
    close_all(f, 2);
    remove(path_of("a")), remove(path_of("b")), remove(path_of("out"));
}

static void test_damage_anywhere(void **state)
{
    (void)state;
    for (enum how how = UNION; how < HOWS; how++) {
        unsigned n_made = 0;
        for (int i = 0; i < 60; i++)
            try_damage(how, &n_made);
        assert_in_range(n_made, 10, 60);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, test_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_written_over),     TEST(test_header_of_the_same_name),
        TEST(test_header_of_before), TEST(test_behind),
        TEST(test_damage_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
