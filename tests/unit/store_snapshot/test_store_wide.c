/* Snapshots of more segments than two chunks list: 65,152. */
#include "tests/support/store_packs.h"
#include "tests/support/repair_support.h"
#include "tests/support/shop/ways.h"
#include "tests/support/still_disk.h"

enum { TWO_CHUNKS = 2 * CHUNK_COLUMNS, WIDE = TWO_CHUNKS + 200, MOST = WIDE + 128 };

/* The first n_files have files of their own, the others are in a pack at once. */
static void put_many(struct tamis_store *s, unsigned n_files)
{
    struct tamis_edit *e = edit_new(s);
    struct tamis_packer *p = packer_of(e);
    for (unsigned i = 0; i < WIDE; i++) {
        struct tamis_segment_options so = {.size = sizeof so, .rank = i};
        BUILDER b;
        struct tamis_key key = key_in(s, i);
        OK(tamis_edit_builder(e, name_of(i), strlen(name_of(i)), 0.01, &so, &b, NULL));
        add_to(b, BY_HASH, &key);
        OK(i < n_files ? tamis_edit_put(e, b, NULL, NULL)
                       : tamis_packer_take(p, b, NULL));
    }
    if (n_files < WIDE)
        OK(tamis_edit_put_packed(e, p, NULL, NULL));
    tamis_packer_free(p);
    OK(tamis_edit_commit(e, NULL));
}

/* All in one pack: more than a band has columns. */
static void pack_many(struct tamis_store *s, unsigned n_files)
{
    struct tamis_pack_options opt = {.size = sizeof opt, .repack = TAMIS_REPACK_ALL};
    struct tamis_diag diag = {0};
    struct tamis_pack_report report;
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_edit *e = edit_new(s);
    if (tamis_edit_pack(e, snap, NULL, 0, &opt, &report, &diag) != 0)
        fail_msg("%s", diag.what);
    IS(report.n_packed, WIDE);
    IS(report.n_repacked, WIDE - n_files);
    OK(tamis_edit_commit(e, NULL));
}

/* A key of one segment: it alone says HIT, or some say so by chance. */
static void check_key_of(struct tamis_store *s, struct tamis_snapshot *snap, unsigned i)
{
    static uint64_t absent[MOST / 64];
    static uint8_t reasons[MOST];
    struct tamis_key key = key_in(s, i);
    uint32_t found[5000], rank = 0;
    size_t n = tamis_snapshot_info(snap).n_numbers, n_words = (n + 63) / 64;
    size_t n_found, n_hits = 0;
    uint64_t *last = fenced(n_words);
    assert_true(n <= MOST);
    ASK(snap, ALL, KEYS(&key, 1), .absent = last, .reasons = reasons);
    memcpy(absent, last, n_words * 8);
    key.bytes = NULL; /* a row may be all that is asked */
    ASK(snap, ALL, KEYS(&key, 1), .absent = last);
    assert_memory_equal(absent, last, n_words * 8);
    ASK(snap, ALL, KEYS(&key, 1), FOUND(found, 5000, &n_found));
    IS(reasons[index_of(snap, i)], TAMIS_HIT);
    for (size_t at = 0; tamis_snapshot_next(snap, &at); at++) {
        n_hits += reasons[at] != ABSENT_HERE;
        IS(absent[at / 64] >> at % 64 & 1, reasons[at] == ABSENT_HERE);
    }
    IS(n_found, n_hits);
    for (size_t k = 0; k < n_found; k++) {
        struct tamis_segment_info info = segment_at(snap, found[k]);
        assert_true(reasons[found[k]] != ABSENT_HERE && info.rank >= rank);
        rank = info.rank;
    }
}

static void *no_memory(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    (void)at, (void)n, (void)prot, (void)flags, (void)fd, (void)offset;
    errno = ENOMEM;
    return MAP_FAILED;
}

/* Some keys, the first of them one of segment i, of all segments in no order, and again
 * of some of these. */
