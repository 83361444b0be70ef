/* Where numbers end: stages that no file has room for, as many stages as a filter can
 * have, mappings of no size, options, names and paths at and past their limits. */
#include "tests/support/filters.h"
#include "lib/writer/inside.h"

enum { N_KEYS = 4000 };
static uint64_t keys[N_KEYS];
static const struct tamis_growth growth = {0.01, 2, 0.85, 1000};

SET_UP(test_dir_create, random_hashes(keys, N_KEYS))

/* ---- places of stages ---- */

TEST(test_stages_past_the_end_of_any_file)
{
    struct stage_desc d;
    IS(stage_plan(&growth, 0, 12288, &d), 0);
    IS(d.offset, 12288);
    uint64_t end = d.floors_offset + floors_bytes(d.length / PAGE_BYTES),
             size = end - 12288;

    /* The last place that there is, and the first that there is not. */
    uint64_t last = ((uint64_t)INT64_MAX - size) / PAGE_BYTES * PAGE_BYTES;
    IS(stage_plan(&growth, 0, last, &d), 0);
    IS(d.offset, last);
    const uint64_t ends[] = {
        last + 1,                               /* its floors end past 2^63 - 1 */
        UINT64_C(1) << 63,                      /* it begins there */
        UINT64_MAX - PAGE_BYTES + 1 - d.length, /* its floors pass 2^64 */
        UINT64_MAX - PAGE_BYTES + 1,            /* its bits do */
        UINT64_MAX,                             /* so does its offset */
    };
    for (size_t i = 0; i < N_OF(ends); i++)
        IS(stage_plan(&growth, 0, ends[i], &d), TAMIS_ERR_TOO_LARGE);
}

TEST(test_large_stages_begin_at_the_next_page)
{
    const struct tamis_growth large = {0.01, 2, 0.85, 3 * 1000 * 1000};
    struct stage_desc d;
    IS(stage_plan(&large, 0, 12288, &d), 0);
    assert_true(d.length >= HUGE_PAGE_BYTES);
    IS(d.offset, 12288);
    IS(stage_plan(&large, 0, HUGE_PAGE_BYTES + 1, &d), 0);
    IS(d.offset, HUGE_PAGE_BYTES + PAGE_BYTES);
}

TEST(test_mappings_of_no_size)
{
    struct mapping m;
    file_write(path_of("some"), keys, sizeof keys);
    FD fd = open_to_read(path_of("some"));
    const uint64_t none[] = {0, UINT64_MAX, UINT64_MAX - PAGE_BYTES + 2};
    for (size_t i = 0; i < N_OF(none); i++) {
        IS(map_file(fd, 0, none[i], false, NULL, &m), EOVERFLOW);
        assert_null(m.address);
        map_drop(&m);
    }
}

/* ---- a writer that cannot grow ---- */

