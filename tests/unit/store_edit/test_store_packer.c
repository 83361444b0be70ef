/* Packs of new segments, made without a file for each (lib/store/edit/packer.c). */
#include "tests/unit/store_edit/packer_support.h"
#include "format/pack.h"
#include "lib/io/io.h"
#include "lib/pack/pack.h"
#include "lib/plan/plan.h"

#include <sys/stat.h>

/* Segments of many sizes and errors, of one lane and of several; every tenth empty. */
static struct tamis_pack_report put_many(struct tamis_store *s, unsigned n)
{
    static const double errors[] = {0.01, 0.01, 0.01, 1e-3, 1e-6};
    struct tamis_pack_report report;
    struct tamis_edit *e = edit_new(s);
    struct tamis_packer *p = packer_of(e);
    for (unsigned i = 0; i < n; i++) {
        n_keys[i] = i % 10 == 9 ? 0 : 1 + (unsigned)random_below(i % 3 ? 900 : 60);
        take(p, builder_of(s, e, i, n_keys[i], errors[i % 5], 0), 0);
    }
    OK(tamis_edit_put_packed(e, p, &report, NULL));
    take(p, builder_of(s, e, n, 1, 0.01, 0), TAMIS_ERR_RANGE); /* too late */
    tamis_packer_free(p);
    OK(tamis_edit_commit(e, NULL));
    return report;
}

static void check_keys_of(struct tamis_store *s, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < n_keys[i]; k++)
            assert_int_equal(reason_of(s, name_of(i), i * 1000 + k), TAMIS_HIT);
}

/* ---- what is put is there ---- */

struct column_check {
    struct tamis_store *s;
    struct tamis_snapshot *snap;
    unsigned n;
};

/* The column answers as a filter of its keys and blocks, bit for bit, and the table
 * digest is made of the filter's blocks. */
static int check_column(void *ctx, uint32_t band, uint32_t column,
                        const struct column *col)
{
    struct column_check *c = ctx;
    struct tamis_pack_place place;
    struct tamis_segment_info info;
    struct tamis_target t;
    unsigned i = (unsigned)atoi((const char *)col->name + 1);
    OK(tamis_snapshot_find(c->snap, col->name, col->name_bytes, NULL, 0, 0, &t));
    OK(tamis_snapshot_pack(c->snap, t.slot - 1, NULL, &place));
    OK(tamis_snapshot_segment(c->snap, t.slot - 1, &info));
    assert_true(place.band == band && col->own_blocks == place.n_blocks);
    (void)column;
    assert_true(info.keys == n_keys[i] && info.watermark == 100 + i &&
                info.rank == i % 7 && col->rank == i % 7 && col->keys == n_keys[i] &&
                col->watermark == 100 + i);
    assert_memory_equal(info.binding, name_of(i), strlen(name_of(i)));
    struct geometry g = {place.n_blocks, place.lanes, place.words};
    size_t n_bytes = (size_t)g.n_blocks * g.lanes * BLOCK_BYTES;
    uint8_t *bits = calloc(1, n_bytes);
    for (unsigned k = 0; k < n_keys[i]; k++)
        geometry_add(bits, &g, key_in(c->s, i * 1000 + k).hash);
    uint64_t d = 0;
    for (size_t at = 0; at < n_bytes; at += BLOCK_BYTES)
        d = XXH3_64bits_withSeed(bits + at, BLOCK_BYTES, d);
    assert_int_equal(col->table_digest, d);
    for (unsigned k = 0; k < 300; k++) {
        struct tamis_key key =
            tamis_key_of_hash(tamis_snapshot_domain(c->snap).tag, random_u64());
        assert_int_equal(tamis_snapshot_probe(c->snap, &t, &key, NULL),
                         geometry_probe(bits, &g, key.hash) ? TAMIS_MAYBE
                                                            : TAMIS_ABSENT);
    }
    free(bits);
    c->n++;
    return 0;
}

static void check_columns(struct tamis_store *s, unsigned n)
{
    struct column_check c = {.s = s, .snap = snapshot_of(s)};
    struct tamis_filter *pack;
    OK(tamis_snapshot_pack(c.snap, 0, &pack, NULL));
    OK(pack_each_column(pack, check_column, &c, NULL));
    assert_int_equal(c.n, n);
    tamis_snapshot_release(c.snap);
}

