/* Opening and creating for writing: options and their ranges, one writer at a time,
 * space for what is there (R5). */
#include "tests/support/support.h"

#include <math.h>

enum { N_KEYS = 50 * 1000 };
static uint64_t keys[N_KEYS];

static int set_up(void **state)
{
    random_hashes(keys, N_KEYS);
    return test_dir_create(state);
}

/* ---- options ---- */

static void test_growth_is_checked(void **state)
{
    static const struct tamis_growth bad[] = {
        {.error = 0.51},
        {.error = 9e-9},
        {.error = -1},
        {.error = NAN},
        {.factor = 1.24},
        {.factor = 16.1},
        {.factor = -2},
        {.factor = INFINITY},
        {.tightening = 0.49},
        {.tightening = 0.951},
        {.tightening = NAN},
        {.first_capacity = (UINT64_C(1) << 32) + 1},
        {.first_capacity = ~0ULL}};
    struct tamis_writer *w;
    struct tamis_diag diag;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tamis_writer_options opt = {.size = sizeof opt, .growth = bad[i]};
        w = (void *)1;
        assert_int_equal(tamis_writer_create(path_of("bad"), &opt, &w, &diag),
                         TAMIS_ERR_RANGE);
        assert_null(w);
        assert_non_null(strstr(diag.what, "0.5..0.95"));
        assert_false(exists(path_of("bad")));
    }
    static const struct tamis_growth edges[] = {
        {0.5, 16, 0.5, 1}, {1e-8, 1.25, 0.95, 2}, {0, 0, 0, 0}};
    for (size_t i = 0; i < 3; i++) {
        struct tamis_writer_options opt = {.size = sizeof opt, .growth = edges[i]};
        assert_int_equal(tamis_writer_create(path_of("edge"), &opt, &w, NULL), 0);
        add_hashes(w, keys, 100);
        assert_int_equal(tamis_writer_close(w), 0);
        struct tamis_filter *f = open_filter(path_of("edge"));
        assert_int_equal(count_absent(f, keys, 100), 0);
        tamis_filter_close(f);
        unlink(path_of("edge"));
    }
}

static void test_defaults(void **state)
{
    struct tamis_filter_info info;
    struct tamis_writer *w;
    (void)state;
    assert_int_equal(tamis_writer_create(path_of("defaults"), NULL, &w, NULL), 0);
    assert_int_equal(tamis_writer_info(w, &info), 0);
    assert_true(info.growth.error == 0.01 && info.growth.factor == 1.9);
    assert_true(info.growth.tightening == 0.85);
    assert_int_equal(info.growth.first_capacity, 50000);
    assert_int_equal(info.name_bytes + info.binding_bytes, 0);
    assert_int_equal(tamis_writer_close(w), 0);
}

static void test_names_and_places(void **state)
{
    static const char name[8192] = "a name with a NUL in it";
    const struct tamis_writer_options good = {.size = sizeof good};
    struct tamis_domain odd = {.hash_id = 2, .seed = 5, .tag = 1};
    struct tamis_writer_options bad[6];
    struct tamis_writer *w;
    (void)state;
    for (size_t i = 0; i < 6; i++)
        bad[i] = good;
    bad[0].identity.name = "", bad[0].identity.name_bytes = 0;
    bad[1].identity.name = name, bad[1].identity.name_bytes = 256;
    bad[2].identity.name = name, bad[2].identity.name_bytes = 24;
    bad[3].identity.binding = name, bad[3].identity.binding_bytes = 65;
    bad[4].domain = &odd;
    bad[5].size = 1;
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(tamis_writer_create(path_of("bad"), &bad[i], &w, NULL),
                         TAMIS_ERR_RANGE);
    assert_int_equal(tamis_writer_create(path_of("no/dir"), NULL, &w, NULL), ENOENT);
    assert_int_equal(tamis_writer_create(test_dir, NULL, &w, NULL), TAMIS_ERR_EXISTS);
    file_write(path_of("taken"), name, sizeof name);
    size_t n_files = count_files(test_dir);
    assert_int_equal(tamis_writer_create(path_of("taken"), NULL, &w, NULL),
                     TAMIS_ERR_EXISTS);
    assert_null(w);
    assert_int_equal(count_files(test_dir), n_files);
    /* Opening never creates, and takes nothing else for a filter. */
    assert_int_equal(tamis_writer_open(path_of("none"), &w, NULL), ENOENT);
    assert_false(exists(path_of("none")));
    assert_int_equal(tamis_writer_open(path_of("taken"), &w, NULL),
                     TAMIS_ERR_NOT_TAMIS);
    assert_int_equal(tamis_writer_open(test_dir, &w, NULL), EISDIR);
}

