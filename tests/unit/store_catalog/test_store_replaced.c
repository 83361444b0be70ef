/* A store whose files are replaced while a process has it open: the caveats of LMDB and
 * the ways to corrupt a database that SQLite lists, one after the other. Nothing that a
 * call acknowledged may be lost, and no file of another process may go. */
#include "tests/support/replaced_support.h"

enum { IN_TURN = 20 };

/* ---- what is done to the files ---- */

static void replace_both(void)
{
    replace_catalog();
    remove_lock();
}

/* ---- what must hold ---- */

/* All edits that returned 0 are there when everybody has closed it and a new process
 * opens it, with their files; whatever is listed answers. */
static void must_hold_all(const int *of_a, const int *of_b)
{
    struct tamis_store *s = store_open("s");
    for (int i = 0; i < IN_TURN; i++) {
        if (of_a[i] == 0)
            must_be_listed(s, 'a', i);
        if (of_b[i] == 0)
            must_be_listed(s, 'b', i);
    }
    tamis_store_close(s);
}

/* A has the store open, `change` happens, B opens it if it may, both edit in turn. */
static int edit_in_turn(void (*change)(void), int *of_a, int *of_b)
{
    struct tamis_store *a = store_new("s");
    put_segment(a, "base", 0, 100);
    change();
    int opened = tell('o', 0, path_of("s"));
    for (int i = 0; i < IN_TURN; i++) {
        of_b[i] = opened ? opened : tell('p', i, NULL);
        of_a[i] = try_put(a, 'a', i, NULL);
    }
    tamis_store_close(a);
    tell('c', 0, NULL);
    return opened;
}

/* ---- the files replaced, and both go on ---- */

static void a_lock_file_that_is_removed_stops_all(void **state)
{
    int a[IN_TURN], b[IN_TURN];
    (void)state;
    /* B must not work beside A with another lock. */
    int opened = edit_in_turn(remove_lock, a, b);
    must_hold_all(a, b);
    assert_int_equal(opened, TAMIS_ERR_REPLACED);
    for (int i = 0; i < IN_TURN; i++)
        assert_int_equal(a[i], TAMIS_ERR_REPLACED);
    OK(tell('o', 0, path_of("s")));
    OK(tell('p', 1, NULL));
}

