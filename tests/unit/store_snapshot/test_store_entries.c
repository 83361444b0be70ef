/* Entries of snapshots: in which order, how long they live, and which of them newer
 * snapshots share. The segments have no filters: that takes no files. */
#include "tests/support/store_support.h"

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))
enum { MANY = 3000 };

static const char *name_at(unsigned i)
{
    static char name[16];
    snprintf(name, sizeof name, "n%05u", i);
    return name;
}

/* Puts each step-th of MANY segments; `again`: drops it before. salt: other ranks. */
static void put_bare(struct tamis_store *s, unsigned step, bool again, uint64_t salt)
{
    struct tamis_edit *e = edit_new(s);
    for (unsigned i = 0; i < MANY; i += step) {
        struct tamis_segment_options opt = {.size = sizeof opt,
                                            .rank = (uint32_t)((i + 1) * salt % 1009)};
        const char *name = name_at(i);
        if (again)
            OK(tamis_edit_drop(e, name, strlen(name), NULL, NULL));
        OK(tamis_edit_put_bare(e, name, strlen(name), &opt, NULL));
    }
    OK(tamis_edit_commit(e, NULL));
}

/* In the order of ranks, then names; each is found under its name, and no other. */
static void check_order(struct tamis_snapshot *snap)
{
    static const char *const missing[] = {"",        "a",       "n",       "n0000",
                                          "n000000", "n00001x", "n02999a", "z"};
    struct tamis_segment_info info, last = {0};
    struct tamis_target t;
    IS(tamis_snapshot_info(snap).n_segments, MANY);
    for (size_t i = 0; i < MANY; i++, last = info) {
        OK(tamis_snapshot_segment(snap, i, &info));
        IS(info.name_bytes, 6);
        assert_true(i == 0 || last.rank < info.rank ||
                    (last.rank == info.rank && memcmp(last.name, info.name, 6) < 0));
        OK(tamis_snapshot_find(snap, info.name, 6, NULL, 0, 0, &t));
        IS(t.ordinal, i + 1);
    }
    for (size_t i = 0; i < N_OF(missing); i++)
        IS(tamis_snapshot_find(snap, missing[i], strlen(missing[i]), NULL, 0, 0, &t),
           TAMIS_ERR_NO_SEGMENT);
}

TEST_IN_DIR(ranks_order_them_and_names_find_them)
{
    static const uint64_t salts[] = {0, 1, 7, 1008, 500};
    STORE s = store_new("s");
    for (size_t i = 0; i < N_OF(salts); i++) {
        put_bare(s, 1, i > 0, salts[i]);
        SNAPSHOT snap = snapshot_of(s);
        check_order(snap);
    }
}

static struct entry *entry_named(struct tamis_snapshot *snap, unsigned i)
{
    return snap->entries[found_in(snap, name_at(i)).ordinal - 1];
}

/* Every 50th survives five edits. */
TEST_IN_DIR(entries_outlive_their_snapshot)
{
    struct tamis_store *s = store_new("s");
    put_bare(s, 1, false, 3);
    struct tamis_snapshot *first = snapshot_of(s);
    put_bare(s, 50, true, 11);
    SNAPSHOT now = snapshot_of(s);
    for (unsigned i = 0; i < MANY; i++)
        IS(entry_named(first, i) == entry_named(now, i), i % 50 != 0);
    check_order(first);
    tamis_snapshot_release(first);
    check_order(now);
    for (uint64_t salt = 2; salt < 7; salt++) {
        struct tamis_edit *e = edit_new(s);
        for (unsigned i = 0; i < MANY; i++) {
            struct tamis_segment_options opt = {.size = sizeof opt,
                                                .rank = (uint32_t)(i * salt % 97)};
            if (i % 50 == 0)
                continue;
            OK(tamis_edit_drop(e, name_at(i), 6, NULL, NULL));
            OK(tamis_edit_put_bare(e, name_at(i), 6, &opt, NULL));
        }
        OK(tamis_edit_commit(e, NULL));
        struct tamis_snapshot *next = snapshot_of(s);
        assert_ptr_equal(entry_named(now, 50), entry_named(next, 50));
        assert_ptr_not_equal(entry_named(now, 51), entry_named(next, 51));
        tamis_snapshot_release(now);
        check_order(next);
        now = next;
    }
    tamis_store_close(s);
    check_order(now);
}

RUN_TESTS(NULL, NULL)