/* Options just inside the limits, and a domain that is half right. */
static void test_the_limits_of_options(void **state)
{
    static const uint8_t binding[64] = {1, 2, 3, [63] = 64};
    struct tamis_domain domain, half;
    struct tamis_filter_info info;
    struct tamis_writer *w;
    (void)state;
    char name[255];
    memset(name, 'n', sizeof name);
    assert_int_equal(tamis_domain_init(&domain, 1, 77), 0);
    struct tamis_writer_options opt = {.size = sizeof opt,
                                       .domain = &domain,
                                       .identity.name = name,
                                       .identity.name_bytes = sizeof name,
                                       .identity.binding = binding,
                                       .identity.binding_bytes = sizeof binding};
    assert_int_equal(tamis_writer_create(path_of("limits"), &opt, &w, NULL), 0);
    assert_int_equal(tamis_writer_domain(w).tag, domain.tag);
    assert_int_equal(tamis_writer_close(w), 0);
    w = open_writer(path_of("limits"));
    assert_int_equal(tamis_writer_info(w, &info), 0);
    assert_int_equal(info.binding_bytes, sizeof binding);
    assert_memory_equal(info.binding, binding, sizeof binding);
    assert_int_equal(info.name_bytes, sizeof name);
    assert_int_equal(tamis_writer_close(w), 0);
    unlink(path_of("limits"));
    opt.domain = &half;
    half = domain, half.tag ^= 1; /* a known hash, not its tag */
    assert_int_equal(tamis_writer_create(path_of("limits"), &opt, &w, NULL),
                     TAMIS_ERR_RANGE);
    half = domain, half.hash_id = 2, half.tag = hash_domain_tag(2, 77);
    assert_int_equal(tamis_writer_create(path_of("limits"), &opt, &w, NULL),
                     TAMIS_ERR_RANGE);
    assert_false(exists(path_of("limits")));
}

/* A creation that any of its calls fails leaves nothing, and says which error it was.
 */
static void test_a_creation_that_fails(void **state)
{
    struct tamis_writer *w;
    (void)state;
    size_t n_files = count_files(test_dir);
    for (int call = 0; call < N_CALLS; call++) {
        unsigned long nth = 0;
        int err;
        do {
            fail_never();
            fail_once((enum call)call, ++nth, call == CALL_FALLOCATE ? ENOSPC : EIO);
            err = tamis_writer_create(path_of("failing"), NULL, &w, NULL);
            if (err) {
                assert_int_equal(err, faults[call].error);
                assert_null(w);
                if (exists(path_of("failing"))) { /* created, but not opened */
                    fail_never();
                    assert_int_equal(
                        tamis_writer_close(open_writer(path_of("failing"))), 0);
                    unlink(path_of("failing"));
                }
                assert_int_equal(count_files(test_dir), n_files);
            }
        } while (err);
        assert_true(nth > 1); /* there was such a call */
        fail_never();
        assert_int_equal(tamis_writer_close(w), 0);
        unlink(path_of("failing"));
    }
}

