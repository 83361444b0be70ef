/* Opening and creating for writing: options and their ranges, one writer at a time,
 * space for what is there (R5). */
#include "tests/support/filters.h"

enum { N_KEYS = 50 * 1000 };
static uint64_t keys[N_KEYS];

SET_UP(test_dir_create, random_hashes(keys, N_KEYS))

/* ---- options ---- */

TEST(test_growth_is_checked)
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
    for (size_t i = 0; i < N_OF(bad); i++) {
        struct tamis_writer_options opt = {.size = sizeof opt, .growth = bad[i]};
        w = (void *)1;
        IS(tamis_writer_create(path_of("bad"), &opt, &w, &diag), TAMIS_ERR_RANGE);
        assert_null(w);
        assert_non_null(strstr(diag.what, "0.5..0.95"));
        assert_false(exists(path_of("bad")));
    }
    static const struct tamis_growth edges[] = {
        {0.5, 16, 0.5, 1}, {1e-8, 1.25, 0.95, 2}, {0, 0, 0, 0}};
    for (size_t i = 0; i < 3; i++) {
        struct tamis_writer_options opt = {.size = sizeof opt, .growth = edges[i]};
        OK(tamis_writer_create(path_of("edge"), &opt, &w, NULL));
        add_hashes(w, keys, 100);
        OK(tamis_writer_close(w, NULL));
        all_there(path_of("edge"), keys, 100);
        unlink(path_of("edge"));
    }
}

TEST(test_defaults)
{
    WRITER w = writer_made(path_of("defaults"), NULL);
    struct tamis_filter_info info = writer_info(w);
    assert_true(info.growth.error == 0.01 && info.growth.factor == 1.9);
    assert_true(info.growth.tightening == 0.85);
    IS(info.growth.first_capacity, 50000);
    IS(info.name_bytes + info.binding_bytes, 0);
}

TEST(test_names_and_places)
{
    static const char name[8192] = "a name with a NUL in it";
    struct tamis_domain odd = {.hash_id = 2, .seed = 5, .tag = 1};
    const size_t size = sizeof(struct tamis_writer_options);
    const struct tamis_writer_options bad[] = {
        {.size = size, .identity.name = "", .identity.name_bytes = 0},
        {.size = size, .identity.name = name, .identity.name_bytes = 256},
        {.size = size, .identity.name = name, .identity.name_bytes = 24},
        {.size = size, .identity.binding = name, .identity.binding_bytes = 65},
        {.size = size, .domain = &odd},
        {.size = 1},
    };
    struct tamis_writer *w;
    for (size_t i = 0; i < N_OF(bad); i++)
        IS(tamis_writer_create(path_of("bad"), &bad[i], &w, NULL), TAMIS_ERR_RANGE);
    IS(tamis_writer_create(path_of("no/dir"), NULL, &w, NULL), ENOENT);
    IS(tamis_writer_create(test_dir, NULL, &w, NULL), TAMIS_ERR_EXISTS);
    file_write(path_of("taken"), name, sizeof name);
    size_t n_files = count_files(test_dir);
    IS(tamis_writer_create(path_of("taken"), NULL, &w, NULL), TAMIS_ERR_EXISTS);
    assert_null(w);
    IS(count_files(test_dir), n_files);
    /* Opening never creates, and takes nothing else for a filter. */
    writer_refused(path_of("none"), ENOENT);
    assert_false(exists(path_of("none")));
    writer_refused(path_of("taken"), TAMIS_ERR_NOT_TAMIS);
    writer_refused(test_dir, EISDIR);
}

/* Options just inside the limits, and a domain that is half right. */
TEST(test_the_limits_of_options)
{
    static const uint8_t binding[64] = {1, 2, 3, [63] = 64};
    struct tamis_domain domain, half;
    char name[255];
    memset(name, 'n', sizeof name);
    IS(tamis_domain_init(&domain, 1, 77), 0);
    struct tamis_writer_options opt = {.size = sizeof opt,
                                       .domain = &domain,
                                       .identity.name = name,
                                       .identity.name_bytes = sizeof name,
                                       .identity.binding = binding,
                                       .identity.binding_bytes = sizeof binding};
    struct tamis_writer *w = writer_made(path_of("limits"), &opt);
    IS(w->domain.tag, domain.tag);
    OK(tamis_writer_close(w, NULL));
    w = open_writer(path_of("limits"));
    struct tamis_filter_info info = writer_info(w);
    IS(info.binding_bytes, sizeof binding);
    assert_memory_equal(info.binding, binding, sizeof binding);
    IS(info.name_bytes, sizeof name);
    OK(tamis_writer_close(w, NULL));
    unlink(path_of("limits"));
    opt.domain = &half;
    half = domain, half.tag ^= 1; /* a known hash, not its tag */
    IS(tamis_writer_create(path_of("limits"), &opt, &w, NULL), TAMIS_ERR_RANGE);
    half = domain, half.hash_id = 2, half.tag = hash_domain_tag(2, 77);
    IS(tamis_writer_create(path_of("limits"), &opt, &w, NULL), TAMIS_ERR_RANGE);
    assert_false(exists(path_of("limits")));
}

/* A copy with holes: the space comes first, or an error before anything is written. */
TEST_WITH_FAULTS(test_a_copy_with_holes)
{
    const char *path = path_of("holed");
    WRITER w = create_writer(path, 0.01, 2, 10000);
    struct stat st;
    OK(tamis_writer_close(w, NULL));
    struct commit c = commit_of(path);
    FD fd = open(path, O_RDWR | O_CLOEXEC);
    OK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                 (off_t)c.stages[0].offset, (off_t)c.stages[0].length));
    fail_never(); /* counts anew */
    fail_from_now(CALL_FALLOCATE, ENOSPC);
    assert_non_null(strstr(writer_refused(path, ENOSPC).what, "space"));
    IS(faults[CALL_PWRITE].n, 0);
    IS(commit_of(path).sequence, c.sequence);
    /* A file system that can't be asked is no reason to stop. */
    fail_from_now(CALL_FALLOCATE, EOPNOTSUPP);
    w = open_writer(path);
    OK(tamis_writer_close(w, NULL));
    OK(fstat(fd, &st));
    assert_true((uint64_t)st.st_blocks * 512 < c.stages[0].length);
    fail_never();
    w = open_writer(path);
    OK(fstat(fd, &st));
    assert_true((uint64_t)st.st_blocks * 512 >= c.stages[0].length);
    add_hashes(w, keys, 10000);
}

/* A built filter is a sealed one. */
TEST(test_built_filters_take_no_writer)
{
    struct tamis_builder *b = builder_made(NULL);
    OK(tamis_builder_finish(b, path_of("built"), NULL, NULL, NULL));
    tamis_builder_free(b);
    writer_refused(path_of("built"), TAMIS_ERR_SEALED);
}

/* ---- one writer ---- */

static int open_in_child(void *ctx)
{
    struct tamis_writer *w;
    int err = tamis_writer_open(path_of("other"), NULL, &w, NULL);
    return err == (*(int *)ctx) ? 0 : 1;
}

TEST(test_writers_of_two_processes)
{
    struct tamis_writer *w = create_writer(path_of("other"), 0.01, 2, 1000);
    in_child(open_in_child, &(int){TAMIS_ERR_BUSY});
    OK(tamis_writer_close(w, NULL));
    in_child(open_in_child, &(int){0}); /* and it ends without closing */
    OK(tamis_writer_close(open_writer(path_of("other")), NULL));
}

RUN_TESTS(set_up, test_dir_remove)
