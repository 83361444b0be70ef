/* A store whose files are replaced while a process has it open: the caveats of LMDB and
 * the ways to corrupt a database that SQLite lists, one after the other. Nothing that a
 * call acknowledged may be lost, and no file of another process may go. */
#include "lib/store/catalog/lmdb.h"
#include "tests/support/replaced_support.h"

enum { IN_TURN = 20 };

static struct tamis_store *store_of_base(const char *name)
{
    struct tamis_store *s = store_new(name);
    put_segment(s, "base", 0, 100);
    return s;
}

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
    STORE s = store_open("s");
    for (int i = 0; i < IN_TURN; i++) {
        if (of_a[i] == 0)
            must_be_listed(s, 'a', i);
        if (of_b[i] == 0)
            must_be_listed(s, 'b', i);
    }
}

/* A has the store open, `change` happens, B opens it if it may, both edit in turn. */
static int edit_in_turn(void (*change)(void), int *of_a, int *of_b)
{
    struct tamis_store *a = store_of_base("s");
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

TEST_WITH_OTHER(a_lock_file_that_is_removed_stops_all)
{
    int a[IN_TURN], b[IN_TURN];
    /* B must not work beside A with another lock. */
    int opened = edit_in_turn(remove_lock, a, b);
    must_hold_all(a, b);
    IS(opened, TAMIS_ERR_REPLACED);
    for (int i = 0; i < IN_TURN; i++)
        IS(a[i], TAMIS_ERR_REPLACED);
    OK(tell('o', 0, path_of("s")));
    OK(tell('p', 1, NULL));
}

TEST_WITH_OTHER(who_has_the_old_catalog_writes_no_more)
{
    int a[IN_TURN], b[IN_TURN];
    void (*const changes[])(void) = {replace_catalog, replace_both, replace_filters,
                                     move_away_and_copy_back};
    for (size_t k = 0; k < N_OF(changes); k++) {
        int opened = edit_in_turn(changes[k], a, b);
        must_hold_all(a, b);
        IS(opened, 0);
        for (int i = 0; i < IN_TURN; i++) {
            IS(a[i], TAMIS_ERR_REPLACED);
            IS(b[i], 0);
        }
        remove_stores();
    }
}

TEST_WITH_OTHER(nor_who_has_lost_it)
{
    void (*const changes[])(void) = {remove_catalog, move_away, remove_lock};
    for (size_t k = 0; k < N_OF(changes); k++) {
        struct tamis_store *a = store_of_base("s");
        changes[k]();
        must_refuse_edits(a);
        tamis_store_close(a);
        remove_stores();
    }
}

/* A program that knows LMDB alone, or an earlier tamis: it opens any lock. */
static int put_past_us(void *ctx)
{
    poke_catalog("s", "other", "key", "value", 5);
    return 0;
}

TEST_WITH_OTHER(who_writes_with_another_lock_is_noticed)
{
    STORE a = store_of_base("s");
    /* The lock file comes back under its name: only the transaction tells. */
    rename_to(LOCK, "s/lock");
    in_child(put_past_us, NULL);
    rename_to("s/lock", LOCK);
    struct tamis_diag diag = {0};
    must_say(try_put(a, 'a', 1, &diag), &diag, "newest transaction");
    tamis_store_close(a);
    a = store_open("s");
    OK(try_put(a, 'a', 1, NULL));
}

/* ---- a damaged lock file, which LMDB believes ---- */

/* Here, for who closes the lock file in a process drops the locks that LMDB has. */
static int open_with_damaged_lock(void *ctx)
{
    struct tamis_diag diag = {0};
    struct tamis_store *b;
    struct tamis_edit *e;
    file_poke(path_of(LOCK), 0, ctx, 8); /* what LMDB knows it by */
    if (tamis_store_open(path_of("s"), NULL, &b, NULL) ||
        reason_of(b, "base", 5) != TAMIS_HIT || tamis_edit_begin(b, NULL, &e, NULL) ||
        tamis_edit_put_bare(e, "new", 3, NULL, NULL) ||
        tamis_edit_commit(e, &diag) != TAMIS_ERR_BUSY)
        return 1;
    tamis_edit_abort(e);
    tamis_store_close(b);
    return !strstr(diag.file, "/catalog.lmdb-lock") ||
           !strstr(diag.what, "heals when the last process that has the store open "
                              "ends") ||
           tamis_store_repair(path_of("s"), NULL, NULL, NULL) != TAMIS_ERR_BUSY;
}

TEST_WITH_OTHER(a_damaged_lock_file_is_no_lost_catalog)
{
    uint64_t damage[] = {0, UINT64_MAX, UINT64_C(0xBEEFC0DE)}; /* and a version of 0 */
    STORE a = store_of_base("s");
    for (size_t i = 0; i < N_OF(damage); i++)
        in_child(open_with_damaged_lock, &damage[i]);
}

/* The mutexes are destroyed while the store is opened, as by LMDB 0.9.26 and later when
 * the last process closes it at that moment. */
static unsigned n_destroys;

static ssize_t destroy_and_read(int fd, void *buf, size_t n, off_t at)
{
    pthread_mutex_t none = PTHREAD_MUTEX_INITIALIZER;
    off_t places[] = {offsetof(struct lmdb_lock, readers),
                      offsetof(struct lmdb_lock, writer)};
    IS(pthread_mutex_destroy(&none), 0);
    if (n == sizeof(struct lmdb_lock) && n_destroys && n_destroys--)
        for (size_t i = 0; i < 2; i++)
            IS(pwrite(fd, &none, sizeof none, places[i]), sizeof none);
    return pread(fd, buf, n, at);
}

/* It opens the lock file again, but not for ever. Nobody is waited for. */
TEST_WITH_OTHER(mutexes_that_were_destroyed_are_made_anew)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* it objects to the mutex, which is what is tested */
#endif
    struct io_calls calm = io_calls;
    for (n_destroys = 2;; n_destroys = UINT32_MAX) {
        bool once = n_destroys == 2;
        remove_stores();
        tamis_store_close(store_of_base("s"));
        io_calls.pread = destroy_and_read;
        STORE a = store_open("s");
        assert_true(once == (a->catalog->env != NULL));
        IS(try_put(a, 'a', 9, NULL), once ? 0 : TAMIS_ERR_BUSY);
        io_calls = calm;
        IS(reason_of(a, "base", 5), TAMIS_HIT);
        if (!once)
            break;
    }
}

