/* Packs made of packs: what is asked for, and what the library chooses by itself. */
#include <sys/statvfs.h>

#include "tests/support/store_packs.h"

/* What the disk is said to have left; 0: plenty. */
static uint64_t n_free;

int fstatvfs(int fd, struct statvfs *fs)
{
    (void)fd;
    memset(fs, 0, sizeof *fs);
    fs->f_frsize = 1;
    fs->f_bavail = n_free ? n_free : UINT64_MAX;
    return 0;
}

static struct tamis_pack_report pack_how(struct tamis_store *s,
                                         struct tamis_pack_options opt)
{
    struct tamis_pack_report report;
    struct tamis_diag diag = {0};
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    opt.size = sizeof opt;
    if (tamis_edit_pack(e, snap, NULL, 0, &opt, &report, &diag) != 0)
        fail_msg("%s", diag.what);
    tamis_snapshot_release(snap);
    OK(tamis_edit_commit(e, NULL));
    return report;
}

#define PACK(s, ...) pack_how(s, (struct tamis_pack_options){.size = 0, __VA_ARGS__})

static void all_hit(struct tamis_store *s, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < n_keys[i]; k += 1 + n_keys[i] / 3)
            assert_int_equal(reason_of(s, name_of(i), i * 1000 + k), TAMIS_HIT);
}

/* ---- ALL ---- */

/* Reasons of many keys by hash, of all segments. */
static uint8_t *ask_many(struct tamis_store *s, size_t *n_bytes)
{
    enum { KEYS = 3000 };
    struct tamis_snapshot *snap = snapshot_of(s);
    size_t n = tamis_snapshot_n_segments(snap);
    uint8_t *reasons = malloc(n * KEYS);
    for (size_t k = 0; k < KEYS; k++) {
        struct tamis_key key = key_in(s, k * 31);
        key.bytes = NULL;
        tamis_snapshot_probe_all(snap, &key, NULL, reasons + k * n);
    }
    tamis_snapshot_release(snap);
    *n_bytes = n * KEYS;
    return reasons;
}

static void columns_answer_alike_in_another_pack(void **state)
{
    (void)state;
    size_t n, n_after;
    struct tamis_store *s = store_of("s", 150, 1500);
    pack_in_two(s, false);
    for (unsigned i = 120; i < 150; i++)
        drop_segment(s, name_of(i));
    uint8_t *before = ask_many(s, &n);
    assert_int_equal(n_filter_files("s"), 4);
    struct tamis_pack_report report = PACK(s, .repack = TAMIS_REPACK_ALL);
    assert_true(report.n_packed == 120 && report.n_repacked == 120);
    assert_int_equal(n_filter_files("s"), 2);
    uint8_t *after = ask_many(s, &n_after);
    assert_true(n == n_after && memcmp(before, after, n) == 0);
    all_hit(s, 120);
    free(before);
    free(after);
    /* Again, with some that are loose. */
    put_segment(s, "loose", 8000000, 500);
    report = PACK(s, .repack = TAMIS_REPACK_ALL);
    assert_true(report.n_packed == 121 && report.n_repacked == 120);
    assert_int_equal(reason_of(s, "loose", 8000100), TAMIS_HIT);
    tamis_store_close(s);
    s = store_open("s");
    all_hit(s, 120);
    tamis_store_close(s);
    remove_store("s");
}

static void own_files_are_kept_where_they_are(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 20, 300);
    PACK(s, .keep = 1);
    assert_int_equal(n_filter_files("s"), 22);
    PACK(s, .keep = 1, .repack = TAMIS_REPACK_ALL);
    assert_int_equal(n_filter_files("s"), 22);
    PACK(s, .repack = TAMIS_REPACK_ALL);
    assert_int_equal(n_filter_files("s"), 2);
    /* What has gone is not kept: without its pack a segment has no filter. */
    PACK(s, .keep = 1, .repack = TAMIS_REPACK_ALL);
    assert_int_equal(n_filter_files("s"), 2);
    all_hit(s, 20);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_segment_info info;
    OK(tamis_snapshot_segment(snap, 0, &info));
    assert_non_null(strstr(pack_file(), info.file));
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    remove_store("s");
}

