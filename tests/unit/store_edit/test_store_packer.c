/* Packs of new segments, made without a file for each (lib/store/edit/packer.c). */
#include "tests/support/shop/shop.h"

/* Segments of many sizes and errors, of one lane and of several; every tenth empty. A
 * large one gets a file. */
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
    take(p, builder_of(s, e, n, 5000, 0.01, 1), 0); /* the least: 512 hashes */
    n_keys[n] = 900;
    OK(tamis_edit_put_packed(e, p, &report, NULL));
    take(p, builder_of(s, e, n + 1, 1, 0.01, 0), TAMIS_ERR_RANGE); /* too late */
    tamis_packer_free(p);
    OK(tamis_edit_commit(e, NULL));
    return report;
}

static void check_keys_of(struct tamis_store *s, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < n_keys[i]; k++)
            IS(reason_of(s, name_of(i), i * 1000 + k), TAMIS_HIT);
}

/* ---- what is put is there ---- */

struct column_check {
    struct tamis_store *s;
    struct tamis_snapshot *snap;
};

/* The table digest is made of the blocks of a filter of these keys. */
static void check_column(struct column_check *c, const struct facts *col)
{
    struct tamis_pack_place place;
    struct tamis_target t;
    struct piece name = column_name(col);
    unsigned i = (unsigned)atoi((const char *)name.at + 1);
    OK(tamis_snapshot_find(c->snap, name.at, name.n, NULL, 0, 0, &t));
    OK(tamis_snapshot_pack(c->snap, t.ordinal - 1, NULL, &place, NULL));
    struct tamis_segment_info info = segment_at(c->snap, t.ordinal - 1);
    assert_true(place.band == col->band &&
                le64_get(col->disk.own_blocks) == place.n_blocks);
    assert_true(info.keys == n_keys[i] && info.watermark == 100 + i &&
                info.rank == i % 7 && le32_get(col->disk.rank) == i % 7 &&
                le64_get(col->disk.keys) == n_keys[i] &&
                le64_get(col->disk.watermark) == 100 + i);
    assert_memory_equal(info.binding, name_of(i), strlen(name_of(i)));
    struct geometry g = {place.n_blocks, place.lanes, place.words};
    size_t n_bytes = (size_t)g.n_blocks * g.lanes * BLOCK_BYTES;
    FREED uint8_t *bits = calloc(1, n_bytes);
    for (unsigned k = 0; k < n_keys[i]; k++)
        geometry_add(bits, &g, key_in(c->s, i * 1000 + k).hash);
    uint64_t d = 0;
    for (size_t at = 0; at < n_bytes; at += BLOCK_BYTES)
        d = XXH3_64bits_withSeed(bits + at, BLOCK_BYTES, d);
    IS(le64_get(col->disk.table_digest), d);
}

static void check_columns(struct tamis_store *s, unsigned n)
{
    struct column_check c = {.s = s, .snap = snapshot_of(s)};
    struct tamis_filter *pack;
    OK(tamis_snapshot_pack(c.snap, index_of(c.snap, 0), &pack, NULL, NULL));
    for (uint32_t i = 0; i < n; i++) {
        struct facts col;
        OK(pack_describe(pack, i, true, &col));
        check_column(&c, &col);
    }
    IS(pack_describe(pack, n, true, &(struct facts){.place = 0}), TAMIS_ERR_RANGE);
    tamis_snapshot_release(c.snap);
}

TEST_IN_DIR(segments_are_there)
{
    static const unsigned sizes[] = {1, 7, 64, 300};
    for (size_t round = 0; round < 4; round++) {
        struct tamis_store *s = store_new("s");
        struct tamis_pack_report r = put_many(s, sizes[round]);
        assert_true(r.n_packed == sizes[round] && r.n_loose == 1 && r.n_bands >= 1);
        IS(n_filter_files("s"), 3);
        check_keys_of(s, sizes[round] + 1);
        check_columns(s, sizes[round]);
        tamis_store_close(s);
        remove_tree("s");
    }
}

