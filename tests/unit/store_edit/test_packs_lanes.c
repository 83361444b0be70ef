/* Bands of several lanes, narrow and wide ones: all ways to ask for all segments agree
 * with one segment at a time, while pages are still to be checked, after, and when they
 * are bad. */
#include "tests/support/shop/ways.h"
#include "tests/support/store_packs.h"

enum { KEYS = 120, PROBES = WAYS_KEYS };

/* In the order of names they are in that of columns: a row is all answers. */
static const char *padded(unsigned i)
{
    static char names[4][32];
    static unsigned next;
    char *name = names[next++ % 4];
    snprintf(name, sizeof names[0], "s%04u", i);
    return name;
}

/* Key i is of segment i % n, or of none. */
static void check(struct tamis_snapshot *snap, const struct tamis_key *keys, unsigned n)
{
    static uint8_t reasons[PROBES * MAX_SEGMENTS];
    size_t n_absent = 0;
    ask_every_way(snap, NULL, n, keys, PROBES, reasons);
    for (size_t i = 0; i < PROBES * n; i++)
        n_absent += reasons[i] == ABSENT_HERE;
    assert_true(n_absent > PROBES * (n - 1) * 9 / 10);
    for (size_t i = 0; i < PROBES; i += 2) {
        struct tamis_target t = found_in(snap, padded((unsigned)i % n));
        IS(reasons[i * n + t.ordinal - 1], TAMIS_HIT);
    }
}

static void check_lanes(unsigned n, double error)
{
    struct tamis_key keys[PROBES];
    struct tamis_pack_place place;
    struct tamis_store *s = store_from_keys(n, padded, KEYS, 1000, error);
    uint64_t tag = tamis_store_domain(s).tag;
    for (unsigned i = 0; i < PROBES; i++)
        keys[i] = (struct tamis_key){
            .tag = tag,
            .hash = i % 2 ? random_u64() : key_in(s, i % n * 1000 + i % KEYS).hash};
    struct tamis_snapshot *snap = snapshot_of(s);
    OK(tamis_snapshot_pack(snap, 0, NULL, &place, NULL));
    assert_true(place.lanes > 1 && place.n_columns == n && place.n_bands_of_pack == 1);
    assert_true(snap->shared.whole);
    for (int again = 0; again < 2; again++)
        check(snap, keys, n);
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    uint64_t rows_bytes = place.n_blocks * place.lanes * BLOCK_BITS * place.row_bytes;
    for (uint64_t at = 0; at < rows_bytes; at += PAGE_BYTES)
        flip(pack_file(), PAGE_BYTES + at);
    static uint64_t rows[PROBES * WAYS_WORDS];
    size_t n_words = (n + 63) / 64;
    s = store_open("s");
    snap = snapshot_of(s);
    IS(ASK(snap, ALL, KEYS(keys, PROBES), .absent = rows), 0);
    assert_true(all_zero((const uint8_t *)rows, PROBES * n_words * sizeof *rows));
    for (size_t i = 0; i < PROBES; i++) {
        IS(ASK(snap, ALL, KEYS(&keys[i], 1), .absent = rows), TAMIS_MAYBE);
        assert_true(all_zero((const uint8_t *)rows, n_words * sizeof *rows));
    }
    tamis_snapshot_release(snap);
    tamis_store_close(s);
    remove_tree("s");
}

TEST(bands_of_several_lanes)
{
    check_lanes(16, 1e-6);
    check_lanes(64, 1e-6);
    check_lanes(256, 1e-4);
    check_lanes(256, 1e-8);
}

RUN_TESTS(test_dir_create, test_dir_remove)