/* A column with a bad page whose segment keeps its own file is made of that anew. */
static void damaged_columns_have_kept_files(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 60, 400);
    struct tamis_pack_report report = pack_all(s, true);
    tamis_store_close(s);
    zero_page(pack_file(), 1 + random_below(report.rows_bytes / PAGE_BYTES));
    s = store_open("s");
    report = PACK(s, .repack = TAMIS_REPACK_ALL, .keep = 1);
    assert_true(report.n_packed == 60 && report.n_unreadable == 0);
    assert_true(report.n_repacked < 60);
    assert_int_equal(n_filter_files("s"), 62);
    all_hit(s, 60);
    report = PACK(s, .repack = TAMIS_REPACK_ALL);
    assert_true(report.n_packed == 60 && report.n_repacked == 60);
    tamis_store_close(s);
    remove_store("s");
}

/* Columns with a bad page stay where they are. */
static void damaged_columns_are_left(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 60, 400);
    struct tamis_pack_report report = pack_all(s, false);
    tamis_store_close(s);
    zero_page(pack_file(), 1 + random_below(report.rows_bytes / PAGE_BYTES));
    s = store_open("s");
    struct tamis_pack_report dry = PACK(s, .repack = TAMIS_REPACK_ALL, .dry_run = 1);
    report = PACK(s, .repack = TAMIS_REPACK_ALL);
    assert_true(dry.n_packed == report.n_packed && dry.n_repacked == report.n_packed);
    assert_true(dry.n_unreadable == report.n_unreadable &&
                report.n_repacked == report.n_packed);
    assert_int_equal(report.n_packed + report.n_unreadable, 60);
    assert_true(report.n_unreadable > 0);
    assert_int_equal(n_filter_files("s"), report.n_packed ? 4 : 2);
    for (unsigned i = 0; i < 60; i++)
        for (unsigned k = 0; k < n_keys[i]; k++)
            assert_int_not_equal(reason_of(s, name_of(i), i * 1000 + k), ABSENT_HERE);
    tamis_store_close(s);
    remove_store("s");
}

/* Pages that probes have found good, and that rot later: nothing is made of them that
 * would pass for whole. */
static void rot_is_not_written_anew(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct tamis_store *s = store_of("s", 8, 1000);
        struct tamis_pack_report report = pack_all(s, false);
        all_hit(s, 8);
        struct tamis_snapshot *snap = snapshot_of(s);
        for (uint64_t page = 1; page <= report.rows_bytes / PAGE_BYTES; page++)
            zero_page(pack_file(), page);
        struct tamis_edit *e = edit_new(s);
        struct tamis_pack_options all = {.size = sizeof all,
                                         .repack = TAMIS_REPACK_ALL};
        for (uint32_t i = 0; i < 8; i++) {
            struct tamis_filter *f;
            if (how == 0)
                assert_int_equal(tamis_edit_unpack(e, snap, &i, 1, NULL),
                                 TAMIS_ERR_DAMAGED);
            else if (how == 1)
                assert_int_equal(tamis_snapshot_filter(snap, i, &f, NULL),
                                 TAMIS_ERR_DAMAGED);
        }
        if (how == 2) {
            OK(tamis_edit_pack(e, snap, NULL, 0, &all, &report, NULL));
            assert_true(report.n_packed == 0 && report.n_unreadable == 8);
            OK(tamis_edit_commit(e, NULL));
        } else {
            tamis_edit_abort(e);
        }
        tamis_snapshot_release(snap);
        tamis_store_close(s);
        s = store_open("s");
        for (unsigned i = 0; i < 8; i++)
            assert_int_not_equal(reason_of(s, name_of(i), i * 1000), ABSENT_HERE);
        tamis_store_close(s);
        remove_store("s");
    }
}

static void blocks_are_checked_as_they_are_copied(void **state)
{
    (void)state;
    struct tamis_verify pages;
    struct tamis_filter *f;
    uint8_t blocks[64 * BLOCK_BYTES];
    struct tamis_store *s = store_of("s", 1, 20);
    struct tamis_snapshot *snap = snapshot_of(s);
    OK(tamis_snapshot_filter(snap, 0, &f, NULL));
    OK(tamis_filter_verify(f, &pages, NULL));
    assert_true(filter_copy_blocks(f, 0, 3, 5, blocks));
    zero_page(file_of(s, "s", name_of(0)), 1);
    assert_false(filter_copy_blocks(f, 0, 3, 5, blocks));
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    remove_store("s");
}

