/* Pages of a catalog that were damaged: a catalog that leads back into itself, one with
 * a bit flipped, and pages that rot while a store is open. */
#include "tests/support/shop/shop.h"

#define A_AND_B "put a 0 100; growing b;"

/* A list of free pages that takes pages of its own; returns the first. */
static size_t long_free_list(uint8_t **bytes, size_t *n)
{
    enum { SEGMENTS = 3500 };
    struct tamis_edit *e = edit_new(opened());
    char name[240];
    for (unsigned i = 0; i < SEGMENTS; i++) {
        snprintf(name, sizeof name, "%0200u", i);
        OK(tamis_edit_put_bare(e, name, 200, NULL, NULL));
    }
    OK(tamis_edit_commit(e, NULL));
    steps("only a; close");
    *bytes = file_read(path_at("catalog"), n);
    for (size_t page = 2; page < *n / 4096; page++) {
        uint64_t number;
        uint16_t flags;
        memcpy(&number, *bytes + page * 4096, 8);
        memcpy(&flags, *bytes + page * 4096 + 10, 2);
        if (number == page && flags == 4)
            return page;
    }
    fail_msg("no page of a long list");
    return 0;
}

TEST_OF_SCENES(a_long_list_of_free_pages_is_checked)
{
    static const struct {
        size_t at;
        uint8_t flip;
    } damages[] = {
        {0, 1},  /* its own number */
        {10, 2}, /* overflow, and a leaf */
        {12, 1}, /* how many pages */
        {13, 1}, /* more than the file has */
        {18, 1}, /* how many numbers */
        {24, 1}, /* the first of them */
        {31, 1}, /* far behind the end */
    };
    scene("pages");
    steps(A_AND_B "close");
    FREED uint8_t *bytes;
    size_t n, page = long_free_list(&bytes, &n);
    for (size_t i = 0; i < N_OF(damages); i++) {
        size_t at = page * 4096 + damages[i].at;
        uint8_t bad = bytes[at] ^ damages[i].flip;
        file_poke(path_at("catalog"), at, &bad, 1);
        steps("fails DAMAGED open; told makes no sense; told_file /s");
        file_poke(path_at("catalog"), at, &bytes[at], 1);
    }
    struct tamis_store *s = opened();
    put_segment(s, "c", 0, 10); /* from the free pages */
    steps("why a 7 HIT; close; open");
}

/* ---- a catalog's pages ---- */

/* A file cut short is walked before LMDB may map it. Here page 2 is a branch with 1900
 * children, each of them page 2. */
TEST_OF_SCENES(pages_that_lead_back_end)
{
    size_t n;
    scene("pages");
    steps(A_AND_B "close");
    FREED uint8_t *bytes = file_read(path_at("catalog"), &n);
    uint64_t root = 2, last = 1000000;
    uint16_t branch = 1, lower = 16 + 2 * 1900, at = 4080;
    assert_true(n >= 3 * 4096);
    for (uint64_t meta = 0; meta < 2; meta++) {
        uint64_t txn = 1000 + meta;
        uint8_t *m = bytes + meta * 4096 + 16; /* after the page's head */
        memcpy(m + 24 + 40, &root, 8);         /* of the free pages */
        memcpy(m + 24 + 48 + 40, &root, 8);    /* of the databases */
        memcpy(m + 24 + 96, &last, 8);
        memcpy(m + 24 + 104, &txn, 8);
    }
    uint8_t *page = bytes + 2 * 4096;
    memset(page, 0, 4096);
    memcpy(page, &root, 8);
    memcpy(page + 10, &branch, 2);
    memcpy(page + 12, &lower, 2);
    for (size_t i = 16; i < lower; i += 2)
        memcpy(page + i, &at, 2);
    memcpy(page + at, &root, 2); /* a node: the child's number first */
    file_write(path_at("catalog"), bytes, n);
    alarm(60);
    steps("fails DAMAGED open; told cut short; told_file /s");
    alarm(0);
}

/* ---- one bit of a catalog ---- */

/* No crash, no key ABSENT that is there, no filter of the list removed. False if the
 * damage was seen at once. */
