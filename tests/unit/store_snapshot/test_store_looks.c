/* Snapshots of a store whose files are replaced: within a second no probe proves
 * anything, and no probe waits for a look at the files. */
#include "tests/support/replaced_support.h"
#include "tests/support/shop/ways.h"

static struct tamis_snapshot *asked;
static struct tamis_key absent_key;

/* A store, and the snapshot that is asked. */
static void asked_ends(struct tamis_store **s)
{
    tamis_snapshot_release(asked);
    asked = NULL;
    tamis_store_close(*s);
}
#define ASKED CLOSED_BY(asked_ends, struct tamis_store *)

static enum tamis_reason reason_now(void)
{
    enum tamis_reason why;
    struct tamis_target t = tamis_snapshot_target(asked, 0);
    bool absent = tamis_snapshot_probe(asked, &t, &absent_key, &why) == TAMIS_ABSENT;
    IS(absent, why == TAMIS_NO_REASON);
    return why;
}

/* All ways to ask say it. */
static void all_must_say(enum tamis_reason want)
{
    enum { MOST = 40 };
    size_t n = tamis_snapshot_info(asked).n_numbers;
    struct tamis_target targets[MOST];
    struct tamis_key keys[2] = {absent_key, absent_key};
    uint8_t why[2 * MOST];
    assert_true(n <= MOST);
    for (size_t i = 0; i < n; i++)
        targets[i] = tamis_snapshot_target(asked, i);
    for (int listed = 0; listed < 2; listed++) {
        ask_every_way(asked, listed ? targets : NULL, n, keys, 2, why);
        for (size_t i = 0; i < 2 * n; i++)
            IS(why[i], want);
    }
}

static struct tamis_store *store_to_ask(size_t n_segments, bool packed)
{
    remove_stores();
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < n_segments; i++)
        OK(put_keys(e, segment_name('a', (int)i), 100 * i, 100, NULL));
    OK(tamis_edit_commit(e, NULL));
    if (packed) {
        SNAPSHOT loose = snapshot_of(s);
        EDIT(s, tamis_edit_pack(edit, loose, NULL, 0, NULL, NULL, NULL));
    }
    asked = snapshot_of(s);
    uint64_t k = 99999999;
    do {
        absent_key = key_in(s, k++);
        absent_key.bytes = NULL; /* so that no range says it */
    } while (ASK(asked, ALL, KEYS(&absent_key, 1)) == TAMIS_MAYBE);
    all_must_say(TAMIS_NO_REASON); /* and looks */
    return s;
}

TEST_WITH_OTHER(readers_notice_within_a_second)
{
    void (*const changes[])(void) = {replace_catalog, remove_lock,
                                     remove_catalog,  replace_filters,
                                     move_away,       move_away_and_copy_back};
    for (size_t k = 0; k < 2 * N_OF(changes); k++)
        for (size_t n = 1; n <= 33; n += 32) {
            ASKED s = store_to_ask(n, k % 2);
            struct tamis_snapshot *now;
            struct tamis_diag diag = {0};
            changes[k / 2]();
            pass(1000);
            all_must_say(TAMIS_MISMATCH);
            must_say(tamis_snapshot_current(s, &now, &diag), &diag, "while");
            assert_null(now);
            pass(1000); /* for ever */
            all_must_say(TAMIS_MISMATCH);
        }
}

/* Nobody else asks, so an explanation has to look by itself. */
TEST_WITH_OTHER(explanations_look_too)
{
    for (int packed = 0; packed < 2; packed++) {
        struct tamis_explanation why;
        ASKED s = store_to_ask(1, packed);
        struct tamis_target t = tamis_snapshot_target(asked, 0);
        IS(tamis_snapshot_explain(asked, &t, &absent_key, &why), TAMIS_ABSENT);
        replace_catalog();
        pass(1000);
        IS(tamis_snapshot_explain(asked, &t, &absent_key, &why), TAMIS_MAYBE);
        assert_true(why.by == TAMIS_BY_NOTHING && why.reason == TAMIS_MISMATCH);
    }
}

