/* Packing with threads: the same pack and the same segments left as with one, also when
 * files are damaged, or are lost beneath their mappings. */
#include "tests/support/store_packs.h"
#include "tests/support/guard_support.h"
#include "lib/io/threads.h"

/* Many: more than a piece of the file, which is written while rows are made. */
enum { N = 70, FEW_KEYS = 5000, MANY_KEYS = 60000 };

static struct tamis_pack_options with(uint64_t n_threads)
{
    return (struct tamis_pack_options){.size = sizeof(struct tamis_pack_options),
                                       .n_threads = n_threads};
}

/* The file of a filter of store "s". */
static const char *file_named(const uint8_t uuid[UUID_BYTES])
{
    static char path[900];
    char name[FILTER_NAME_BYTES];
    filter_file_name(uuid, name);
    snprintf(path, sizeof path, "%s/%s", path_of("s/filters"), name);
    return path;
}

/* Packs all and takes it back. The bytes of the pack behind its header, where its UUID
 * and the time are. */
static uint8_t *packed_bytes(struct tamis_store *s,
                             const struct tamis_pack_options *opt,
                             struct tamis_pack_report *report, size_t *n)
{
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_pack(e, snap, NULL, 0, opt, report, NULL));
    uint8_t *bytes = file_read(file_named(report->uuid), n);
    memset(bytes, 0, PAGE_BYTES);
    memset(report->uuid, 0, sizeof report->uuid);
    report->free_bytes = 0;
    tamis_edit_abort(e);
    return bytes;
}

static struct tamis_pack_report same_with_threads(struct tamis_store *s,
                                                  enum tamis_repack repack)
{
    struct tamis_pack_report one, some;
    struct tamis_pack_options opt = with(1);
    size_t n, n_again;
    opt.repack = repack;
    FREED uint8_t *bytes = packed_bytes(s, &opt, &one, &n);
    for (uint64_t n_threads = 2; n_threads < 5; n_threads++) {
        opt.n_threads = n_threads;
        FREED uint8_t *again = packed_bytes(s, &opt, &some, &n_again);
        assert_memory_equal(&some, &one, sizeof one);
        IS(n_again, n);
        assert_memory_equal(again, bytes, n);
    }
    return one;
}

/* Shared by the tests that need many keys; the last one removes it. */
static struct tamis_store *large;

TEST(the_same_pack)
{
    large = store_of("s", N, MANY_KEYS);
    struct tamis_pack_report report = same_with_threads(large, TAMIS_REPACK_NONE);
    IS(report.n_packed + report.n_left[TAMIS_LEFT_LARGER], N);
    assert_true(report.n_packed > N / 2);
}

/* ---- files that are cut short while they are read ---- */

static char cut_path[N][900];
static atomic_bool to_cut;

static ssize_t cutting_pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    if (atomic_exchange(&to_cut, false))
        for (size_t i = 0; i < N; i++)
            cut(cut_path[i], PAGE_BYTES);
    return pwrite(fd, buf, n, offset);
}

static bool was_copied;

static void copy_in_a_helper(void *ctx, unsigned number)
{
    uint8_t block[BLOCK_BYTES];
    if (number == 1)
        was_copied = filter_copy_blocks(ctx, 0, 0, 1, block);
}

/* The thread that touches a lost page gets the signal, and must be able to. */
TEST_WITH_GUARD(a_helper_loses_a_page)
{
    uint64_t hashes[20000];
    random_hashes(hashes, 20000);
    build_filter(path_of("lost"), hashes, 20000);
    FILTER f = open_filter(path_of("lost"));
    struct threads *threads = threads_start(2, true);
    IS(threads_size(threads), 2);
    cut(path_of("lost"), PAGE_BYTES);
    was_copied = true;
    threads_run(threads, copy_in_a_helper, f);
    threads_end(threads);
    assert_false(was_copied);
}

TEST_WITH_GUARD(lost_beneath_all_threads)
{
    struct tamis_pack_options opt = with(3);
    struct tamis_pack_report report;
    struct tamis_snapshot *snap = snapshot_of(large);
    for (size_t i = 0; i < N; i++) {
        struct tamis_segment_info info = segment_at(snap, i);
        snprintf(cut_path[i], sizeof cut_path[i], "%s/%s", path_of("s"), info.file);
    }
    struct tamis_edit *e = edit_new(large);
    atomic_store(&to_cut, true);
    io_calls.pwrite = cutting_pwrite;
    OK(tamis_edit_pack(e, snap, NULL, 0, &opt, &report, NULL));
    io_calls.pwrite = pwrite;
    assert_false(atomic_load(&to_cut));
    assert_true(report.n_left[TAMIS_LEFT_UNREADABLE] > 0);
    IS(report.n_left[TAMIS_LEFT_UNREADABLE] + report.n_packed +
           report.n_left[TAMIS_LEFT_LARGER],
       N);
    tamis_edit_abort(e);
    tamis_snapshot_release(snap);
    tamis_store_close(large);
    remove_tree("s");
}

TEST(the_same_pack_again)
{
    struct tamis_store *s = store_of("s", N, FEW_KEYS);
    pack_in_two(s);
    IS(same_with_threads(s, TAMIS_REPACK_ALL).n_repacked, N);
    tamis_store_close(s);
    remove_tree("s");
}

TEST(damaged_inputs)
{
    char path[900];
    struct tamis_store *s = store_of("s", N, FEW_KEYS);
    struct tamis_snapshot *snap = snapshot_of(s);
    for (size_t i = 0; i < 5; i++) {
        struct tamis_segment_info info = segment_at(snap, i * 13);
        snprintf(path, sizeof path, "%s/%s", path_of("s"), info.file);
        if (i < 4)
            zero_page(path, 1);
        else
            unlink(path);
    }
    tamis_snapshot_release(snap);
    struct tamis_pack_report report = same_with_threads(s, TAMIS_REPACK_NONE);
    IS(report.n_packed, N - 5);
    IS(report.n_left[TAMIS_LEFT_UNREADABLE], 5);
    /* Pages of rows: found while the new pack is written. */
    pack_all(s);
    for (uint64_t page = 1; page < 400; page += 130)
        zero_page(pack_file(), page);
    report = same_with_threads(s, TAMIS_REPACK_ALL);
    assert_true(report.n_left[TAMIS_LEFT_UNREADABLE] > 5 && report.n_packed > 0);
    tamis_store_close(s);
    remove_tree("s");
}

RUN_TESTS(test_dir_create, test_dir_remove)