/* A pack whose table of columns is lost gives columns with all blocks of their band. */
static void a_pack_without_its_table(void **state)
{
    (void)state;
    size_t n, n_after;
    struct tamis_store *s = store_of("s", 60, 2000);
    struct tamis_pack_report report = pack_all(s, false);
    uint8_t *before = ask_many(s, &n);
    tamis_store_close(s);
    zero_page(pack_file(), report.file_bytes / PAGE_BYTES - 2);
    s = store_open("s");
    report = PACK(s, .repack = TAMIS_REPACK_ALL);
    assert_int_equal(report.n_packed, 60);
    uint8_t *after = ask_many(s, &n_after);
    assert_true(n == n_after && memcmp(before, after, n) == 0);
    free(before);
    free(after);
    all_hit(s, 60);
    tamis_store_close(s);
    remove_store("s");
}

/* ---- AUTO ---- */

static size_t n_packs(void)
{
    size_t n = 0;
    DIR *d = opendir(path_of("s/filters"));
    for (const struct dirent *e; (e = readdir(d));)
        n += strstr(e->d_name, ".dead") != NULL;
    closedir(d);
    return n;
}

/* Of all packs, dead ones among them. */
static size_t n_columns(struct tamis_store *s)
{
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_pack_place seen[64];
    size_t n_seen = 0, sum = 0;
    for (size_t i = 0; i < tamis_snapshot_n_segments(snap); i++) {
        size_t at = 0;
        assert_true(n_seen < 64);
        OK(tamis_snapshot_pack(snap, i, NULL, &seen[n_seen]));
        while (memcmp(seen[at].uuid, seen[n_seen].uuid, TAMIS_UUID_BYTES) != 0)
            at++;
        if (at == n_seen)
            sum += seen[n_seen++].n_columns_of_pack;
    }
    tamis_snapshot_release(snap);
    return sum;
}

/* A segment is rewritten once a tier, and there are few packs at any time. */
static void tiers_bound_packs_and_rewrites(void **state)
{
    enum { ROUNDS = 64, EACH = 4, KEYS = 20 };
    (void)state;
    struct tamis_store *s = store_new("s");
    uint64_t n_written = 0;
    size_t most = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < EACH; i++)
            put_segment(s, name_of(round * EACH + i), (round * EACH + i) * 1000, KEYS);
        n_written += PACK(s, .repack = TAMIS_REPACK_AUTO).n_packed;
        most = n_packs() > most ? n_packs() : most;
    }
    /* 64 = 4^3: three merges of each, and three packs in each of four tiers. */
    assert_true(n_written <= ROUNDS * EACH * (1 + 3));
    assert_true(n_written > ROUNDS * EACH * 2);
    assert_true(most <= 12 && n_packs() <= 3);
    for (unsigned i = 0; i < ROUNDS * EACH; i++)
        assert_int_equal(reason_of(s, name_of(i), i * 1000 + 7), TAMIS_HIT);
    struct tamis_pack_report report = PACK(s, .repack = TAMIS_REPACK_AUTO);
    assert_true(report.n_packed == 0 && report.n_packed_before == ROUNDS * EACH);
    tamis_store_close(s);
    remove_store("s");
}

/* Segments that are packed as they come, and never loose. */
static void packs_of_new_segments_are_merged(void **state)
{
    enum { PACKS = 16, KEYS = 20 };
    (void)state;
    struct tamis_store *s = store_new("s");
    for (unsigned i = 0; i < PACKS; i++) {
        put_segment(s, name_of(i), i * 1000, KEYS);
        assert_int_equal(PACK(s, .keep = 0).n_packed, 1);
        assert_int_equal(n_packs(), i / 4 + i % 4 + 1);
        struct tamis_pack_report report = PACK(s, .repack = TAMIS_REPACK_AUTO);
        if (i % 4 != 3)
            assert_int_equal(report.n_packed, 0);
        else
            assert_int_equal(n_packs(), i == PACKS - 1 ? 1 : i / 4 + 1);
    }
    tamis_store_close(s);
    remove_store("s");
}

/* Drops some at random, puts as many, packs: each round. By counting: how often a
 * segment is written, and how many columns there are for each that lives. */