/* A thread reads the clock at every 64th key, for all stores that it asks. */
TEST_WITH_OTHER(readers_notice_though_the_clock_is_read_for_others)
{
    for (int packed = 0; packed < 2; packed++) {
        ASKED s = store_to_ask(2, packed);
        struct tamis_target targets[] = {tamis_snapshot_target(asked, 0),
                                         tamis_snapshot_target(asked, 1)};
        uint64_t bits[1];
        replace_catalog();
        pass(1000);
        quick_tick();              /* as a probe of another store does */
        quick_left = QUICK_PROBES; /* and its next ones come fast */
        IS(packed ? ASK(asked, ALL, KEYS(&absent_key, 1), .absent = bits)
                  : ASK(asked, LIST(targets, 2), KEYS(&absent_key, 1), .absent = bits),
           TAMIS_MAYBE);
        IS(bits[0], 0);
    }
}

TEST_WITH_OTHER(readers_notice_an_older_copy_in_place)
{
    STORE s = store_new("s");
    save_copy();
    OK(try_put(s, 'a', 1, NULL));
    asked = snapshot_of(s);
    absent_key = key_in(s, 99999999);
    all_must_say(TAMIS_NO_REASON);
    restore_in_place();
    pass(1000);
    all_must_say(TAMIS_MISMATCH);
    IS(count_segments(s), -1);
    tamis_snapshot_release(asked);
}

TEST_WITH_OTHER(a_catalog_that_is_cut_off_proves_nothing)
{
    ASKED s = store_to_ask(5, false);
    save_copy();
    overwrite_with_zeros();
    pass(1000);
    all_must_say(TAMIS_UNREADABLE);
    restore_in_place();
    pass(500);
    all_must_say(TAMIS_NO_REASON);
}

/* Nobody commits anything meanwhile. */
TEST_WITH_OTHER(a_pack_that_is_put_back_answers_again)
{
    for (int k = 0; k < 4; k++) {
        char file[80];
        ASKED s = store_to_ask(2, true);
        struct tamis_segment_info info = segment_at(asked, 0);
        snprintf(file, sizeof file, "s/%.41s%s", info.file, k % 2 ? "dead" : "tamis");
        tamis_snapshot_release(asked);
        tamis_store_close(s);
        rename_to(file, "s/kept");
        OK(k / 2 ? mkdir(path_of(file), 0700) : 0);
        OK(tamis_store_open(path_of("s"), NULL, &s, NULL));
        asked = snapshot_of(s);
        for (int i = 0; i < 3; i++) { /* and stays the same snapshot meanwhile */
            pass(500);
            SNAPSHOT still = snapshot_of(s);
            assert_ptr_equal(still, asked);
            assert_true(reason_now() > TAMIS_HIT);
        }
        OK(k / 2 ? rmdir(path_of(file)) : 0);
        rename_to("s/kept", file);
        pass(500);
        tamis_snapshot_release(asked);
        asked = snapshot_of(s);
        all_must_say(TAMIS_NO_REASON);
    }
}

/* Others may edit as they like. */
TEST_WITH_OTHER(a_list_that_goes_on_is_no_other_store)
{
    ASKED s = store_to_ask(1, false);
    OK(tell('o', 0, path_of("s")));
    for (int i = 0; i < 5; i++) {
        OK(tell('p', i, NULL));
        pass(1000);
        all_must_say(TAMIS_NO_REASON);
        IS(count_segments(s), i + 2);
    }
}

TEST_WITH_OTHER(between_looks_there_is_no_system_call)
{
    ASKED s = store_to_ask(33, false);
    pass(500);
    all_must_say(TAMIS_NO_REASON);
    n_looks = 0;
    for (int i = 0; i < 1000; i++) {
        pass(i % 400 ? 0 : 1);
        all_must_say(TAMIS_NO_REASON);
    }
    IS(n_looks, 0);
    pass(500);
    all_must_say(TAMIS_NO_REASON);
    IS(n_looks, 3); /* the catalog, its lock file, filters/: once */
}