struct hurt {
    uint64_t at;
    int how; /* 0: cut; otherwise what happens to the word there */
    int n_segments;
};

/* In a child: who closes the lock file drops the locks that its process has. */
static int hurt_lock(void *ctx)
{
    const struct hurt *h = ctx;
    size_t n;
    FREED uint8_t *bytes = file_read(path_of(LOCK), &n);
    uint32_t word;
    memcpy(&word, bytes + h->at, sizeof word);
    word = h->how == 1 ? 0 : h->how == 2 ? word ^ 1 : UINT32_MAX;
    if (h->how)
        file_poke(path_of(LOCK), h->at, &word, sizeof word);
    return h->how ? 0 : truncate(path_of(LOCK), (off_t)h->at);
}

/* No list is an older one, no call waits for ever, no signal ends the process. */
static int goes_on_hurt(void *ctx)
{
    const struct hurt *h = ctx;
    struct tamis_diag diag = {0};
    STORE s = store_open("s");
    alarm(60);
    OK(hurt_lock(ctx));
    bool number = h->how && h->at / 8 == offsetof(struct lmdb_lock, txn) / 8;
    int listed = count_segments(s), rc = try_put(s, 'a', 9, &diag);
    if (listed != h->n_segments && !(listed == -1 && number))
        return 1;
    return rc && rc != TAMIS_ERR_REPLACED &&
           (rc != TAMIS_ERR_BUSY || !strstr(diag.what, "heals when"));
}

/* A store whose newest transaction is odd: without its lowest bit it is one less. */
static struct tamis_store *store_of_odd(int *n_segments)
{
    struct tamis_store *s = store_of_base("s");
    uint64_t newest = 0;
    for (*n_segments = 1; newest % 2 == 0; ++*n_segments) {
        OK(try_put(s, 'a', 100 + *n_segments, NULL));
        OK(catalog_file_newest(s->catalog->fd, 0, &newest));
    }
    return s;
}

/* Not so the mutexes: who locks damaged ones may hang. */
static bool in_a_mutex(uint64_t at)
{
    uint64_t readers = offsetof(struct lmdb_lock, readers),
             writer = offsetof(struct lmdb_lock, writer);
    return (at >= readers && at < readers + sizeof(pthread_mutex_t)) ||
           (at >= writer && at < writer + sizeof(pthread_mutex_t));
}

TEST_WITH_OTHER(no_word_of_the_lock_file_is_believed_blindly)
{
    struct hurt h = {0};
    tamis_store_close(store_of_odd(&h.n_segments));
    save_copy();
    for (h.at = 0; h.at < sizeof(struct lmdb_lock) + 16; h.at += 4)
        for (h.how = h.at % 64 != 0; h.how <= 3; h.how++) {
            bool number = h.at == offsetof(struct lmdb_lock, txn);
            if ((h.how && in_a_mutex(h.at)) ||
                by_form(!number && h.how && h.at / 4 % 3 != (unsigned)h.how - 1, 0))
                continue;
            in_child(goes_on_hurt, &h);
            restore_in_place();
        }
}

