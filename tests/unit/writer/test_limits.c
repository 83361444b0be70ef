/* Where numbers end: stages that no file has room for, as many stages as a filter can
 * have, mappings of no size, options, names and paths at and past their limits. */
#include "tests/support/support.h"
#include "lib/writer/inside.h"

#include <limits.h>
#include <sys/mman.h>

enum { N_KEYS = 4000 };
static uint64_t keys[N_KEYS];
static const struct tamis_growth growth = {0.01, 2, 0.85, 1000};

static int set_up(void **state)
{
    random_hashes(keys, N_KEYS);
    return test_dir_create(state);
}

/* ---- places of stages ---- */

static void test_stages_past_the_end_of_any_file(void **state)
{
    struct stage_desc d;
    (void)state;
    assert_int_equal(stage_plan(&growth, 0, 12288, &d), 0);
    assert_int_equal(d.offset, 12288);
    uint64_t end = d.floors_offset + floors_bytes(d.length / PAGE_BYTES),
             size = end - 12288;

    /* The last place that there is, and the first that there is not. */
    uint64_t last = ((uint64_t)INT64_MAX - size) / PAGE_BYTES * PAGE_BYTES;
    assert_int_equal(stage_plan(&growth, 0, last, &d), 0);
    assert_int_equal(d.offset, last);
    const uint64_t ends[] = {
        last + 1,                               /* its floors end past 2^63 - 1 */
        UINT64_C(1) << 63,                      /* it begins there */
        UINT64_MAX - PAGE_BYTES + 1 - d.length, /* its floors pass 2^64 */
        UINT64_MAX - PAGE_BYTES + 1,            /* its bits do */
        UINT64_MAX,                             /* so does its offset */
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        assert_int_equal(stage_plan(&growth, 0, ends[i], &d), TAMIS_ERR_TOO_LARGE);
}

static void test_large_stages_begin_at_the_next_page(void **state)
{
    const struct tamis_growth large = {0.01, 2, 0.85, 3 * 1000 * 1000};
    struct stage_desc d;
    (void)state;
    assert_int_equal(stage_plan(&large, 0, 12288, &d), 0);
    assert_true(d.length >= HUGE_PAGE_BYTES);
    assert_int_equal(d.offset, 12288);
    assert_int_equal(stage_plan(&large, 0, HUGE_PAGE_BYTES + 1, &d), 0);
    assert_int_equal(d.offset, HUGE_PAGE_BYTES + PAGE_BYTES);
}

static void test_mappings_of_no_size(void **state)
{
    struct mapping m;
    (void)state;
    file_write(path_of("some"), keys, sizeof keys);
    int fd = open(path_of("some"), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    const uint64_t none[] = {0, UINT64_MAX, UINT64_MAX - PAGE_BYTES + 2};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_int_equal(map_file(fd, 0, none[i], false, NULL, &m), EOVERFLOW);
        assert_null(m.address);
        map_drop(&m);
    }
    close(fd);
}

/* ---- a writer that cannot grow ---- */

/* A sparse file in memory, as long as files get: nothing can be appended. */
static struct tamis_writer *open_longest(uint64_t first_capacity)
{
    char path[64];
    size_t n;
    tamis_writer_close(create_writer(path_of("short"), 0.01, 2, first_capacity));
    uint8_t *bytes = file_read(path_of("short"), &n);
    unlink(path_of("short"));
    int fd = memfd_create("tamis-test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, n, 0), (ssize_t)n);
    free(bytes);
    assert_int_equal(ftruncate(fd, INT64_MAX - PAGE_BYTES), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct tamis_writer *w = open_writer(path);
    close(fd);
    return w;
}

/* R10: a stage that cannot have a successor takes the keys all the same. */
static void test_no_room_for_another_stage(void **state)
{
    struct tamis_filter_info info;
    (void)state;
    struct tamis_writer *w = open_longest(1000);
    add_hashes(w, keys, N_KEYS); /* three stages' worth, and more after the failure */
    assert_int_equal(tamis_writer_commit(w, 1, NULL), 0);
    add_hashes(w, keys, N_KEYS);
    assert_int_equal(tamis_writer_info(w, &info), 0);
    assert_int_equal(info.n_stages, 1);
    assert_true(info.keys > 2000);
    assert_int_equal(writer_grow(w), TAMIS_ERR_TOO_LARGE);
    for (size_t i = 0; i < N_KEYS; i++)
        assert_int_equal(stage_probe(&w->stages[0]->stage, w->kernel, keys[i]),
                         TAMIS_HIT);
    assert_int_equal(tamis_writer_close(w), 0);
}

/* Nor for digests: the filter stays open as it was, and goes on. */
static void test_no_room_for_digests(void **state)
{
    uint64_t n_damaged;
    struct tamis_diag diag;
    (void)state;
    struct tamis_writer *w = open_longest(20000);
    assert_true(w->stages[0]->stage.n_pages > 1); /* one has its digest in the record */
    add_hashes(w, keys, 500);
    assert_int_equal(tamis_writer_seal(w, 1, &n_damaged, &diag), EFBIG);
    assert_int_equal(n_damaged, 0);
    add_hashes(w, keys + 500, 500);
    assert_int_equal(tamis_writer_commit(w, 2, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
}

/* As many stages as there can be; then the last one takes whatever comes. That each is
 * full is pretended, or it would take millions of keys. */
static void test_as_many_stages_as_can_be(void **state)
{
    struct tamis_filter_info info;
    const char *path = path_of("stages");
    (void)state;
    struct tamis_writer *w = create_writer(path, 0.000001, 1.25, 1);
    for (uint32_t i = 0; i < MAX_STAGES; i++) {
        add_hashes(w, keys + i * 10, 10);
        assert_int_equal(tamis_writer_info(w, &info), 0);
        w->stages[info.n_stages - 1]->n_full_bits = 0;
        assert_int_equal(writer_grow(w), 0);
    }
    assert_int_equal(tamis_writer_info(w, &info), 0);
    assert_int_equal(info.n_stages, MAX_STAGES);
    uint64_t n_bytes = info.file_bytes;
    assert_int_equal(writer_grow(w), 0);
    add_hashes(w, keys + MAX_STAGES * 10, 100);
    assert_int_equal(tamis_writer_info(w, &info), 0);
    assert_int_equal(info.n_stages, MAX_STAGES);
    assert_int_equal(info.file_bytes, n_bytes);
    assert_int_equal(tamis_writer_close(w), 0);

    struct tamis_filter *f = open_filter(path);
    assert_int_equal(ask(f, 1, NULL), TAMIS_ABSENT); /* first lanes are checked */
    assert_int_equal(count_absent(f, keys, MAX_STAGES * 10 + 100), 0);
    tamis_filter_close(f);
    w = open_writer(path);
    add_hashes(w, keys + 2000, 1000);
    assert_int_equal(tamis_writer_seal(w, 1, NULL, NULL), 0);
    assert_int_equal(tamis_writer_close(w), 0);
    f = open_filter(path);
    assert_int_equal(count_absent(f, keys + 2000, 1000), 0);
    tamis_filter_close(f);
}

/* ---- options and names ---- */

static void test_unknown_hashes_are_refused(void **state)
{
    struct tamis_domain domain = {99, 7, hash_domain_tag(99, 7)};
    struct tamis_writer_options wo = {.size = sizeof wo, .domain = &domain};
    struct tamis_builder_options bo = {.size = sizeof bo, .domain = &domain};
    struct tamis_writer *w;
    struct tamis_builder *b;
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tamis_writer_create(path_of("f"), &wo, &w, NULL),
                         TAMIS_ERR_RANGE);
        assert_int_equal(tamis_builder_create(&bo, &b, NULL), TAMIS_ERR_RANGE);
        assert_null(w);
        assert_null(b);
        domain.hash_id = HASH_XXH3_64; /* with the other one's tag */
    }
    assert_false(exists(path_of("f")));
}

static void test_no_name_for_a_file(void **state)
{
    char name[NAME_MAX + 2];
    struct tamis_writer *w;
    struct tamis_diag diag;
    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_int_equal(tamis_writer_create(path_of(name), NULL, &w, &diag), ENAMETOOLONG);
    assert_non_null(strstr(diag.what, "not a name"));
    assert_int_equal(tamis_writer_create(path_of(""), NULL, &w, &diag), EISDIR);
    assert_non_null(strstr(diag.what, "not a name"));
    assert_int_equal(tamis_writer_create(path_of("none/f"), NULL, &w, &diag), ENOENT);
    assert_non_null(strstr(diag.what, "directory"));
    assert_null(w);
}

/* No limit, and a spool that is never needed for it; no name for the spool's place is
 * as if none were given. */
static void test_a_builder_of_any_memory(void **state)
{
    struct tamis_builder_options opt = {
        .size = sizeof opt, .memory_limit = UINT64_MAX, .spool_dir = ""};
    struct tamis_builder *b;
    (void)state;
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    assert_int_equal(
        tamis_builder_add_hashes(b, tamis_builder_domain(b).tag, keys, N_KEYS), 0);
    assert_int_equal(tamis_builder_finish_file(b, path_of("any"), NULL), 0);
    tamis_builder_free(b);
    struct tamis_filter *f = open_filter(path_of("any"));
    assert_int_equal(count_absent(f, keys, N_KEYS), 0);
    tamis_filter_close(f);

    opt.memory_limit = 1;
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    assert_int_equal(
        tamis_builder_add_hashes(b, tamis_builder_domain(b).tag, keys, N_KEYS), 0);
    tamis_builder_free(b);
}

/* Half of the keys would be a lie, in the engine's file as in one of ours. */
static void test_a_failed_builder_embeds_nothing(void **state)
{
    struct tamis_builder_options opt = {
        .size = sizeof opt, .memory_limit = 1, .spool_dir = "/nowhere/at/all"};
    struct tamis_builder *b;
    uint64_t n_bytes = 1;
    (void)state;
    file_write(path_of("engine"), "", 0);
    int fd = open(path_of("engine"), O_RDWR | O_CLOEXEC);
    assert_int_equal(tamis_builder_create(&opt, &b, NULL), 0);
    assert_int_equal(
        tamis_builder_add_hashes(b, tamis_builder_domain(b).tag, keys, N_KEYS), ENOENT);
    assert_int_equal(tamis_builder_finish_fd(b, fd, 0, &n_bytes, NULL), ENOENT);
    assert_int_equal(n_bytes, 0);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 0);
    tamis_builder_free(b);
    close(fd);
}

/* A newer tamis's file, and numbers that no writer reaches. */
static void test_records_that_forbid_writing(void **state)
{
    struct tamis_writer *w;
    const char *path = path_of("newer");
    uint8_t raw[SLOT_BYTES];
    (void)state;
    for (int i = 0; i < 3; i++) {
        tamis_writer_close(create_writer(path, 0.01, 2, 1000));
        struct commit c = commit_of(path);
        c.sequence = i == 1 ? UINT64_C(1) << 63 : c.sequence + 1;
        if (i == 0)
            c.ro_compat = 1u << 31;
        if (i == 2)
            c.generation = UINT64_C(1) << 63;
        commit_encode(&c, SLOT_A, raw);
        file_poke(path, commit_slot_offset(SLOT_A), raw, sizeof raw);
        assert_int_equal(tamis_writer_open(path, &w, NULL),
                         i == 0 ? TAMIS_ERR_VERSION : TAMIS_ERR_DAMAGED);
        assert_null(w);
        tamis_filter_close(open_filter(path)); /* reading is allowed */
        unlink(path);
    }
}

/* ---- plans ---- */

static void test_plans_of_no_such_size(void **state)
{
    const struct tamis_growth wild = {0.9, 2, 0.85, 1000};
    struct tamis_plan plan;
    struct tamis_classic classic;
    (void)state;
    /* One page has room for one lane; and for 2^60 bytes there are not enough. */
    assert_int_equal(tamis_plan_within(PAGE_BYTES, 1000, 0, &plan), 0);
    assert_int_equal(plan.lanes, 1);
    assert_int_equal(tamis_plan_within(UINT64_C(1) << 60, 1000, 0, &plan),
                     TAMIS_ERR_TOO_LARGE);
    assert_int_equal(tamis_plan_within(UINT64_C(1) << 60, 0, 0.01, &plan),
                     TAMIS_ERR_TOO_LARGE);
    assert_int_equal(tamis_plan_stage(&wild, 0, &plan), TAMIS_ERR_RANGE);
    assert_int_equal(tamis_plan_classic(UINT64_MAX / 8 + 1, 0.01, &classic),
                     TAMIS_ERR_RANGE);
    assert_int_equal(tamis_plan_classic(1, 0.001, &classic), TAMIS_ERR_RANGE);
}

/* ---- readers ---- */

static void test_readers_of_no_such_thing(void **state)
{
    struct {
        struct tamis_filter_options known;
        uint64_t newer;
    } opt = {{.size = sizeof opt}, 1};
    struct tamis_domain domain;
    struct tamis_filter *f;
    uint64_t absent = 1;
    enum tamis_reason why = TAMIS_HIT;
    (void)state;
    assert_int_equal(tamis_domain_init(&domain, 99, 7), TAMIS_ERR_RANGE);
    tamis_writer_close(create_writer(path_of("read"), 0.01, 2, 1000));
    assert_int_equal(tamis_filter_open(path_of("read"), &opt.known, &f, NULL),
                     TAMIS_ERR_RANGE);
    assert_null(f);
    int fd = open(path_of("read"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(tamis_filter_open_fd(fd, 1, PAGE_BYTES, NULL, &f, NULL),
                     TAMIS_ERR_RANGE);
    assert_null(f);
    close(fd);
    assert_int_equal(tamis_filter_probe_batch(NULL, 1, keys, 1, &absent, &why), 0);
    assert_int_equal(absent, 0);
    assert_int_equal(why, TAMIS_UNREADABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_past_the_end_of_any_file),
        cmocka_unit_test(test_large_stages_begin_at_the_next_page),
        cmocka_unit_test(test_mappings_of_no_size),
        cmocka_unit_test(test_no_room_for_another_stage),
        cmocka_unit_test(test_no_room_for_digests),
        TEST_WITH_FAULTS(test_as_many_stages_as_can_be),
        cmocka_unit_test(test_unknown_hashes_are_refused),
        cmocka_unit_test(test_no_name_for_a_file),
        cmocka_unit_test(test_a_builder_of_any_memory),
        cmocka_unit_test(test_a_failed_builder_embeds_nothing),
        cmocka_unit_test(test_records_that_forbid_writing),
        cmocka_unit_test(test_plans_of_no_such_size),
        cmocka_unit_test(test_readers_of_no_such_thing),
    };
    return cmocka_run_group_tests(tests, set_up, test_dir_remove);
}