static void check_list(struct tamis_store *s, struct tamis_snapshot *snap, unsigned i,
                       size_t n_asked)
{
    enum { MOST_KEYS = 70 };
    static struct tamis_target list[MOST];
    static uint64_t all[MOST_KEYS * MOST / 64], looked[MOST_KEYS * MOST / 64];
    struct tamis_key keys[MOST_KEYS];
    size_t n_words = (tamis_snapshot_info(snap).n_numbers + 63) / 64, n = 0, n_list;
    for (size_t k = 0; k < n_asked; k++)
        keys[k] = key_in(s, i + k);
    for (size_t at = 0; tamis_snapshot_next(snap, &at); at++) {
        size_t other = random_below(++n);
        list[n - 1] = list[other];
        list[other] = tamis_snapshot_target(snap, at);
    }
    for (n_list = n, n -= 64; n < n_list; n++)
        list[n] = list[random_below(n - 600)];
    ASK(snap, ALL, KEYS(keys, n_asked), .absent = all);
    for (; n_list > 64; n_list = n_list > 600 ? n_list - n_list / 2 : n_list / 3) {
        struct tamis_target odd = list[n_list - 1];
        list[n_list - 1].snapshot--;
        errno = 77;
        size_t got =
            ASK(snap, LIST(list, n_list), KEYS(keys, n_asked), .absent = looked);
        IS(errno, 77);
        IS(ASK(snap, LIST(list, n_list), KEYS(keys, n_asked)), got);
        for (size_t k = 0; k < n_asked; k++)
            for (size_t j = 0; j < n_list; j++) {
                size_t at = list[j].ordinal - 1,
                       place = k * ((n_list + 63) / 64) + j / 64;
                IS(looked[place] >> j % 64 & 1,
                   j + 1 < n_list && (all[k * n_words + at / 64] >> at % 64 & 1));
            }
        list[n_list - 1] = odd;
    }
}

TEST_IN_DIR(every_chunk_is_asked)
{
    /* More than a process may have mapped, in brief than stay open. */
    unsigned n_files = by_form(16384 + 100, WIDE);
    STORE s = store_new("s");
    put_many(s, n_files);
    pack_many(s, n_files);
    for (int mixed = 0; mixed < 2; mixed++) {
        if (mixed) /* not all are columns: another way */
            put_segment(s, "loose", 100000000, 10);
        SNAPSHOT snap = snapshot_of(s);
        for (unsigned i = 0; i < TWO_CHUNKS; i += 4001)
            check_key_of(s, snap, i);
        for (size_t k = 0; k < 5; k++) {
            io_calls.mmap = k ? mmap : no_memory;
            check_list(s, snap, 1000, (const size_t[]){1, 1, 4, 5, 70}[k]);
        }
        for (unsigned i = TWO_CHUNKS - 30; i < WIDE; i += by_form(9, 3))
            check_key_of(s, snap, i);
    }
}

TEST_IN_DIR(a_row_is_longer_than_its_answers)
{
    enum { N = 50 * 512 + 10 }; /* of fewer the last ones have a band of their own */
    STORE s = store_from_keys(N, name_of, 1, 1, 0.01);
    SNAPSHOT snap = snapshot_of(s);
    assert_true(snap->shared.whole);
    IS(pack_row_words(snap->shared.stripes->band), N / 64 + 8);
    struct tamis_filter *pack;
    OK(tamis_snapshot_pack(snap, 0, &pack, NULL, NULL));
    for (int round = 0; round < 3; round++) { /* with pages to be checked; quickly */
        OK(tamis_store_count(s, round == 2, NULL));
        if (round == 1)
            verified(pack);
        for (unsigned i = 0; i < N; i += 3001)
            check_key_of(s, snap, i);
    }
    /* Where all are columns no row was written: these are 88 bytes each. */
    struct tamis_stats stats;
    OK(tamis_snapshot_stats(snap, 0, &stats));
    assert_true(stats.n_maybe[TAMIS_HIT] >= 9 * 3);
    assert_true(all_zero((const uint8_t *)counters_mine(&snap->counts)->rows,
                         (N + 1) * sizeof(struct count_row)));
}

RUN_TESTS(NULL, NULL)
