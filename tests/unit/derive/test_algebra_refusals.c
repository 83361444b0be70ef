/* Filters made from filters, where that does not go well: damaged sources cost no key,
 * what cannot be combined is refused, and a disk that fails leaves nothing. */
#include "tests/support/algebra_support.h"

#include <limits.h>
#include <math.h>

/* ---- damage ---- */

/* In every mode, none too, which trusts the medium for its own probes only. */
static void test_damaged_sources(void **state)
{
    struct tamis_derive_report report;
    (void)state;
    for (int mode = TAMIS_CHECK_LAZY; mode <= TAMIS_CHECK_NONE; mode++) {
        struct tamis_filter_options opt = {.size = sizeof opt,
                                           .check = (enum tamis_check)mode};
        struct tamis_filter *f[2];
        build("a", keys[0], N, 0.01), build("b", keys[0], N, 0.01);
        if (mode != TAMIS_CHECK_FULL)
            flip_pages(path_of("a"), 3), flip_pages(path_of("b"), 2);
        assert_int_equal(tamis_filter_open(path_of("a"), &opt, &f[0], NULL), 0);
        assert_int_equal(tamis_filter_open(path_of("b"), &opt, &f[1], NULL), 0);
        assert_int_equal(tamis_filter_derive(
                             f, 2, &(struct tamis_derivation){.operation = TAMIS_UNION},
                             path_of("u"), NULL, &report, NULL),
                         0);
        assert_int_equal(report.n_damaged > 0, mode != TAMIS_CHECK_FULL);
        assert_int_equal(
            tamis_filter_derive(
                f, 2, &(struct tamis_derivation){.operation = TAMIS_INTERSECTION},
                path_of("i"), NULL, &report, NULL),
            0);
        assert_int_equal(tamis_filter_derive(&f[0], 1,
                                             &(struct tamis_derivation){
                                                 .operation = TAMIS_FOLD, .factor = 2},
                                             path_of("f"), NULL, &report, NULL),
                         0);
        assert_int_equal(report.n_damaged > 0, mode != TAMIS_CHECK_FULL);
        for (const char *out = "uif"; *out; out++) {
            char name[2] = {*out, 0};
            check_whole(path_of(name));
            check_present(path_of(name), keys[0], N);
            remove(path_of(name));
        }
        close_all(f, 2);
        remove(path_of("a")), remove(path_of("b"));
    }
}

/* ---- refusals ---- */

static void refused(struct tamis_filter **f, size_t n, int code)
{
    struct tamis_diag diag;
    enum tamis_answer answer;
    const char *out = path_of("refused");
    assert_int_equal(
        tamis_filter_derive(f, n,
                            &(struct tamis_derivation){.operation = TAMIS_INTERSECTION},
                            out, NULL, NULL, &diag),
        code);
    assert_int_equal(diag.code, code);
    assert_true(diag.what[0] != 0);
    if (n == 2)
        assert_int_equal(tamis_filter_contains(f[0], f[1], &answer, NULL), code);
    assert_false(exists(out));
}

static void test_refusals(void **state)
{
    struct tamis_domain before = domain;
    struct tamis_filter *a = built("a", keys[0], N, 0.01);
    struct tamis_filter *shape = built("shape", keys[0], N, 0.0001);
    struct tamis_filter *stages = grown("stages", keys[0], N);
    tamis_domain_init(&domain, 1, 43);
    struct tamis_filter *seed = built("seed", keys[0], N, 0.01);
    domain = before;
    (void)state;
    struct tamis_writer *w = create_writer(path_of("open"), 0.01, 2, 1000);
    struct tamis_filter *open = open_filter(path_of("open"));
    refused((struct tamis_filter *[]){a, shape}, 2, TAMIS_ERR_UNFIT);
    refused((struct tamis_filter *[]){shape, a}, 2, TAMIS_ERR_UNFIT);
    refused((struct tamis_filter *[]){a, stages}, 2, TAMIS_ERR_UNFIT);
    refused((struct tamis_filter *[]){stages, stages}, 2, TAMIS_ERR_UNFIT);
    refused((struct tamis_filter *[]){a, seed}, 2, TAMIS_ERR_MISMATCH);
    refused((struct tamis_filter *[]){open}, 1, TAMIS_ERR_UNFIT);
    refused(NULL, 0, TAMIS_ERR_RANGE);
    refused((struct tamis_filter *[]){a, NULL}, 2, TAMIS_ERR_RANGE);
    assert_int_equal(
        tamis_filter_derive(
            &a, 1, &(struct tamis_derivation){.operation = TAMIS_FOLD, .factor = 0},
            path_of("x"), NULL, NULL, NULL),
        TAMIS_ERR_UNFIT);
    for (size_t i = 0; i < 4; i++) {
        static const double bad[] = {0, -1, 0.6, NAN};
        assert_int_equal(
            tamis_filter_derive(
                &a, 1,
                &(struct tamis_derivation){.operation = TAMIS_SHRINK, .error = bad[i]},
                path_of("x"), NULL, NULL, NULL),
            TAMIS_ERR_RANGE);
    }
    assert_int_equal(
        tamis_filter_derive(
            &a, 1, &(struct tamis_derivation){.operation = TAMIS_SHRINK, .error = 1e-6},
            path_of("x"), NULL, NULL, NULL),
        TAMIS_ERR_UNFIT);
    /* A file that is there already stays as it is. */
    file_write(path_of("there"), "x", 1);
    assert_int_equal(
        tamis_filter_derive(&a, 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            path_of("there"), NULL, NULL, NULL),
        TAMIS_ERR_EXISTS);
    size_t n;
    uint8_t *bytes = file_read(path_of("there"), &n);
    assert_int_equal(n, 1);
    free(bytes);
    struct tamis_filter *all[] = {a, shape, stages, seed, open};
    close_all(all, 5);
    tamis_writer_close(w);
}