/* As any column: repacked, written as a file, listed anew without a catalog. */
TEST_OF_SCENES(they_are_columns_as_any)
{
    scene("columns as any");
    put_many(shop.store, 40);
    steps("put loose 9000000 100; pack how=ALL; is packed=41 repacked=40; files 3");
    check_keys_of(shop.store, 41);
    steps("unpack s0 s14 s5; files 6");
    check_keys_of(shop.store, 41);
    steps("lose catalog; repair; confirm");
    check_keys_of(shop.store, 40);
}

/* ---- a spool that is not as it was ---- */

/* Reads of a file without a name come back with a bit changed, or one of them fails. */
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static int flip_at;
static unsigned n_reads, fails_at;

static ssize_t bad_pread(int fd, void *buf, size_t n, off_t offset)
{
    struct stat st;
    ssize_t got = real_pread(fd, buf, n, offset);
    if (fstat(fd, &st) != 0 || st.st_nlink != 0)
        return got;
    errno = EIO;
    if (++n_reads == fails_at)
        return -1;
    if (!fails_at && got > flip_at)
        ((uint8_t *)buf)[flip_at] ^= 1;
    return got;
}

/* Puts segments of 100 keys, while the spool is bad. */
static int put_badly(struct tamis_store *s, struct tamis_edit *e, unsigned n)
{
    struct tamis_packer *p = packer_of(e);
    struct tamis_diag diag = {0};
    for (unsigned i = 0; i < n; i++)
        take(p, builder_of(s, e, i, n_keys[i] = 100, flip_at % 2 ? 1e-6 : 0.01, 0), 0);
    n_reads = 0;
    real_pread = io_calls.pread;
    io_calls.pread = bad_pread;
    int rc = tamis_edit_put_packed(e, p, NULL, &diag);
    unsigned n_before = n_reads;
    if (rc) {
        assert_non_null(strstr(diag.what, "hashes"));
        IS(tamis_edit_put_packed(e, p, NULL, NULL), rc);
        IS(n_reads, n_before);
        IS(n_filter_files("s"), 0);
    }
    io_calls.pread = real_pread;
    tamis_packer_free(p);
    return rc;
}

/* Reads after a failed one would be good, but the packer does not rely on them. */
TEST_IN_DIR(a_spool_that_changed_is_told)
{
    STORE s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (flip_at = 0, fails_at = 0; flip_at < 64; flip_at++)
        IS(put_badly(s, e, 1), EIO);
    for (fails_at = 1; put_badly(s, e, 4) == EIO; fails_at++)
        IS(n_reads, fails_at);
    IS(n_reads, fails_at - 1); /* all of them were good */
    OK(tamis_edit_commit(e, NULL));
    check_keys_of(s, 4);
}

/* Each lane of so many hashes is read in pieces. Each hash is put twice. */
TEST_IN_DIR(one_of_many_hashes)
{
    enum { N = 60000 };
    static uint64_t hashes[N];
    for (size_t i = 0; i < N; i++)
        hashes[i] = random_u64();
    STORE s = store_new("s");
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
    IS(report.n_packed, 1);
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_pack_place place;
    OK(tamis_snapshot_pack(snap, 0, NULL, &place, NULL));
    assert_true(place.lanes > 1);
    size_t n_absent = 0;
    for (size_t i = 0; i < N; i++) {
        struct tamis_key in = (struct tamis_key){.tag = tag, .hash = hashes[i]},
                         out = (struct tamis_key){.tag = tag, .hash = random_u64()};
        IS(ASK(snap, ALL, KEYS(&in, 1)), TAMIS_MAYBE);
        n_absent += ASK(snap, ALL, KEYS(&out, 1)) == TAMIS_ABSENT;
    }
    assert_true(n_absent > N - N / 1000);
}

RUN_TESTS(NULL, NULL)