/* A sparse file in memory, as long as files get: nothing can be appended. */
static struct tamis_writer *open_longest(uint64_t first_capacity)
{
    char path[64];
    size_t n;
    tamis_writer_close(create_writer(path_of("short"), 0.01, 2, first_capacity), NULL);
    uint8_t *bytes = file_read(path_of("short"), &n);
    unlink(path_of("short"));
    FD fd = memfd_create("tamis-test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    IS(pwrite(fd, bytes, n, 0), (ssize_t)n);
    free(bytes);
    OK(ftruncate(fd, INT64_MAX - PAGE_BYTES));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open_writer(path);
}

/* R10: a stage that cannot have a successor takes the keys all the same. */
TEST(test_no_room_for_another_stage)
{
    WRITER w = open_longest(1000);
    add_hashes(w, keys, N_KEYS); /* three stages' worth, and more after the failure */
    OK(tamis_writer_commit(w, 1, NULL));
    add_hashes(w, keys, N_KEYS);
    struct tamis_filter_info info = writer_info(w);
    IS(info.n_stages, 1);
    assert_true(info.keys > 2000);
    IS(writer_grow(w), TAMIS_ERR_TOO_LARGE);
    for (size_t i = 0; i < N_KEYS; i++)
        IS(stage_probe(&w->stages[0]->stage, w->kernel, keys[i]), TAMIS_HIT);
}

/* Without room for digests the filter stays open as it was, and goes on. */
TEST(test_no_room_for_digests)
{
    uint64_t n_damaged;
    struct tamis_diag diag;
    WRITER w = open_longest(20000);
    assert_true(w->stages[0]->stage.n_pages > 1); /* one has its digest in the record */
    add_hashes(w, keys, 500);
    IS(tamis_writer_seal(w, 1, &n_damaged, &diag), EFBIG);
    IS(n_damaged, 0);
    add_hashes(w, keys + 500, 500);
    OK(tamis_writer_commit(w, 2, NULL));
}

/* As many stages as there can be; then the last one takes all keys. The test pretends
 * that each stage is full, or it would take millions of keys. */
TEST_WITH_FAULTS(test_as_many_stages_as_can_be)
{
    const char *path = path_of("stages");
    struct tamis_writer *w = create_writer(path, 0.000001, 1.25, 1);
    for (uint32_t i = 0; i < MAX_STAGES; i++) {
        add_hashes(w, keys + i * 10, 10);
        w->stages[writer_info(w).n_stages - 1]->n_full_bits = 0;
        IS(writer_grow(w), 0);
    }
    struct tamis_filter_info info = writer_info(w);
    IS(info.n_stages, MAX_STAGES);
    uint64_t n_bytes = info.file_bytes;
    IS(writer_grow(w), 0);
    add_hashes(w, keys + MAX_STAGES * 10, 100);
    OK(tamis_writer_info(w, &info, NULL));
    IS(info.n_stages, MAX_STAGES);
    IS(info.file_bytes, n_bytes);
    OK(tamis_writer_close(w, NULL));

    FILTER f = open_filter(path);
    IS(ask(f, 1, NULL), TAMIS_ABSENT); /* first lanes are checked */
    IS(count_absent(f, keys, MAX_STAGES * 10 + 100), 0);
    tamis_filter_close(f);
    w = open_writer(path);
    add_hashes(w, keys + 2000, 1000);
    seal_and_close(w, 1);
    f = open_filter(path);
    IS(count_absent(f, keys + 2000, 1000), 0);
}

/* ---- builders ---- */

/* No limit, and a spool that is never needed for it; no name for the spool's place is
 * as if none were given. */
TEST(test_a_builder_of_any_memory)
{
    BUILD(path_of("any"), keys, N_KEYS, .memory_limit = UINT64_MAX, .spool_dir = "");
    all_there(path_of("any"), keys, N_KEYS);
    struct tamis_builder_options opt = {
        .size = sizeof opt, .memory_limit = 1, .spool_dir = ""};
    BUILDER b = builder_made(&opt);
    OK(tamis_builder_add_hashes(b, builder_facts(b).domain.tag, keys, N_KEYS));
}

/* Half of the keys would be a lie, in the engine's file as in one of ours. */
TEST(test_a_failed_builder_embeds_nothing)
{
    struct tamis_builder_options opt = {
        .size = sizeof opt, .memory_limit = 1, .spool_dir = "/nowhere/at/all"};
    uint64_t n_bytes = 1;
    file_write(path_of("engine"), "", 0);
    FD fd = open(path_of("engine"), O_RDWR | O_CLOEXEC);
    BUILDER b = builder_made(&opt);
    IS(tamis_builder_add_hashes(b, builder_facts(b).domain.tag, keys, N_KEYS), ENOENT);
    IS(tamis_builder_finish(b, NULL, INTO(.fd = fd), &n_bytes, NULL), ENOENT);
    IS(n_bytes, 0);
    struct stat st;
    OK(fstat(fd, &st));
    IS(st.st_size, 0);
}

/* ---- plans ---- */

TEST(test_plans_of_no_such_size)
{
    const struct tamis_growth wild = {0.9, 2, 0.85, 1000};
    struct tamis_plan plan;
    /* One page has room for one lane; and for 2^60 bytes there are not enough. */
    OK(plan_in_bytes(PAGE_BYTES, 1000, 0, &plan));
    IS(plan.lanes, 1);
    IS(plan_in_bytes(UINT64_C(1) << 60, 1000, 0, &plan), TAMIS_ERR_TOO_LARGE);
    IS(plan_in_bytes(UINT64_C(1) << 60, 0, 0.01, &plan), TAMIS_ERR_TOO_LARGE);
    IS(tamis_plan_stage(&wild, 0, &plan), TAMIS_ERR_RANGE);
}

TEST(test_a_plan_for_each_option)
{
    const struct tamis_plan_options
        ways[] = {{.size = sizeof ways[0]},
                  {.size = sizeof ways[0], .kind = TAMIS_RIBBON},
                  {.size = sizeof ways[0], .blocks = 1},
                  {.size = sizeof ways[0], .most_bytes = 8192}},
        pack = {.size = sizeof pack, .kind = TAMIS_PACK},
        both = {.size = sizeof both, .kind = TAMIS_RIBBON, .blocks = 1};
    struct tamis_plan plan, same[4];
    OK(plan_of_bloom(1000, 0.01, true, &same[0]) ||
       plan_of_ribbon(1000, 0.01, &same[1]) ||
       plan_of_bloom(1000, 0.01, false, &same[2]) ||
       plan_in_bytes(8192, 1000, 0.01, &same[3]));
    for (size_t i = 0; i < N_OF(ways); i++) {
        OK(tamis_plan_filter(1000, 0.01, &ways[i], &plan));
        assert_memory_equal(&plan, &same[i], sizeof plan);
    }
    IS(tamis_plan_filter(1000, 0.01, &pack, &plan), TAMIS_ERR_RANGE);
    IS(tamis_plan_filter(1000, 0.01, &both, &plan), TAMIS_ERR_RANGE);
}

/* ---- readers ---- */

TEST(test_readers_of_no_such_thing)
{
    struct {
        struct tamis_filter_options known;
        uint64_t newer;
    } opt = {{.size = sizeof opt}, 1};
    struct tamis_domain domain;
    struct tamis_filter *f;
    uint64_t absent = 1;
    enum tamis_reason why = TAMIS_HIT;
    IS(tamis_domain_init(&domain, 99, 7), TAMIS_ERR_RANGE);
    tamis_writer_close(create_writer(path_of("read"), 0.01, 2, 1000), NULL);
    IS(tamis_filter_open(path_of("read"), &opt.known, &f, NULL), TAMIS_ERR_RANGE);
    assert_null(f);
    FD fd = open_to_read(path_of("read"));
    IS(tamis_filter_open(NULL, INSIDE(.fd = fd, .offset = 1, .n_bytes = PAGE_BYTES), &f,
                         NULL),
       TAMIS_ERR_RANGE);
    assert_null(f);
    IS(tamis_filter_probe_batch(NULL, 1, keys, 1, &absent, &why), 0);
    IS(absent, 0);
    IS(why, TAMIS_UNREADABLE);
}

RUN_TESTS(set_up, test_dir_remove)