static bool check_flipped(const char *filter)
{
    struct tamis_store *s;
    struct tamis_edit *e;
    if (tamis_store_open(path_of("s"), NULL, &s, NULL) != 0)
        return false;
    assert_int_not_equal(reason_of(s, "a", 7), ABSENT_HERE);
    if (tamis_edit_begin(s, NULL, &e, NULL) == 0) {
        if (tamis_edit_drop(e, "b", 1, NULL, NULL) != 0)
            tamis_edit_abort(e);
        else if (tamis_edit_commit(e, NULL) != 0) /* frees it all the same */
            OK(access(filter, F_OK));
    }
    assert_int_not_equal(reason_of(s, "a", 7), ABSENT_HERE);
    tamis_store_close(s);
    OK(access(filter, F_OK));
    return true;
}

/* Flips some bits of the pages' heads, and of bytes behind them that are not zero. The
 * free list has pages by then. */
TEST_OF_SCENES(a_flipped_bit_loses_no_key)
{
    size_t n, n_seen = 0, n_flipped = 0;
    scene("pages");
    steps(A_AND_B "open");
    struct tamis_store *s = shop.store;
    put_segment(s, "c", 0, 10);
    drop_segment(s, "c");
    char filter[900];
    snprintf(filter, sizeof filter, "%s", file_of(s, "s", "a"));
    closed();
    FREED uint8_t *bytes = file_read(path_at("catalog"), &n);
    for (size_t i = 0; i < n; i++) {
        if (i % 4096 >= 24 && !bytes[i])
            continue;
        uint8_t bit = (uint8_t)(1 << (i * 5 % 8));
        bytes[i] ^= bit;
        file_write(path_at("catalog"), bytes, n);
        bytes[i] ^= bit;
        n_seen += !check_flipped(filter);
        n_flipped++;
    }
    assert_true(n_flipped > 300);
    assert_true(n_seen > n_flipped / 8);
}

/* Neighbouring leaves are read at once, and each is still checked. */
TEST_OF_SCENES(every_leaf_is_checked)
{
    enum { SEGMENTS = 900 };
    size_t n, n_leaves = 0;
    char name[8];
    scene("pages");
    steps(A_AND_B "open");
    struct tamis_store *s = shop.store;
    struct tamis_edit *e = edit_new(s);
    for (unsigned i = 0; i < SEGMENTS; i++) {
        snprintf(name, sizeof name, "n%05u", i);
        OK(tamis_edit_put_bare(e, name, 6, NULL, NULL));
    }
    OK(tamis_edit_commit(e, NULL));
    closed();
    FREED uint8_t *bytes = file_read(path_at("catalog"), &n);
    for (uint8_t *page = bytes + 2 * 4096; page < bytes + n; page += 4096) {
        uint16_t node;
        memcpy(&node, page + 16, 2);
        if (page[10] != 2 || node > 4000 || memcmp(page + node + 8, "n0", 2) != 0)
            continue;
        page[0] ^= 1; /* its number */
        file_write(path_at("catalog"), bytes, n);
        page[0] ^= 1;
        steps("fails DAMAGED open; told makes no sense; told_file /s");
        n_leaves++;
    }
    file_write(path_at("catalog"), bytes, n);
    steps("open");
    assert_true(n_leaves > 40);
}

/* ---- damage while a store is open ---- */

/* The newest meta page's bytes, from its trees on: [0] of free pages, [48] of
 * databases. */
static const uint8_t *newest_trees(const uint8_t *bytes)
{
    const uint8_t *a = bytes + 40, *b = bytes + 4096 + 40;
    uint64_t ta, tb;
    memcpy(&ta, a + 104, 8);
    memcpy(&tb, b + 104, 8);
    return ta > tb ? a : b;
}

/* A free page that becomes one in use: no transaction may begin to write. */
TEST_OF_SCENES(a_free_page_in_use_is_not_written)
{
    scene("pages");
    steps(A_AND_B "open");
    struct tamis_store *s = shop.store;
    put_segment(s, "c", 0, 10);
    size_t n;
    FREED uint8_t *bytes = file_read(path_at("catalog"), &n);
    const uint8_t *trees = newest_trees(bytes);
    uint64_t free_root, used;
    uint16_t node, key;
    memcpy(&free_root, trees + 40, 8);
    memcpy(&used, trees + 48 + 40, 8);
    memcpy(&node, bytes + free_root * 4096 + 16, 2);
    memcpy(&key, bytes + free_root * 4096 + node + 6, 2);
    size_t at = (size_t)free_root * 4096 + node + 8 + key;
    uint64_t one[2] = {1, used};
    file_poke(path_at("catalog"), at, one, sizeof one);
    IS(tamis_store_confirm(s, NULL, NULL), TAMIS_ERR_DAMAGED);
    closed();
    steps("fails DAMAGED open; told makes no sense; told_file /s");
}