static void segments_are_there(void **state)
{
    static const unsigned sizes[] = {1, 7, 64, 300};
    (void)state;
    for (size_t round = 0; round < 4; round++) {
        struct tamis_store *s = store_new("s");
        struct tamis_pack_report r = put_many(s, sizes[round]);
        assert_true(r.n_packed == sizes[round] && r.n_loose == 0 && r.n_bands >= 1);
        assert_int_equal(n_filter_files("s"), 2);
        check_keys_of(s, sizes[round]);
        check_columns(s, sizes[round]);
        tamis_store_close(s);
        s = store_open("s");
        check_keys_of(s, sizes[round]);
        tamis_store_close(s);
        remove_store("s");
    }
}

/* As any column: repacked, written as a file, listed anew without a catalog. */
static void they_are_columns_as_any(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    put_many(s, 40);
    put_segment(s, "loose", 9000000, 100);
    struct tamis_pack_options opt = {.size = sizeof opt, .repack = TAMIS_REPACK_ALL};
    struct tamis_pack_report report;
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    OK(tamis_edit_pack(e, snap, NULL, 0, &opt, &report, NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_snapshot_release(snap);
    assert_true(report.n_packed == 41 && report.n_repacked == 40);
    assert_int_equal(n_filter_files("s"), 2);
    check_keys_of(s, 40);
    snap = snapshot_of(s);
    e = edit_new(s);
    const uint32_t some[] = {0, 11, 30};
    OK(tamis_edit_unpack(e, snap, some, 3, NULL));
    OK(tamis_edit_commit(e, NULL));
    tamis_snapshot_release(snap);
    assert_int_equal(n_filter_files("s"), 5);
    check_keys_of(s, 40);
    tamis_store_close(s);
    unlink(path_of("s/catalog.lmdb"));
    unlink(path_of("s/catalog.lmdb-lock"));
    OK(tamis_store_repair(path_of("s"), NULL, NULL, NULL));
    s = store_open("s");
    OK(tamis_store_confirm_complete(s, NULL));
    check_keys_of(s, 40);
    tamis_store_close(s);
    remove_store("s");
}

/* ---- what is left out ---- */

static void a_large_one_gets_a_file(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    struct tamis_packer *p = packer_of(e);
    struct tamis_pack_report report;
    n_keys[0] = n_keys[1] = 900;
    take(p, builder_of(s, e, 0, 5000, 0.01, 1), 0); /* the least: 512 hashes */
    take(p, builder_of(s, e, 1, 900, 0.01, 0), 0);
    OK(tamis_edit_put_packed(e, p, &report, NULL));
    tamis_packer_free(p);
    assert_true(report.n_packed == 1 && report.n_loose == 1);
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_filter_files("s"), 3);
    check_keys_of(s, 2);
    tamis_store_close(s);
    remove_store("s");
}

/* ---- files that will be packed ---- */

static struct tamis_stage_info stage_of(struct tamis_store *s, const char *name)
{
    struct tamis_stage_info stage;
    struct tamis_filter *f;
    struct tamis_target t;
    struct tamis_snapshot *snap = snapshot_of(s);
    OK(tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t));
    OK(tamis_snapshot_filter(snap, t.slot - 1, &f, NULL));
    OK(tamis_filter_stage(f, 0, &stage));
    tamis_snapshot_release(snap);
    return stage;
}

/* As the store says, also after its meta record was written anew (SPEC.md 13.1), and in
 * a copy. */
static void a_store_for_packs_builds_for_them(void **state)
{
    (void)state;
    for (int for_packs = 0; for_packs < 2; for_packs++) {
        struct tamis_store_options opt = {.size = sizeof opt,
                                          .for_packs = (uint64_t)for_packs};
        OK(tamis_store_create(path_of("s"), &opt, NULL));
        struct tamis_store *s = store_open("s");
        assert_int_equal(tamis_store_for_packs(s), for_packs);
        OK(tamis_store_confirm_complete(s, NULL));
        put_segment(s, "a", 1, 500);
        struct tamis_pack_report report = pack_all(s, false);
        assert_int_equal(report.n_packed, 1);
        put_segment(s, "b", 1, 5000);
        OK(tamis_store_backup(s, path_of("t"), NULL, NULL, NULL, NULL));
        tamis_store_close(s);
        s = store_open("t");
        assert_int_equal(tamis_store_for_packs(s), for_packs);
        struct geometry g;
        double error;
        OK(for_packs ? plan_grid_geometry(5000, 0.01, &g)
                     : plan_stage_geometry(5000, 0.01, &g, &error));
        struct tamis_stage_info stage = stage_of(s, "b");
        assert_true(stage.n_blocks == g.n_blocks && stage.lanes == g.lanes &&
                    stage.words == g.words);
        tamis_store_close(s);
        remove_store("s");
        remove_store("t");
    }
    assert_int_equal(tamis_store_for_packs(NULL), 0);
}

/* ---- what ends early ---- */