TEST_WITH_OTHER(a_snapshot_that_outlives_its_store_looks_on)
{
    struct tamis_store *s = store_to_ask(5, false);
    tamis_store_close(s);
    pass(1000);
    all_must_say(TAMIS_NO_REASON);
    replace_catalog();
    pass(1000);
    all_must_say(TAMIS_MISMATCH);
    tamis_snapshot_release(asked);
}

static int ask_in_child(void *ctx)
{
    pass(1000);
    all_must_say(TAMIS_NO_REASON);
    replace_catalog();
    pass(1000);
    all_must_say(TAMIS_MISMATCH);
    return 0;
}

TEST_WITH_OTHER(so_does_one_in_a_child)
{
    ASKED s = store_to_ask(5, false);
    in_child(ask_in_child, NULL);
}

/* ---- no probe waits ---- */

static sigjmp_buf out;
static enum tamis_reason nested;

static void jump_out(void)
{
    siglongjmp(out, 1);
}

static void ask_meanwhile(void)
{
    nested = reason_now();
}

static void ask_a_second_later(void)
{
    replace_catalog();
    pass(1000);
    nested = reason_now();
}

TEST_WITH_OTHER(a_look_that_never_ends_holds_nobody_up)
{
    ASKED s = store_to_ask(1, false);
    pass(500);
    in_the_look = jump_out;
    if (sigsetjmp(out, 0) == 0)
        reason_now();
    assert_null(in_the_look);
    all_must_say(TAMIS_NO_REASON);
    replace_catalog();
    pass(500); /* what was known is not valid any more */
    all_must_say(TAMIS_MISMATCH);
}

/* A caller that jumps out of a question to a few segments is left with MAYBE, whatever
 * the rows said before. */
TEST_WITH_OTHER(a_jump_out_leaves_maybe)
{
    static uint64_t rows[2]; /* static: a jump leaves it as it is */
    struct tamis_key keys[2];
    rows[0] = rows[1] = UINT64_MAX;
    ASKED s = store_to_ask(2, false);
    struct tamis_target targets[2] = {tamis_snapshot_target(asked, 0),
                                      tamis_snapshot_target(asked, 1)};
    keys[0] = keys[1] = absent_key;
    all_must_say(TAMIS_NO_REASON); /* all pages are checked */
    pass(500);
    in_the_look = jump_out;
    if (sigsetjmp(out, 0) == 0)
        ASK(asked, LIST(targets, 2), KEYS(keys, 2), .absent = rows);
    assert_null(in_the_look);
    assert_true(rows[0] == 0 && rows[1] == 0);
}

TEST_WITH_OTHER(others_go_on_while_one_looks)
{
    ASKED s = store_to_ask(1, false);
    pass(500);
    nested = TAMIS_UNREADABLE;
    n_looks = 0;
    in_the_look = ask_meanwhile;
    IS(reason_now(), TAMIS_NO_REASON);
    IS(nested, TAMIS_NO_REASON);
    IS(n_looks, 3); /* of one thread */
    /* Its look began before the file was replaced, and ends much later. */
    pass(500);
    in_the_look = ask_a_second_later;
    reason_now();
    IS(nested, TAMIS_MISMATCH);
    all_must_say(TAMIS_MISMATCH);
}

static ssize_t fail_pread(int fd, void *buf, size_t n, off_t offset)
{
    errno = EIO;
    return -1;
}

/* Not knowing is MAYBE, until somebody knows. */
TEST_WITH_OTHER(a_look_that_fails_is_no_proof_of_either)
{
    ASKED s = store_to_ask(1, false);
    pass(500);
    io_calls.pread = fail_pread;
    IS(reason_now(), TAMIS_UNREADABLE);
    IS(reason_now(), TAMIS_UNREADABLE);
    io_calls.pread = pread;
    all_must_say(TAMIS_NO_REASON);
}

RUN_TESTS(test_dir_create, test_dir_remove)
