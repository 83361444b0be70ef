/* Bands of several lanes, narrow and wide ones: all ways to ask for all segments agree
 * with one segment at a time, while pages are still to be checked, after, and when they
 * are bad. */
#include "tests/support/store_packs.h"

enum { KEYS = 120, PROBES = 300 };

/* In the order of names they are in that of columns: a row is all answers. */
static const char *padded(unsigned i)
{
    static char names[4][32];
    static unsigned next;
    char *name = names[next++ % 4];
    snprintf(name, sizeof names[0], "s%04u", i);
    return name;
}

/* n segments of one size, packed from their keys. */
static struct tamis_store *store_of_lanes(unsigned n, double error)
{
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    struct tamis_packer *p;
    OK(tamis_edit_packer(e, NULL, &p, NULL));
    for (unsigned i = 0; i < n; i++) {
        struct tamis_builder *b;
        const char *name = padded(i);
        OK(tamis_edit_builder(e, name, strlen(name), error, NULL, &b, NULL));
        for (unsigned k = 0; k < KEYS; k++) {
            struct tamis_key key = key_in(s, i * 1000 + k);
            OK(tamis_builder_add_hashes(b, key.tag, &key.hash, 1));
        }
        OK(tamis_packer_take(p, b, NULL));
        tamis_builder_free(b);
    }
    OK(tamis_edit_put_packed(e, p, NULL, NULL));
    tamis_packer_free(p);
    OK(tamis_edit_commit(e, NULL));
    return s;
}

/* For each key the segments that lack it: by one call a key, and by one for all. */
static void ask_all(struct tamis_snapshot *snap, const struct tamis_key *keys,
                    uint64_t *rows, size_t n_words)
{
    static uint64_t again[PROBES * MAX_SEGMENTS / 64];
    for (size_t i = 0; i < PROBES; i++)
        tamis_snapshot_probe_all(snap, &keys[i], rows + i * n_words, NULL);
    tamis_snapshot_probe_keys(snap, NULL, 0, keys, PROBES, again);
    assert_memory_equal(rows, again, PROBES * n_words * sizeof *rows);
}

/* Key i is of segment i % n, or of none. */
static void check(struct tamis_snapshot *snap, const struct tamis_key *keys, unsigned n,
                  const uint64_t *rows)
{
    size_t n_words = (n + 63) / 64, n_absent = 0;
    for (size_t i = 0; i < PROBES; i++)
        for (size_t j = 0; j < n; j++) {
            struct tamis_target t = tamis_snapshot_target(snap, j);
            bool absent = rows[i * n_words + j / 64] >> j % 64 & 1;
            assert_int_equal(absent, tamis_snapshot_probe(snap, &t, &keys[i], NULL));
            n_absent += absent;
        }
    assert_true(n_absent > PROBES * (n - 1) * 9 / 10);
    for (size_t i = 0; i < PROBES; i += 2) {
        struct tamis_target t;
        const char *name = padded((unsigned)i % n);
        OK(tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t));
        assert_false(rows[i * n_words + (t.slot - 1) / 64] >> (t.slot - 1) % 64 & 1);
    }
}

static void check_lanes(unsigned n, double error)
{
    static uint64_t rows[PROBES * MAX_SEGMENTS / 64];
    struct tamis_key keys[PROBES];
    struct tamis_pack_place place;
    size_t n_words = (n + 63) / 64;
    struct tamis_store *s = store_of_lanes(n, error);
    uint64_t tag = tamis_store_domain(s).tag;
    for (unsigned i = 0; i < PROBES; i++)
        keys[i] = tamis_key_of_hash(
            tag, i % 2 ? random_u64() : key_in(s, i % n * 1000 + i % KEYS).hash);
    struct tamis_snapshot *snap = snapshot_of(s);
    OK(tamis_snapshot_pack(snap, 0, NULL, &place));
    assert_true(place.lanes > 1 && place.n_columns == n && place.n_bands_of_pack == 1);
    assert_true(snap->packs.whole);
    for (int again = 0; again < 2; again++) {
        ask_all(snap, keys, rows, n_words);
        check(snap, keys, n, rows);
    }
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    uint64_t rows_bytes = place.n_blocks * place.lanes * BLOCK_BITS * place.row_bytes;
    for (uint64_t at = 0; at < rows_bytes; at += PAGE_BYTES)
        flip(pack_file(), PAGE_BYTES + at);
    s = store_open("s");
    snap = snapshot_of(s);
    ask_all(snap, keys, rows, n_words);
    assert_true(all_zero((const uint8_t *)rows, PROBES * n_words * sizeof *rows));
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    remove_store("s");
}

static void bands_of_several_lanes(void **state)
{
    (void)state;
    check_lanes(16, 1e-6);
    check_lanes(64, 1e-6);
    check_lanes(256, 1e-4);
    check_lanes(256, 1e-8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bands_of_several_lanes)};
    return cmocka_run_group_tests_name("packs of lanes", tests, test_dir_create,
                                       test_dir_remove);
}
