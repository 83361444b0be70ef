/* Does between two steps, without threads, what another thread may do there. A step
 * stops at a page that may not be read, and the handler does the other thread's part;
 * sched_yield() and the syncs are other such places. */
#include "tests/support/guard_support.h"
#include "lib/writer/inside.h"

#include <xxhash.h>

static void (*meanwhile)(void);

static void do_meanwhile(void)
{
    void (*f)(void) = meanwhile;
    meanwhile = NULL;
    if (f)
        f();
}

/* ---- a reader checks a page of an open stage ---- */

enum { N_PAGES = 2 };
static const uint8_t uuid[UUID_BYTES] = {1, 2, 3};
static struct stage stage;
static struct mapping map;
static uint8_t *bits;
static struct floor_sector_disk floors;
static uint64_t memory[8];

static void on_page(int n, siginfo_t *info, void *context)
{
    if (mprotect(bits, N_PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE) != 0)
        abort();
    do_meanwhile();
}

static int stage_begin(void **state)
{
    struct stage_desc d = {.length = N_PAGES * PAGE_BYTES,
                           .floors_offset = 16384,
                           .geometry = {BLOCKS_PER_PAGE, 1, 8}};
    struct identity id = {0};
    int fd = open(path_of("bits"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    memcpy(id.uuid, uuid, sizeof uuid);
    memset(memory, 0, sizeof memory);
    memset(&floors, 0, sizeof floors);
    floor_sector_seal(&floors, uuid, d.floors_offset);
    if (fd < 0 || ftruncate(fd, N_PAGES * PAGE_BYTES) != 0 ||
        map_file(fd, 0, N_PAGES * PAGE_BYTES, true, NULL, &map) != 0)
        return -1;
    close(fd);
    bits = map.base;
    stage_init(&stage, &d, false, &id, TAMIS_CHECK_LAZY, &map, bits,
               (const uint8_t *)&floors, NULL, memory);
    return 0;
}

static int stage_end(void **state)
{
    map_drop(&map);
    return 0;
}

#define TEST_OF_STAGE(name) TEST_WITH(stage_begin, stage_end, name)

/* Checks page 0, with `f` between the floors and the bits. */
static bool check_with(void (*f)(void))
{
    const struct sigaction handler = {.sa_sigaction = on_page, .sa_flags = SA_SIGINFO};
    struct sigaction before; /* cmocka's */
    meanwhile = f;
    OK(mprotect(bits, N_PAGES * PAGE_BYTES, PROT_NONE));
    OK(sigaction(SIGSEGV, &handler, &before));
    bool good = stage_check_page(&stage, 0);
    OK(sigaction(SIGSEGV, &before, NULL));
    assert_null(meanwhile); /* it came there */
    return good;
}

static void nothing(void)
{
}

static void another_finds_it_bad(void)
{
    stage_mark_bad(&stage, 0);
}

static void its_writer_condemns_it(void)
{
    for (size_t i = 0; i < SECTORS_PER_PAGE; i++)
        floors.floor[i] = le16_of(FLOOR_DAMAGED);
    floor_sector_seal(&floors, uuid, stage.floors_offset);
}

static void its_floors_are_torn(void)
{
    floors.floor[0] = le16_of(1);
}

/* Bits may have been added to it since another thread found it bad, and mask what it
 * lost: bad it stays. Of torn floors nothing is known, so the next look may find the
 * page good. */
TEST(test_what_is_found_of_a_page)
{
    static const struct {
        const char *name;
        void (*meanwhile)(void);
        bool is_good, is_bad; /* or neither */
    } rows[] = {
        {"nothing happens", nothing, true, false},
        {"another finds it bad", another_finds_it_bad, false, true},
        {"its writer condemns it", its_writer_condemns_it, false, true},
        {"its floors are torn", its_floors_are_torn, false, false},
    };
    for (size_t i = 0; i < N_OF(rows); i++) {
        OK(stage_begin(state));
        bool good = check_with(rows[i].meanwhile);
        if (good != rows[i].is_good || stage_is_bad(&stage, 0) != rows[i].is_bad)
            fail_msg("%s", rows[i].name);
        IS(stage_page_state(&stage, 0) == PAGE_GOOD, good);
        if (!good && !rows[i].is_bad)
            floors.floor[0] = le16_of(0);
        IS(stage_check_page(&stage, 0), !rows[i].is_bad);
        if (rows[i].meanwhile != its_writer_condemns_it) /* its floors say so of both */
            assert_true(stage_check_page(&stage, 1));
        IS(stage_all_good(&stage), !rows[i].is_bad);
        OK(stage_end(state));
    }
}

/* A page that was good, and was found bad by a writer: all pages have been good once,
 * and yet not all are. */
TEST_OF_STAGE(test_all_were_good_once)
{
    assert_true(check_with(nothing));
    stage_mark_bad(&stage, 0);
    assert_true(stage_check_page(&stage, 1));
    assert_false(stage_all_good(&stage));
    assert_false(stage_check_page(&stage, 0));
}

/* ---- a strict reader, and digests that change under it ---- */

static bool watching;
static uint8_t digests[PAGE_BYTES];

/* The library's digests; the digest of digests is a place to stop at. */
static XXH64_hash_t digest_of(const void *input, size_t n)
{
    XXH64_hash_t digest = XXH3_64bits_withSeed(input, n, 0);
    if (watching && memcmp(input, digests, sizeof digests) == 0)
        watching = false, do_meanwhile();
    return digest;
}

XXH64_hash_t XXH3_64bits(const void *input, size_t n)
{
    return digest_of(input, n);
}

/* Where xxHash chooses its instructions (format/integrity.c). */
XXH64_hash_t XXH3_64bits_dispatch(const void *input, size_t n);
XXH64_hash_t XXH3_64bits_dispatch(const void *input, size_t n)
{
    return digest_of(input, n);
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
TEST_OF_STAGE(test_a_digest_that_changes_once_checked)
{
    static uint64_t room[8];
    struct stage_desc d = {.length = N_PAGES * PAGE_BYTES,
                           .geometry = {BLOCKS_PER_PAGE, 1, 8}};
    struct identity id = {0};
    put_digest(0xff); /* the page has lost all its bits */
    d.root = page_digest(digests);
    stage_init(&stage, &d, true, &id, TAMIS_CHECK_STRICT, &map, bits, NULL, digests,
               room);
    meanwhile = its_digest_is_made_to_fit;
    watching = true;
    assert_false(stage_check_page(&stage, 0));
    assert_null(meanwhile); /* it came there */
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

static void seal_waits(const char *path, unsigned stripe)
{
    uint64_t key = 42;
    WRITER w = create_writer(path, 0.01, 2, 1000);
    add_hashes(w, &key, 1);
    held = stripe;
    atomic_fetch_add(&w->in_flight[held].n, 1);
    n_yields = 0;
    writer = w;
    OK(tamis_writer_seal(w, 1, NULL, NULL));
    writer = NULL;
    IS(n_yields, 3);
}

TEST(test_a_seal_waits_for_an_add)
{
    seal_waits(path_of("sealed"), N_STRIPES - 1);
    seal_waits(path_of("sealed, shared"), SHARED_STRIPE);
    seal_waits(path_of("sealed, the other"), SHARED_STRIPE + 1);
}

/* ---- pages that are lost between two steps of a writer ---- */

TEST(test_a_seal_after_a_loss)
{
    uint64_t key = 42;
    struct tamis_writer *w = create_writer(path_of("lost"), 0.01, 2, 1000);
    add_hashes(w, &key, 1);
    atomic_store(&w->lost, true); /* as the guard does, in a thread that reads */
    IS(tamis_writer_seal(w, 1, NULL, NULL), TAMIS_ERR_POISONED);
    IS(tamis_writer_close(w), TAMIS_ERR_POISONED);
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
 * mended. What the session's first commit finds is not the pages' any more: nobody may
 * be told that it is open, in words of a writer that was never theirs. */
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
    OK(tamis_writer_close(w));

    cut_at = commit_of(cut_path).stages[0].offset;
    struct io_calls before = io_calls;
    io_calls.fdatasync = cutting_fdatasync;
    meanwhile = cut_the_file;
    int rc = tamis_writer_open(cut_path, &w, &diag);
    io_calls = before;
    assert_null(meanwhile);
    IS(rc, EIO);
    IS(diag.code, EIO);
    assert_null(w);
}

RUN_TESTS(test_dir_create, test_dir_remove)