static void test_options(void **state)
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
    struct tamis_diag diag;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(
            tamis_filter_derive(&a, 1,
                                &(struct tamis_derivation){.operation = TAMIS_UNION},
                                path_of("u"), &bad[i], NULL, NULL),
            TAMIS_ERR_RANGE);
    assert_int_equal(tamis_filter_derive(
                         NULL, 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                         path_of("u"), NULL, NULL, NULL),
                     TAMIS_ERR_RANGE);
    assert_int_equal(
        tamis_filter_derive(&a, SIZE_MAX,
                            &(struct tamis_derivation){.operation = TAMIS_UNION},
                            path_of("u"), NULL, NULL, NULL),
        TAMIS_ERR_RANGE);
    assert_int_equal(
        tamis_filter_derive(&a, 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            NULL, NULL, NULL, &diag),
        TAMIS_ERR_RANGE);
    /* A directory, a name that is none, one that there is no room for. */
    snprintf(long_name, sizeof long_name, "%s/%0*d", test_dir, 300, 0);
    assert_int_equal(
        tamis_filter_derive(&a, 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            test_dir, NULL, NULL, &diag),
        TAMIS_ERR_EXISTS);
    assert_int_equal(
        tamis_filter_derive(&a, 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            path_of("x/"), NULL, NULL, &diag),
        EISDIR);
    assert_non_null(strstr(diag.what, "not a name"));
    assert_int_equal(
        tamis_filter_derive(&a, 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            long_name, NULL, NULL, &diag),
        ENAMETOOLONG);
    assert_int_equal(
        tamis_filter_derive(&a, 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            path_of("no/x"), NULL, NULL, &diag),
        ENOENT);
    assert_int_equal(count_files(test_dir), 1);
    tamis_filter_close(a);
}

/* No operation, one that there is not, and a fold of none or of two. */
static void test_derivations(void **state)
{
    static const struct tamis_derivation none = {.operation = (enum tamis_operation)4},
                                         fold = {.operation = TAMIS_FOLD, .factor = 1},
                                         shrink = {.operation = TAMIS_SHRINK,
                                                   .error = 0.5};
    struct tamis_filter *a = built("a", keys[0], 100, 0.01);
    struct tamis_filter *two[] = {a, a};
    struct tamis_diag diag;
    const char *to = path_of("u");
    (void)state;
    assert_int_equal(tamis_filter_derive(&a, 1, NULL, to, NULL, NULL, &diag),
                     TAMIS_ERR_RANGE);
    assert_non_null(strstr(diag.what, "no such derivation"));
    assert_int_equal(tamis_filter_derive(&a, 1, &none, to, NULL, NULL, NULL),
                     TAMIS_ERR_RANGE);
    assert_int_equal(tamis_filter_derive(two, 2, &fold, to, NULL, NULL, &diag),
                     TAMIS_ERR_RANGE);
    assert_non_null(strstr(diag.what, "one source, not 2"));
    assert_int_equal(tamis_filter_derive(two, 2, &shrink, to, NULL, NULL, NULL),
                     TAMIS_ERR_RANGE);
    assert_int_equal(tamis_filter_derive(&a, 0, &fold, to, NULL, NULL, NULL),
                     TAMIS_ERR_RANGE);
    assert_int_equal(count_files(test_dir), 1);
    tamis_filter_close(a);
}

/* A disk that fails leaves no file, nor a part of one. */
static void test_failing_disk(void **state)
{
    struct tamis_filter *a = built("a", keys[0], N, 0.01);
    size_t before = count_files(test_dir);
    (void)state;
    for (unsigned long nth = 1; nth <= 3; nth++) {
        fail_once(CALL_PWRITE, nth, EIO);
        assert_int_equal(
            tamis_filter_derive(&a, 1,
                                &(struct tamis_derivation){.operation = TAMIS_UNION},
                                path_of("u"), NULL, NULL, NULL),
            EIO);
        assert_int_equal(count_files(test_dir), before);
    }
    fail_once(CALL_FSYNC, 1, ENOSPC);
    assert_int_equal(
        tamis_filter_derive(&a, 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            path_of("u"), NULL, NULL, NULL),
        ENOSPC);
    /* The directory's; then it has its name already. */
    fail_once(CALL_FSYNC, 2, EIO);
    assert_int_equal(
        tamis_filter_derive(&a, 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            path_of("u"), NULL, NULL, NULL),
        EIO);
    assert_int_equal(count_files(test_dir), before);
    fail_never();
    fail_once(CALL_RENAME, 1, EACCES);
    assert_int_equal(
        tamis_filter_derive(&a, 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            path_of("u"), NULL, NULL, NULL),
        EACCES);
    /* One of this name has come meanwhile. */
    fail_once(CALL_RENAME, 1, EEXIST);
    assert_int_equal(
        tamis_filter_derive(&a, 1, &(struct tamis_derivation){.operation = TAMIS_UNION},
                            path_of("u"), NULL, NULL, NULL),
        TAMIS_ERR_EXISTS);
    assert_int_equal(count_files(test_dir), before);
    tamis_filter_close(a);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, test_dir_remove)

static int set_up_faults(void **state)
{
    return set_up(state) || faults_on(state);
}

static int tear_down_faults(void **state)
{
    return faults_off(state) || test_dir_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_damaged_sources),
        TEST(test_refusals),
        TEST(test_options),
        TEST(test_derivations),
        cmocka_unit_test_setup_teardown(test_failing_disk, set_up_faults,
                                        tear_down_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