/* Somebody has listed what the lock file names now. */
TEST_WITH_OTHER(the_number_before_is_not_the_newest)
{
    struct hurt h = {.at = offsetof(struct lmdb_lock, txn), .how = 2};
    uint64_t newest;
    STORE a = store_of_odd(&h.n_segments);
    OK(try_put(a, 'a', 1, NULL));
    IS(count_segments(a), h.n_segments + 1);
    OK(tell('o', 0, path_of("s")));
    OK(tell('p', 1, NULL));
    OK(catalog_file_newest(a->catalog->fd, 0, &newest));
    IS(newest % 2, 1);
    in_child(hurt_lock, &h);
    must_be_listed(a, 'b', 1);
    tell('c', 0, NULL);
}

/* First it reads what is overwritten meanwhile, then the newest. */
static int read_twice(struct catalog_txn *t, void *ctx)
{
    struct hurt h = {.at = offsetof(struct lmdb_lock, n_slots), .how = 1};
    uint64_t newest;
    if (++*(int *)ctx == 1) {
        in_child(hurt_lock, &h);
        for (int i = 0; i < 3; i++)
            OK(tell('p', i, NULL));
        return 0;
    }
    OK(catalog_file_newest(t->catalog->fd, 0, &newest));
    IS(catalog_txn_number(t), newest);
    return 0;
}

TEST_WITH_OTHER(a_reader_whose_slot_was_lost_reads_again)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* it objects to a fork in a transaction */
#endif
    int n_calls = 0;
    STORE a = store_of_base("s");
    OK(tell('o', 0, path_of("s")));
    OK(catalog_read(a->catalog, read_twice, &n_calls, NULL));
    IS(n_calls, 2);
    tell('c', 0, NULL);
}

/* ---- restored in place ---- */

static struct tamis_edit *edit_with(struct tamis_store *s, int i)
{
    struct tamis_edit *e = edit_new(s);
    OK(put_keys(e, segment_name('a', i), first_key('a', i), 100, NULL));
    return e;
}

TEST_WITH_OTHER(an_older_copy_written_over_the_file_is_noticed)
{
    struct tamis_store *a = store_of_base("s");
    save_copy();
    for (int i = 0; i < 3; i++)
        OK(try_put(a, 'a', i, NULL));
    struct tamis_edit *e = edit_with(a, 3);
    restore_in_place();
    struct tamis_diag diag = {0};
    must_say(tamis_edit_commit(e, &diag), &diag, "newest transaction");
    IS(tell('o', 0, path_of("s")), TAMIS_ERR_REPLACED);
    must_refuse_edits(a); /* from now on */
    tamis_store_close(a);
    OK(tell('o', 0, path_of("s"))); /* as old as it is */
    IS(tell('n', 0, NULL), 1);
}

/* A reader without a slot cannot ask the lock file. It does not take an older copy
 * either, after a list of its own or after a commit. */
TEST_WITH_OTHER(no_list_is_older_than_one_that_was_seen)
{
    for (int listed = 0; listed < 2; listed++) {
        STORE a = store_of_base("s");
        save_copy();
        OK(try_put(a, 'a', 1, NULL));
        catalog_env_close(a->catalog);
        if (listed)
            IS(count_segments(a), 2);
        restore_in_place();
        struct tamis_snapshot *snapshot;
        struct tamis_diag diag = {0};
        must_say(tamis_snapshot_current(a, &snapshot, &diag), &diag,
                 "newest transaction");
        remove_stores();
    }
}

/* A reader without LMDB gets no signal from a page beyond the file's end. */
TEST_WITH_OTHER(a_file_that_was_cut_ends_no_reader)
{
    STORE a = store_of_base("s");
    catalog_env_close(a->catalog);
    IS(count_segments(a), 1);
    overwrite_with_zeros();
    struct tamis_snapshot *snapshot = NULL;
    assert_true(tamis_snapshot_current(a, &snapshot, NULL) != 0);
}

TEST_WITH_OTHER(so_is_the_catalog_of_another_store)
{
    STORE a = store_of_base("s");
    tamis_store_close(store_of_base("t"));
    file_copy(path_of("t/catalog.lmdb"), path_of("s/older"));
    restore_in_place();
    struct tamis_diag diag = {0};
    must_say(try_put(a, 'a', 1, &diag), &diag, "another store");
}

TEST_WITH_OTHER(and_a_file_of_nothing)
{
    STORE a = store_of_base("s");
    save_copy();
    overwrite_with_zeros();
    struct tamis_diag diag = {0};
    must_say(try_put(a, 'a', 1, &diag), &diag, "no catalog now");
    restore_in_place(); /* LMDB may look at it when it closes */
}

