/* Does between two steps, without threads, what another thread may do there: in a
 * digest, in sched_yield(), in a sync. test_page_memory has pages that others look at
 * meanwhile. */
#include "tests/support/guard_support.h"
#include "lib/writer/inside.h"

static void (*meanwhile)(void);

static void do_meanwhile(void)
{
    void (*f)(void) = meanwhile;
    meanwhile = NULL;
    if (f)
        f();
}

/* ---- a strict reader, and digests that change under it ---- */

static bool watching;
static uint8_t digests[PAGE_BYTES];

/* The library's digests; the digest of digests is a place to stop at. */
XXH64_hash_t XXH3_64bits_withSeed(const void *input, size_t n, XXH64_hash_t seed)
{
    XXH3_state_t *state = XXH3_createState();
    XXH3_64bits_reset_withSeed(state, seed);
    XXH3_64bits_update(state, input, n);
    XXH64_hash_t digest = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    if (watching && n == PAGE_BYTES && memcmp(input, digests, n) == 0)
        watching = false, do_meanwhile();
    return digest;
}

/* Where xxHash chooses its instructions (format/integrity.c). */
XXH64_hash_t XXH3_64bits_withSeed_dispatch(const void *input, size_t n, XXH64_hash_t s);
XXH64_hash_t XXH3_64bits_withSeed_dispatch(const void *input, size_t n, XXH64_hash_t s)
{
    return XXH3_64bits_withSeed(input, n, s);
}

static void put_digest(uint8_t byte)
{
    static uint8_t page[PAGE_BYTES];
    memset(page, byte, sizeof page);
    struct le64 d = le64_of(page_digest(page));
    memcpy(digests, &d, sizeof d);
}

static void its_digest_is_made_to_fit(void)
{
    put_digest(0);
}

/* The digest in the copy that was checked counts. */
TEST(test_a_digest_that_changes_once_checked)
{
    enum { N_BYTES = 2 * PAGE_BYTES };
    static uint64_t room[8];
    struct stage_desc d = {.length = N_BYTES, .geometry = {BLOCKS_PER_PAGE, 1, 8}};
    struct identity id = {0};
    struct mapping map;
    struct stage stage;
    FD fd = open(path_of("bits"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    OK(ftruncate(fd, N_BYTES));
    IS(map_file(fd, 0, N_BYTES, true, NULL, &map), 0);
    put_digest(0xff); /* the page has lost all its bits */
    d.root = page_digest(digests);
    stage_init(&stage, &d, true, &id, TAMIS_CHECK_STRICT, &map, map.base, NULL, digests,
               room);
    meanwhile = its_digest_is_made_to_fit;
    watching = true;
    assert_false(stage_check_page(&stage, 0));
    assert_null(meanwhile); /* it came there */
    map_drop(&map);
}

/* ---- a seal, and adds in flight ---- */

static struct tamis_writer *writer;
static unsigned n_yields, held;

/* Called by a sealer that waits. */
int sched_yield(void)
{
    if (!writer)
        return 0;
    n_yields++;
    IS(atomic_load(&writer->state), WRITER_SEALING);
    if (n_yields == 3)
        atomic_fetch_sub(&writer->in_flight[held].n, 1);
    return 0;
}

static void seal_waits(const char *path, unsigned shard)
{
    uint64_t key = 42;
    WRITER w = create_writer(path, 0.01, 2, 1000);
    add_hashes(w, &key, 1);
    held = shard;
    atomic_fetch_add(&w->in_flight[held].n, 1);
    n_yields = 0;
    writer = w;
    OK(tamis_writer_seal(w, 1, NULL, NULL));
    writer = NULL;
    IS(n_yields, 3);
}

TEST(test_a_seal_waits_for_an_add)
{
    seal_waits(path_of("sealed"), N_SHARDS - 1);
    seal_waits(path_of("sealed, shared"), SHARED_SHARD);
    seal_waits(path_of("sealed, the other"), SHARED_SHARD + 1);
}

/* ---- pages that are lost between two steps of a writer ---- */

TEST(test_a_seal_after_a_loss)
{
    uint64_t key = 42;
    struct tamis_writer *w = create_writer(path_of("lost"), 0.01, 2, 1000);
    add_hashes(w, &key, 1);
    atomic_store(&w->lost, true); /* as the guard does, in a thread that reads */
    IS(tamis_writer_seal(w, 1, NULL, NULL), TAMIS_ERR_POISONED);
    IS(tamis_writer_close(w, NULL), TAMIS_ERR_POISONED);
    FILTER f = open_filter(path_of("lost"));
    assert_false(filter_info(f).sealed);
}

static char cut_path[1024];
static uint64_t cut_at;

static int cutting_fdatasync(int fd)
{
    do_meanwhile();
    return 0;
}

static void cut_the_file(void)
{
    cut(cut_path, cut_at);
}

/* Its pages were checked and counted (R3); then the file is cut short, while slot B is
 * mended. The session's first commit finds other pages. No caller may be told that the
 * writer is open, for it never had its pages. */
TEST_WITH_GUARD(test_a_session_that_loses_pages_as_it_begins)
{
    uint64_t keys[200];
    struct tamis_writer *w;
    struct tamis_diag diag;
    const char *live = path_of("live");
    random_hashes(keys, 200);
    snprintf(cut_path, sizeof cut_path, "%s", path_of("left"));
    w = create_writer(live, 0.01, 2, 1000);
    add_hashes(w, keys, 100);
    OK(tamis_writer_commit(w, 1, NULL));
    add_hashes(w, keys + 100, 100);
    file_copy(live, cut_path); /* what a kill leaves */
    OK(tamis_writer_close(w, NULL));

    cut_at = commit_of(cut_path).stages[0].offset;
    struct io_calls before = io_calls;
    io_calls.fdatasync = cutting_fdatasync;
    meanwhile = cut_the_file;
    int rc = tamis_writer_open(cut_path, NULL, &w, &diag);
    io_calls = before;
    assert_null(meanwhile);
    IS(rc, EIO);
    IS(diag.code, EIO);
    assert_null(w);
}

RUN_TESTS(test_dir_create, test_dir_remove)