/* A write of a leaf is lost: it has as many entries as before, but older records. */
TEST_OF_SCENES(a_leaf_that_is_older_loses_no_key)
{
    scene("pages");
    steps(A_AND_B "open");
    struct tamis_store *s = shop.store;
    uint8_t *old[8];
    size_t n[8], n_tried = 0;
    for (size_t i = 0; i < 8; i++) {
        if (i) {
            drop_segment(s, "a");
            put_segment(s, "a", 100 * i, 100);
        }
        old[i] = file_read(path_at("catalog"), &n[i]);
    }
    closed();
    for (size_t i = 0; i < 7; i++)
        for (size_t at = 2 * 4096; at + 4096 <= n[i]; at += 4096) {
            if (memcmp(old[i] + at, old[7] + at, 4096) == 0)
                continue;
            file_poke(path_at("catalog"), at, old[i] + at, 4096);
            OK(unlink(path_at("lock")));
            if (tamis_store_open(path_of("s"), NULL, &s, NULL) == 0) {
                assert_int_not_equal(reason_of(s, "a", 750), ABSENT_HERE);
                tamis_store_close(s);
                n_tried++;
            } else
                close(open(path_at("lock"), O_CREAT | O_RDWR, 0666));
            file_poke(path_at("catalog"), at, old[7] + at, 4096);
        }
    assert_true(n_tried > 0);
    for (size_t i = 0; i < 8; i++)
        free(old[i]);
}

/* The newer meta page's page size: LMDB takes it from there, and would crash. */
TEST_OF_SCENES(a_page_size_that_rotted_is_no_crash)
{
    scene("pages");
    steps(A_AND_B "close");
    size_t n;
    FREED uint8_t *bytes = file_read(path_at("catalog"), &n);
    size_t at = (size_t)(newest_trees(bytes) - bytes);
    uint32_t good;
    memcpy(&good, bytes + at, 4);
    for (unsigned bit = 0; bit < 32; bit++) {
        struct tamis_store *s;
        uint32_t bad = good ^ UINT32_C(1) << bit;
        file_poke(path_at("catalog"), at, &bad, 4);
        assert_int_not_equal(tamis_store_open(path_of("s"), NULL, &s, NULL), 0);
    }
    file_poke(path_at("catalog"), at, &good, 4);
    steps("open");
}

/* The root counts one more than there are: one has gone. */
TEST_OF_SCENES(a_tree_that_lost_an_entry_is_damage)
{
    scene("pages");
    steps(A_AND_B "close");
    size_t n;
    FREED uint8_t *bytes = file_read(path_at("catalog"), &n);
    const uint8_t *entries = newest_trees(bytes) + 48 + 32;
    uint64_t more;
    memcpy(&more, entries, 8);
    more++;
    file_poke(path_at("catalog"), (size_t)(entries - bytes), &more, 8);
    steps("fails DAMAGED open; told makes no sense; told_file /s");
}

/* The last key of a leaf is cut off in an open store: its segment is not absent. */
TEST_OF_SCENES(a_list_that_is_short_is_no_list)
{
    scene("pages");
    steps(A_AND_B "open");
    struct tamis_store *s = shop.store;
    size_t n, n_cut = 0;
    FREED uint8_t *bytes = file_read(path_at("catalog"), &n);
    for (size_t page = 2; page < n / 4096; page++) {
        uint16_t lower, flags;
        memcpy(&flags, bytes + page * 4096 + 10, 2);
        memcpy(&lower, bytes + page * 4096 + 12, 2);
        uint16_t cut = (uint16_t)(lower - 2);
        /* The records of "a" and "b" are in one leaf. */
        if (flags == 2 && lower == 20 &&
            memmem(bytes + page * 4096, 4096, "segments", 8) == NULL) {
            file_poke(path_at("catalog"), page * 4096 + 12, &cut, 2);
            n_cut++;
        }
    }
    assert_true(n_cut > 0);
    struct tamis_snapshot *snap;
    IS(tamis_snapshot_current(s, &snap, NULL), TAMIS_ERR_DAMAGED);
}

RUN_TESTS(NULL, NULL)