static void who_has_the_old_catalog_writes_no_more(void **state)
{
    int a[IN_TURN], b[IN_TURN];
    (void)state;
    void (*const changes[])(void) = {replace_catalog, replace_both,
                                     move_away_and_copy_back};
    for (size_t k = 0; k < sizeof changes / sizeof changes[0]; k++) {
        int opened = edit_in_turn(changes[k], a, b);
        must_hold_all(a, b);
        assert_int_equal(opened, 0);
        for (int i = 0; i < IN_TURN; i++) {
            assert_int_equal(a[i], TAMIS_ERR_REPLACED);
            assert_int_equal(b[i], 0);
        }
        nftw(path_of("s"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
        nftw(path_of("t"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

static void nor_who_has_lost_it(void **state)
{
    (void)state;
    void (*const changes[])(void) = {remove_catalog, move_away, remove_lock};
    for (size_t k = 0; k < sizeof changes / sizeof changes[0]; k++) {
        struct tamis_store *a = store_new("s");
        put_segment(a, "base", 0, 100);
        changes[k]();
        must_refuse_edits(a);
        tamis_store_close(a);
        nftw(path_of("s"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
        nftw(path_of("t"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

/* A program that knows LMDB alone, or an earlier tamis: it opens whatever lock it
 * finds.
 */
static int put_past_us(void *ctx)
{
    (void)ctx;
    poke_catalog("s", "other", "key", "value", 5);
    return 0;
}

static void who_writes_with_another_lock_is_noticed(void **state)
{
    (void)state;
    struct tamis_store *a = store_new("s");
    put_segment(a, "base", 0, 100);
    /* The lock file comes back under its name: only the transaction tells. */
    rename_to(LOCK, "s/lock");
    in_child(put_past_us, NULL);
    rename_to("s/lock", LOCK);
    struct tamis_diag diag = {0};
    must_say(try_put(a, 'a', 1, &diag), &diag, "newest transaction");
    tamis_store_close(a);
    a = store_open("s");
    OK(try_put(a, 'a', 1, NULL));
    tamis_store_close(a);
}

/* ---- restored in place ---- */

static void an_older_copy_written_over_the_file_is_noticed(void **state)
{
    (void)state;
    struct tamis_store *a = store_new("s");
    put_segment(a, "base", 0, 100);
    save_copy();
    for (int i = 0; i < 3; i++)
        OK(try_put(a, 'a', i, NULL));
    restore_in_place();
    struct tamis_diag diag = {0};
    must_say(try_put(a, 'a', 3, &diag), &diag, "newest transaction");
    assert_int_equal(tell('o', 0, path_of("s")), TAMIS_ERR_REPLACED);
    must_refuse_edits(a); /* from now on */
    tamis_store_close(a);
    OK(tell('o', 0, path_of("s"))); /* as old as it is */
    assert_int_equal(tell('n', 0, NULL), 1);
}

static void so_is_the_catalog_of_another_store(void **state)
{
    (void)state;
    struct tamis_store *a = store_new("s");
    put_segment(a, "base", 0, 100);
    struct tamis_store *t = store_new("t");
    put_segment(t, "base", 0, 100);
    tamis_store_close(t);
    file_copy(path_of("t/catalog.lmdb"), path_of("s/older"));
    restore_in_place();
    struct tamis_diag diag = {0};
    must_say(try_put(a, 'a', 1, &diag), &diag, "another store");
    tamis_store_close(a);
}

static void and_a_file_of_nothing(void **state)
{
    (void)state;
    struct tamis_store *a = store_new("s");
    put_segment(a, "base", 0, 100);
    save_copy();
    overwrite_with_zeros();
    struct tamis_diag diag = {0};
    must_say(try_put(a, 'a', 1, &diag), &diag, "no catalog now");
    restore_in_place(); /* LMDB may look at it when it closes */
    tamis_store_close(a);
}

/* ---- in the middle of an edit ---- */

static struct tamis_edit *edit_with(struct tamis_store *s, int i)
{
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, segment_name('a', i), first_key('a', i), 100, NULL));
    return e;
}

static void replaced_after_an_edit_began(void **state)
{
    (void)state;
    struct tamis_store *a = store_new("s");
    struct tamis_diag diag = {0};
    struct tamis_edit *e = edit_with(a, 1);
    replace_catalog();
    must_say(tamis_edit_commit(e, &diag), &diag, "while");
    tamis_store_close(a);
    a = store_open("s");
    assert_int_equal(count_segments(a), 0);
    tamis_store_close(a);
}

static int replace_and_say(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    (void)ctx;
    replace_catalog();
    return catalog_set_complete(t, false, diag);
}

/* The transaction is there, and is not committed. */
static void replaced_before_the_commit(void **state)
{
    (void)state;
    struct tamis_store *a = store_new("s");
    struct tamis_diag diag = {0};
    struct stat before, after;
    bool unsure = true;
    int fd = open(path_of(CATALOG), O_RDONLY | O_CLOEXEC);
    uint64_t newest, then;
    OK(catalog_file_newest(fd, 0, &newest));
    OK(fstat(fd, &before));
    must_say(catalog_write(a->catalog, replace_and_say, NULL, &unsure, &diag), &diag,
             "while");
    assert_false(unsure);
    OK(catalog_file_newest(fd, 0, &then));
    OK(fstat(fd, &after));
    assert_int_equal(newest, then);
    assert_int_equal(before.st_size, after.st_size);
    close(fd);
    tamis_store_close(a);
}

static void (*in_the_sync)(void);

__attribute__((visibility("default"))) int fdatasync(int fd) /* LMDB's, too */
{
    void (*now)(void) = in_the_sync;
    in_the_sync = NULL;
    if (now)
        now();
    return (int)syscall(SYS_fdatasync, fd);
}

/* LMDB says 0. Nobody knows whether the edit is in the copy: its file stays. */
static void replaced_in_the_commit(void **state)
{
    (void)state;
    struct tamis_store *a = store_new("s");
    put_segment(a, "base", 0, 100);
    struct tamis_edit *e = edit_with(a, 1);
    struct tamis_diag diag = {0};
    OK(tamis_edit_drop(e, "base", 4, NULL));
    in_the_sync = replace_catalog;
    must_say(tamis_edit_commit(e, &diag), &diag, "while");
    assert_null(in_the_sync);
    assert_int_equal(n_filter_files("s"), 2); /* nothing goes */
    tamis_store_close(a);
    a = store_open("s");
    assert_int_equal(count_segments(a), 1);
    assert_int_equal(reason_of(a, "base", 5), TAMIS_HIT);
    tamis_store_close(a);
}

/* ---- files of others ---- */

static void a_stale_process_sweeps_nothing(void **state)
{
    (void)state;
    struct tamis_store *a = store_new("s");
    replace_both(); /* with a lock of its own it believes in its list */
    OK(tell('o', 0, path_of("s")));
    for (int i = 0; i < 5; i++)
        OK(tell('p', i, NULL));
    assert_int_equal(n_filter_files("s"), 5);
    must_refuse_edits(a);
    int dir = open(path_of("s/filters"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sweep_orphans(a->catalog, dir);
    assert_int_equal(n_filter_files("s"), 5);
    close(dir);
    tamis_store_close(a);
}

static void nor_does_an_edit_that_is_aborted(void **state)
{
    (void)state;
    struct tamis_store *a = store_new("s");
    struct tamis_edit *e = edit_with(a, 1);
    replace_catalog();
    tamis_edit_abort(e);
    assert_int_equal(n_filter_files("s"), 1);
    tamis_store_close(a);
    a = store_open("s");
    OK(try_put(a, 'a', 2, NULL)); /* sweeps */
    assert_int_equal(n_filter_files("s"), 1);
    tamis_store_close(a);
}

/* ---- a growing filter's bounds ---- */

static void bounds_are_not_raised_in_another_catalog(void **state)
{
    (void)state;
    struct tamis_store *a = store_new("s");
    struct tamis_writer *w;
    struct tamis_diag diag = {0};
    put_growing(a, "g");
    OK(tamis_store_writer(a, "g", 1, &w, NULL));
    OK(tamis_writer_add_key(w, "key", 3));
    OK(tamis_writer_commit(w, 0, NULL));
    replace_catalog();
    must_say(tamis_writer_commit(w, 1, &diag), &diag, "while");
    must_say(tamis_writer_seal(w, 1, NULL, &diag), &diag, "while");
    tamis_writer_close(w);
    assert_int_equal(tamis_store_writer(a, "g", 1, &w, NULL), TAMIS_ERR_REPLACED);
    tamis_store_close(a);
}

/* ---- opened again ---- */

static void stale_handles_are_closed_first(void **state)
{
    (void)state;
    void (*const changes[])(void) = {replace_catalog, remove_lock};
    for (size_t k = 0; k < sizeof changes / sizeof changes[0]; k++) {
        struct tamis_store *a = store_new("s"), *again;
        struct tamis_diag diag = {0};
        OK(try_put(a, 'a', 1, NULL));
        changes[k]();
        must_say(tamis_store_open(path_of("s"), &again, &diag), &diag, "every handle");
        tamis_store_close(a);
        a = store_open("s");
        must_be_listed(a, 'a', 1);
        OK(try_put(a, 'a', 2, NULL));
        tamis_store_close(a);
        nftw(path_of("s"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(a_lock_file_that_is_removed_stops_all),
        EACH(who_has_the_old_catalog_writes_no_more),
        EACH(nor_who_has_lost_it),
        EACH(who_writes_with_another_lock_is_noticed),
        EACH(an_older_copy_written_over_the_file_is_noticed),
        EACH(so_is_the_catalog_of_another_store),
        EACH(and_a_file_of_nothing),
        EACH(replaced_after_an_edit_began),
        EACH(replaced_before_the_commit),
        EACH(replaced_in_the_commit),
        EACH(a_stale_process_sweeps_nothing),
        EACH(nor_does_an_edit_that_is_aborted),
        EACH(bounds_are_not_raised_in_another_catalog),
        EACH(stale_handles_are_closed_first),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
