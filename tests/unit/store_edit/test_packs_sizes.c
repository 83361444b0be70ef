/* Keys and bytes after packing, unpacking, and deriving from packed segments. */
#include "tests/support/store_packs.h"

/* Two lanes of 582 blocks at 0.01%, which share a page in a file. */
enum { KEYS = 29970, BASE = 1000000 };

static struct tamis_derive_report derived(struct tamis_store *s, const char *name,
                                          struct tamis_derivation what, size_t n)
{
    struct tamis_derive_report report;
    struct tamis_snapshot *snap = snapshot_of(s);
    const size_t both[] = {index_of(snap, 0), index_of(snap, 1)};
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_derive(e, name, strlen(name), snap, both, n, &what, NULL, &report,
                         NULL));
    tamis_snapshot_release(snap);
    OK(tamis_edit_commit(e, NULL));
    return report;
}

static void unpack_two(struct tamis_store *s)
{
    struct tamis_snapshot *snap = snapshot_of(s);
    const uint32_t both[] = {(uint32_t)index_of(snap, 0), (uint32_t)index_of(snap, 1)};
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_unpack(e, snap, both, 2, NULL));
    tamis_snapshot_release(snap);
    OK(tamis_edit_commit(e, NULL));
}

/* A column serves as its file does. */
TEST_IN_DIR(columns_are_sources)
{
    STORE s = store_from_keys(8, name_of, KEYS, BASE, 0);
    uint64_t of_eight = 0;
    struct stat st = stat_of(pack_file());
    of_eight = (uint64_t)st.st_size;
    for (int unpacked = 0; unpacked < 2; unpacked++) {
        const struct tamis_derivation all = {.operation = TAMIS_UNION},
                                      common = {.operation = TAMIS_INTERSECTION},
                                      fold = {.operation = TAMIS_FOLD, .factor = 2},
                                      shrink = {.operation = TAMIS_SHRINK,
                                                .error = 0.02};
        struct tamis_derive_report r = derived(s, unpacked ? "tu2" : "tu1", all, 2);
        assert_in_range(r.keys, 2 * KEYS * 98 / 100, 2 * KEYS * 102 / 100);
        assert_true(r.error > 0.01 && r.error < 0.02);
        /* Names behind those of the sources, which stay number 0 and 1. */
        r = derived(s, unpacked ? "ti2" : "ti1", common, 2);
        assert_true(r.keys < KEYS / 2 && r.error < 1e-7);
        r = derived(s, unpacked ? "tf2" : "tf1", fold, 1);
        assert_true(r.keys == KEYS && r.error > 0.014 && r.error < 0.017);
        r = derived(s, unpacked ? "ts2" : "ts1", shrink, 1);
        assert_true(r.keys == KEYS && r.error > 0.014 && r.error <= 0.02);
        assert_true(r.file_bytes < 50000);
        if (!unpacked)
            unpack_two(s);
    }
    drop_segment(s, "tf1"), drop_segment(s, "tf2");
    drop_segment(s, "ts1"), drop_segment(s, "ts2");
    /* They have as many blocks: six of them are no larger than the eight sources. */
    struct tamis_pack_report packed = pack_all(s);
    IS(packed.n_packed, 6);
    assert_true(packed.file_bytes <= of_eight);
    for (uint64_t k = 0; k < KEYS; k += 7)
        for (uint64_t i = 0; i < 2; i++)
            IS(reason_of(s, "tu1", i * BASE + k), TAMIS_HIT);
}

/* ---- what would grow stays a file ---- */

/* A row has room for eight. One large filter alone takes eight times its bytes, three
 * more than twice, and four are packed; small ones are, whatever lies beside them. */
TEST_IN_DIR(large_filters_wait_for_others)
{
    for (int repack = TAMIS_REPACK_NONE; repack <= TAMIS_REPACK_AUTO; repack++) {
        struct tamis_store *s = store_new("s");
        for (unsigned i = 0; i < 3; i++) {
            put_segment(s, name_of(i), i * BASE, KEYS);
            struct tamis_pack_report report = pack_again(s, (enum tamis_repack)repack);
            assert_true(report.n_packed == 0 &&
                        report.n_left[TAMIS_LEFT_LARGER] == i + 1);
            assert_true(report.file_bytes == 0);
            IS(n_filter_files("s"), i + 1);
        }
        put_segment(s, "small", 0, 20);
        struct tamis_pack_report report = pack_again(s, (enum tamis_repack)repack);
        assert_true(report.n_packed == 1 && report.n_left[TAMIS_LEFT_LARGER] == 3);
        assert_true(report.file_bytes < 20000);
        put_segment(s, name_of(3), 3 * BASE, KEYS);
        report = pack_again(s, (enum tamis_repack)repack);
        IS(report.n_left[TAMIS_LEFT_LARGER], 0);
        IS(report.n_packed, repack == TAMIS_REPACK_ALL ? 5 : 4);
        for (unsigned i = 0; i < 4; i++)
            IS(reason_of(s, name_of(i), i * BASE + 9), TAMIS_HIT);
        /* A column has no file to stay in. */
        for (unsigned i = 0; i < 3; i++)
            drop_segment(s, name_of(i));
        report = pack_again(s, TAMIS_REPACK_ALL);
        assert_true(report.n_packed == 2 && report.n_left[TAMIS_LEFT_LARGER] == 0);
        IS(reason_of(s, name_of(3), 3 * BASE + 9), TAMIS_HIT);
        tamis_store_close(s);
        remove_tree("s");
    }
}

/* Filters that stay files, however large, do not call for merges of packs. */
TEST_IN_DIR(large_filters_merge_nothing)
{
    STORE s = store_new("s");
    put_segment(s, "large", 9 * BASE, 200000);
    uint64_t n_repacked = 0;
    for (unsigned i = 0; i < 16; i++) {
        put_segment(s, name_of(i), i * BASE, 100);
        struct tamis_pack_report report = pack_again(s, TAMIS_REPACK_AUTO);
        assert_true(report.n_left[TAMIS_LEFT_LARGER] == 1 && report.n_packed > 0);
        n_repacked += report.n_repacked;
    }
    assert_true(n_repacked <= 2 * 16); /* once a tier */
}

RUN_TESTS(NULL, NULL)