/* ---- in the middle of an edit ---- */

TEST_WITH_OTHER(replaced_after_an_edit_began)
{
    STORE a = store_new("s");
    struct tamis_diag diag = {0};
    struct tamis_edit *e = edit_with(a, 1);
    replace_catalog();
    must_say(tamis_edit_commit(e, &diag), &diag, "while");
    tamis_store_close(a);
    a = store_open("s");
    IS(count_segments(a), 0);
}

static int replace_and_say(struct catalog_txn *t, void *ctx)
{
    replace_catalog();
    return catalog_set_complete(t, false);
}

/* The transaction is there, and is not committed. */
TEST_WITH_OTHER(replaced_before_the_commit)
{
    STORE a = store_new("s");
    struct tamis_diag diag = {0};
    struct stat before, after;
    bool unsure = true;
    FD fd = open(path_of(CATALOG), O_RDONLY | O_CLOEXEC);
    uint64_t newest, then;
    OK(catalog_file_newest(fd, 0, &newest));
    OK(fstat(fd, &before));
    must_say(catalog_write(a->catalog, NULL, 0, replace_and_say, NULL, &unsure, &diag),
             &diag, "while");
    assert_false(unsure);
    OK(catalog_file_newest(fd, 0, &then));
    OK(fstat(fd, &after));
    IS(newest, then);
    IS(before.st_size, after.st_size);
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
TEST_WITH_OTHER(replaced_in_the_commit)
{
    STORE a = store_of_base("s");
    struct tamis_edit *e = edit_with(a, 1);
    struct tamis_diag diag = {0};
    OK(tamis_edit_drop(e, "base", 4, NULL, NULL));
    in_the_sync = replace_catalog;
    must_say(tamis_edit_commit(e, &diag), &diag, "while");
    assert_null(in_the_sync);
    IS(n_filter_files("s"), 2); /* nothing goes */
    tamis_store_close(a);
    a = store_open("s");
    IS(count_segments(a), 1);
    IS(reason_of(a, "base", 5), TAMIS_HIT);
}

/* ---- files of others ---- */

TEST_WITH_OTHER(a_stale_process_sweeps_nothing)
{
    STORE a = store_new("s");
    replace_both(); /* with a lock of its own it believes in its list */
    OK(tell('o', 0, path_of("s")));
    for (int i = 0; i < 5; i++)
        OK(tell('p', i, NULL));
    IS(n_filter_files("s"), 5);
    must_refuse_edits(a);
    FD dir = open(path_of("s/filters"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sweep_orphans(a->catalog, dir, &(size_t){0});
    IS(n_filter_files("s"), 5);
}

TEST_WITH_OTHER(nor_does_an_edit_that_is_aborted)
{
    STORE a = store_new("s");
    struct tamis_edit *e = edit_with(a, 1);
    replace_catalog();
    tamis_edit_abort(e);
    IS(n_filter_files("s"), 1);
    tamis_store_close(a);
    a = store_open("s");
    OK(try_put(a, 'a', 2, NULL)); /* sweeps */
    IS(n_filter_files("s"), 1);
}

/* ---- a growing filter's bounds ---- */

TEST_WITH_OTHER(bounds_are_not_raised_in_another_catalog)
{
    STORE a = store_new("s");
    struct tamis_diag diag = {0};
    put_growing(a, "g");
    struct tamis_writer *w = writer_of(a, "g");
    OK(tamis_writer_add_key(w, "key", 3));
    OK(tamis_writer_commit(w, 0, NULL));
    replace_catalog();
    must_say(tamis_writer_commit(w, 1, &diag), &diag, "while");
    must_say(tamis_writer_seal(w, 1, NULL, &diag), &diag, "while");
    tamis_writer_close(w, NULL);
    IS(tamis_store_writer(a, "g", 1, NULL, &w, NULL), TAMIS_ERR_REPLACED);
}

/* ---- opened again ---- */

TEST_WITH_OTHER(stale_handles_are_closed_first)
{
    void (*const changes[])(void) = {replace_catalog, remove_lock, replace_filters};
    for (size_t k = 0; k < N_OF(changes); k++) {
        struct tamis_store *a = store_new("s"), *again;
        struct tamis_diag diag = {0};
        OK(try_put(a, 'a', 1, NULL));
        changes[k]();
        must_say(tamis_store_open(path_of("s"), NULL, &again, &diag), &diag,
                 "every handle");
        tamis_store_close(a);
        a = store_open("s");
        must_be_listed(a, 'a', 1);
        OK(try_put(a, 'a', 2, NULL));
        tamis_store_close(a);
        remove_tree("s");
    }
}

RUN_TESTS(test_dir_create, test_dir_remove)
