/* Filters made from filters, where that does not go well: damaged sources cost no key,
 * what cannot be combined is refused, and a disk that fails leaves nothing. */
#include "tests/support/algebra_support.h"

#include <limits.h>

/* ---- damage ---- */

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
            remove(path_of(name));
        }
        forget();
    }
}

/* ---- refusals ---- */

static void refused(struct tamis_filter **f, size_t n, int code)
{
    enum tamis_answer answer;
    const char *out = "refused";
    IS(intersect(f, n, out), code);
    IS(derive_diag.code, code);
    assert_true(derive_diag.what[0] != 0);
    if (n == 2)
        IS(tamis_filter_contains(f[0], f[1], &answer, NULL), code);
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
    IS(unite(&a, 1, "there"), TAMIS_ERR_EXISTS);
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

/* A disk that fails leaves no file, nor a part of one. */
TEST_WITH_KEYS(test_failing_disk)
{
    faults_on(state);
    struct tamis_filter *a = built("a", keys[0], N, 0.01);
    size_t before = count_files(test_dir);
    for (unsigned long nth = 1; nth <= 3; nth++) {
        fail_once(CALL_PWRITE, nth, EIO);
        IS(unite(&a, 1, "u"), EIO);
        IS(count_files(test_dir), before);
    }
    asks_no_report = true;
    fail_once(CALL_FSYNC, 1, ENOSPC);
    IS(unite(&a, 1, "u"), ENOSPC);
    /* The directory's; then it has its name already. */
    fail_once(CALL_FSYNC, 2, EIO);
    IS(unite(&a, 1, "u"), EIO);
    IS(count_files(test_dir), before);
    fail_never();
    fail_once(CALL_RENAME, 1, EACCES);
    IS(unite(&a, 1, "u"), EACCES);
    /* One of this name has come meanwhile. */
    fail_once(CALL_RENAME, 1, EEXIST);
    IS(unite(&a, 1, "u"), TAMIS_ERR_EXISTS);
    IS(count_files(test_dir), before);
    OK(unite(&a, 1, "u"));
    asks_no_report = false;
    faults_off(state);
}

RUN_TESTS(NULL, NULL)