static void an_abort_leaves_nothing(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    struct tamis_packer *p = packer_of(e);
    take(p, builder_of(s, e, 1, 10, 0.01, 0), 0);
    OK(tamis_edit_put_packed(e, p, NULL, NULL));
    tamis_packer_free(p);
    assert_int_equal(n_filter_files("s"), 2);
    tamis_edit_abort(e);
    assert_int_equal(n_filter_files("s"), 0);
    /* Put and dropped by one edit. */
    e = edit_new(s);
    p = packer_of(e);
    take(p, builder_of(s, e, 1, 10, 0.01, 0), 0);
    OK(tamis_edit_put_packed(e, p, NULL, NULL));
    tamis_packer_free(p);
    OK(tamis_edit_drop(e, name_of(1), strlen(name_of(1)), NULL));
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(n_filter_files("s"), 0);
    assert_int_equal(reason_of(s, name_of(1), 1000), TAMIS_UNKNOWN_SEGMENT);
    tamis_store_close(s);
    remove_store("s");
}

/* Reads of a file without a name come back with a bit changed. */
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static int flip_at;

static ssize_t flipping_pread(int fd, void *buf, size_t n, off_t offset)
{
    struct stat st;
    ssize_t got = real_pread(fd, buf, n, offset);
    if (got > flip_at && fstat(fd, &st) == 0 && st.st_nlink == 0)
        ((uint8_t *)buf)[flip_at] ^= 1;
    return got;
}

static void a_spool_that_changed_is_told(void **state)
{
    (void)state;
    for (flip_at = 0; flip_at < 64; flip_at++) {
        struct tamis_store *s = store_new("s");
        struct tamis_edit *e = edit_new(s);
        struct tamis_packer *p = packer_of(e);
        struct tamis_diag diag = {0};
        take(p, builder_of(s, e, 1, 300, flip_at % 2 ? 1e-6 : 0.01, 0), 0);
        real_pread = io_calls.pread;
        io_calls.pread = flipping_pread;
        assert_int_equal(tamis_edit_put_packed(e, p, NULL, &diag), EIO);
        io_calls.pread = real_pread;
        assert_non_null(strstr(diag.what, "hashes"));
        assert_int_equal(n_filter_files("s"), 0);
        tamis_packer_free(p);
        OK(tamis_edit_commit(e, NULL));
        tamis_store_close(s);
        remove_store("s");
    }
}

/* So many hashes that each lane is read in pieces, each of them put twice. */
static void one_of_many_hashes(void **state)
{
    enum { N = 60000 };
    static uint64_t hashes[N];
    (void)state;
    for (size_t i = 0; i < N; i++)
        hashes[i] = random_u64();
    struct tamis_store *s = store_new("s");
    uint64_t tag = tamis_store_domain(s).tag;
    struct tamis_edit *e = edit_new(s);
    struct tamis_packer *p = packer_of(e);
    struct tamis_builder *b;
    OK(tamis_edit_builder(e, "large", 5, 1e-4, NULL, &b, NULL));
    OK(tamis_builder_add_hashes(b, tag, hashes, N));
    OK(tamis_builder_add_hashes(b, tag, hashes, N));
    take(p, b, 0);
    struct tamis_pack_report report;
    OK(tamis_edit_put_packed(e, p, &report, NULL));
    tamis_packer_free(p);
    OK(tamis_edit_commit(e, NULL));
    assert_int_equal(report.n_packed, 1);
    struct tamis_snapshot *snap = snapshot_of(s);
    struct tamis_pack_place place;
    OK(tamis_snapshot_pack(snap, 0, NULL, &place));
    assert_true(place.lanes > 1);
    size_t n_absent = 0;
    for (size_t i = 0; i < N; i++) {
        struct tamis_key in = tamis_key_of_hash(tag, hashes[i]),
                         out = tamis_key_of_hash(tag, random_u64());
        assert_int_equal(tamis_snapshot_probe_all(snap, &in, NULL, NULL), TAMIS_MAYBE);
        n_absent += tamis_snapshot_probe_all(snap, &out, NULL, NULL) == TAMIS_ABSENT;
    }
    assert_true(n_absent > N - N / 1000);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    remove_store("s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_are_there),
        cmocka_unit_test(they_are_columns_as_any),
        cmocka_unit_test(a_large_one_gets_a_file),
        cmocka_unit_test(a_store_for_packs_builds_for_them),
        cmocka_unit_test(an_abort_leaves_nothing),
        cmocka_unit_test(a_spool_that_changed_is_told),
        cmocka_unit_test(one_of_many_hashes),
    };
    return cmocka_run_group_tests_name("packer", tests, test_dir_create,
                                       test_dir_remove);
}