/* A built filter is a sealed one. */
static void test_built_filters_take_no_writer(void **state)
{
    struct tamis_builder *b;
    struct tamis_writer *w;
    (void)state;
    assert_int_equal(tamis_builder_create(NULL, &b, NULL), 0);
    assert_int_equal(tamis_builder_finish_file(b, path_of("built"), NULL), 0);
    tamis_builder_free(b);
    assert_int_equal(tamis_writer_open(path_of("built"), &w, NULL), TAMIS_ERR_SEALED);
}

/* ---- one writer ---- */

static void test_second_writer_is_told_who_holds_it(void **state)
{
    struct tamis_writer *w = create_writer(path_of("busy"), 0.01, 2, 1000), *second;
    struct tamis_diag diag;
    char pid[32];
    (void)state;
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    for (int i = 0; i < 2; i++) {
        second = (void *)1;
        assert_int_equal(tamis_writer_open(path_of("busy"), &second, &diag),
                         TAMIS_ERR_BUSY);
        assert_null(second);
        assert_non_null(strstr(diag.what, pid));
        assert_non_null(strstr(diag.file, "busy"));
    }
    add_hashes(w, keys, 100); /* the first goes on */
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    assert_int_equal(tamis_writer_close(open_writer(path_of("busy"))), 0);
}

static int open_in_child(void *ctx)
{
    struct tamis_writer *w;
    int err = tamis_writer_open(path_of("other"), &w, NULL);
    return err == (*(int *)ctx) ? 0 : 1;
}

static void test_writers_of_two_processes(void **state)
{
    struct tamis_writer *w = create_writer(path_of("other"), 0.01, 2, 1000);
    (void)state;
    in_child(open_in_child, &(int){TAMIS_ERR_BUSY});
    assert_int_equal(tamis_writer_close(w), 0);
    in_child(open_in_child, &(int){0}); /* and it ends without closing */
    assert_int_equal(tamis_writer_close(open_writer(path_of("other"))), 0);
}

/* ---- the required watermark ---- */

/* A copy with holes: the space comes first, or an error before anything is written. */
static void test_a_copy_with_holes(void **state)
{
    const char *path = path_of("holed");
    struct tamis_writer *w = create_writer(path, 0.01, 2, 10000);
    struct tamis_diag diag;
    struct stat st;
    (void)state;
    assert_int_equal(tamis_writer_close(w), 0);
    struct commit c = commit_of(path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               (off_t)c.stages[0].offset, (off_t)c.stages[0].length),
                     0);
    fail_never(); /* counts anew */
    fail_from_now(CALL_FALLOCATE, ENOSPC);
    assert_int_equal(tamis_writer_open(path, &w, &diag), ENOSPC);
    assert_non_null(strstr(diag.what, "space"));
    assert_int_equal(faults[CALL_PWRITE].n, 0);
    assert_int_equal(commit_of(path).sequence, c.sequence);
    /* A file system that can't be asked is no reason to stop. */
    fail_from_now(CALL_FALLOCATE, EOPNOTSUPP);
    w = open_writer(path);
    assert_int_equal(tamis_writer_close(w), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_true((uint64_t)st.st_blocks * 512 < c.stages[0].length);
    fail_never();
    w = open_writer(path);
    assert_int_equal(fstat(fd, &st), 0);
    assert_true((uint64_t)st.st_blocks * 512 >= c.stages[0].length);
    add_hashes(w, keys, 10000);
    assert_int_equal(tamis_writer_close(w), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growth_is_checked),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_names_and_places),
        cmocka_unit_test(test_the_limits_of_options),
        TEST_WITH_FAULTS(test_a_creation_that_fails),
        TEST_WITH_FAULTS(test_a_copy_with_holes),
        cmocka_unit_test(test_built_filters_take_no_writer),
        cmocka_unit_test(test_second_writer_is_told_who_holds_it),
        cmocka_unit_test(test_writers_of_two_processes),
    };
    return cmocka_run_group_tests(tests, set_up, test_dir_remove);
}