static void turnover_is_bounded(void **state)
{
    enum { LIVE = 48, EACH = 3, ROUNDS = 160, KEYS = 20 };
    unsigned live[LIVE], n_live = 0, n_put = 0;
    uint64_t n_written = 0;
    size_t most_packs = 0;
    double most_columns = 0;
    (void)state;
    struct tamis_store *s = store_new("s");
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < EACH && round >= LIVE / EACH; i++) {
            uint64_t at = random_below(n_live);
            drop_segment(s, name_of(live[at]));
            live[at] = live[--n_live];
        }
        for (unsigned i = 0; i < EACH; i++, n_put++) {
            put_segment(s, name_of(n_put), n_put * 1000, KEYS);
            live[n_live++] = n_put;
        }
        n_written += PACK(s, .repack = TAMIS_REPACK_AUTO).n_packed;
        size_t packs = n_packs();
        double columns = (double)n_columns(s) / n_live;
        most_packs = packs > most_packs ? packs : most_packs;
        most_columns = columns > most_columns ? columns : most_columns;
    }
    /* 16 = 4^2 batches live: two merges of each, and less than one more when the packs
     * that it is in are half dead. */
    assert_true(n_written <= 3 * n_put && n_written > n_put);
    assert_true(most_columns < 2 && most_columns > 1);
    assert_true(most_packs <= 3 * 3);
    for (unsigned i = 0; i < n_live; i++)
        assert_int_equal(reason_of(s, name_of(live[i]), live[i] * 1000 + 7), TAMIS_HIT);
    tamis_store_close(s);
    remove_store("s");
}

static void half_dead_packs_are_rewritten(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 40, 300);
    pack_all(s, false);
    for (unsigned i = 39; i >= 20; i--) {
        assert_int_equal(PACK(s, .repack = TAMIS_REPACK_AUTO).n_packed, 0);
        drop_segment(s, name_of(i));
    }
    struct tamis_pack_report report = PACK(s, .repack = TAMIS_REPACK_AUTO);
    assert_true(report.n_packed == 20 && report.n_repacked == 20);
    assert_int_equal(n_packs(), 1);
    all_hit(s, 20);
    tamis_store_close(s);
    remove_store("s");
}

/* ---- room, and calls that are refused ---- */

static void room_is_asked_for_first(void **state)
{
    (void)state;
    struct tamis_diag diag;
    struct tamis_store *s = store_of("s", 30, 300);
    struct tamis_pack_report report = PACK(s, .dry_run = 1);
    assert_true(report.n_packed == 30 && report.file_bytes > report.rows_bytes);
    assert_int_equal(n_filter_files("s"), 30);
    uint64_t n_bytes = report.file_bytes;
    n_free = n_bytes - 1;
    report = PACK(s, .dry_run = 1);
    assert_int_equal(report.free_bytes, n_free);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    assert_int_equal(tamis_edit_pack(e, snap, NULL, 0, NULL, NULL, &diag), ENOSPC);
    assert_non_null(strstr(diag.what, "the pack needs "));
    assert_int_equal(n_filter_files("s"), 30);
    tamis_edit_abort(e);
    tamis_snapshot_release(snap);
    n_free++;
    report = PACK(s, .keep = 0);
    n_free = 0;
    struct stat st;
    OK(stat(pack_file(), &st));
    assert_true(report.file_bytes == n_bytes && (uint64_t)st.st_size == n_bytes);
    tamis_store_close(s);
    remove_store("s");
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    struct tamis_store *s = store_of("s", 3, 300);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    struct tamis_pack_options opt = {.size = sizeof opt,
                                     .repack = (enum tamis_repack)3};
    uint32_t one = 1;
    assert_int_equal(tamis_edit_pack(e, snap, NULL, 0, &opt, NULL, NULL),
                     TAMIS_ERR_RANGE);
    opt.repack = TAMIS_REPACK_AUTO;
    assert_int_equal(tamis_edit_pack(e, snap, &one, 1, &opt, NULL, NULL),
                     TAMIS_ERR_RANGE);
    opt.size = 1;
    assert_int_equal(tamis_edit_pack(e, snap, NULL, 0, &opt, NULL, NULL),
                     TAMIS_ERR_RANGE);
    tamis_edit_abort(e);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    remove_store("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_answer_alike_in_another_pack),
        cmocka_unit_test(own_files_are_kept_where_they_are),
        cmocka_unit_test(damaged_columns_have_kept_files),
        cmocka_unit_test(damaged_columns_are_left),
        cmocka_unit_test(rot_is_not_written_anew),
        cmocka_unit_test(blocks_are_checked_as_they_are_copied),
        cmocka_unit_test(a_pack_without_its_table),
        cmocka_unit_test(tiers_bound_packs_and_rewrites),
        cmocka_unit_test(packs_of_new_segments_are_merged),
        cmocka_unit_test(turnover_is_bounded),
        cmocka_unit_test(half_dead_packs_are_rewritten),
        cmocka_unit_test(room_is_asked_for_first),
        cmocka_unit_test(bad_options_are_refused),
    };
    return cmocka_run_group_tests_name("store repack", tests, test_dir_create,
                                       test_dir_remove);
}
