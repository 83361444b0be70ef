/* A store whose files are replaced while a process has it open: the caveats of LMDB and
 * the ways to corrupt a database that SQLite lists, one after the other. Nothing that a
 * call acknowledged may be lost, and no file of another process may go. */
#include "tests/support/store_support.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

enum { IN_TURN = 20 };

/* ---- another process, which does as it is told ---- */

static struct {
    pid_t pid;
    int ask[2], answer[2];
} other;

static const char *segment_name(char who, int i)
{
    static char name[4][32];
    static unsigned next;
    char *n = name[next++ % 4];
    snprintf(n, sizeof name[0], "%c%04d", who, i);
    return n;
}

/* Keys of segment i of A and of B, so that each answers for its own. */
static uint64_t first_key(char who, int i)
{
    return (who == 'a' ? 1000000U : 2000000U) + 100U * (uint64_t)i;
}

static int try_put(struct tamis_store *s, char who, int i, struct tamis_diag *diag)
{
    const char *name = segment_name(who, i);
    struct tamis_edit *e;
    int rc = tamis_edit_begin(s, &e, diag);
    if (rc)
        return rc;
    rc = put_keys(e, name, first_key(who, i), 100, NULL);
    if (!rc)
        return tamis_edit_commit(e, diag);
    tamis_edit_abort(e);
    return rc;
}

static int count_segments(struct tamis_store *s)
{
    struct tamis_snapshot *snap;
    if (tamis_snapshot_current(s, &snap, NULL) != 0)
        return -1;
    int n = (int)tamis_snapshot_n_segments(snap);
    tamis_snapshot_release(snap);
    return n;
}

struct order {
    char what;
    int number;
    char path[600];
};

static int obey(struct tamis_store **s, const struct order *o)
{
    switch (o->what) {
    case 'o':
        return tamis_store_open(o->path, s, NULL);
    case 'p':
        return try_put(*s, 'b', o->number, NULL);
    case 'n':
        return count_segments(*s);
    default:
        tamis_store_close(*s);
        *s = NULL;
        return 0;
    }
}

static void serve(void)
{
    struct tamis_store *s = NULL;
    struct order o;
    close(other.ask[1]);
    while (read(other.ask[0], &o, sizeof o) == (ssize_t)sizeof o) {
        int rc = obey(&s, &o);
        if (write(other.answer[1], &rc, sizeof rc) != (ssize_t)sizeof rc)
            break;
    }
    tamis_store_close(s);
    _exit(0);
}

static int start_other(void **state)
{
    (void)state;
    if (pipe(other.ask) || pipe(other.answer))
        return -1;
    other.pid = fork();
    if (other.pid == 0)
        serve();
    close(other.ask[0]);
    return other.pid < 0 ? -1 : 0;
}

static int end_other(void **state)
{
    int status;
    (void)state;
    close(other.ask[1]);
    waitpid(other.pid, &status, 0);
    close(other.answer[0]);
    close(other.answer[1]);
    nftw(path_of("s"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
    nftw(path_of("t"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int tell(char what, int number, const char *path)
{
    struct order o = {.what = what, .number = number};
    int rc;
    snprintf(o.path, sizeof o.path, "%s", path ? path : "");
    assert_int_equal(write(other.ask[1], &o, sizeof o), sizeof o);
    assert_int_equal(read(other.answer[0], &rc, sizeof rc), sizeof rc);
    return rc;
}

/* ---- a clock that stands still, and calls in the middle of which things happen ----
 */

static uint64_t seconds_ahead; /* in nanoseconds */
static unsigned n_looks;       /* how often a file's name was looked at */
static void (*in_the_look)(void), (*in_the_sync)(void);

int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (clock != CLOCK_MONOTONIC_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, t);
    t->tv_sec = (time_t)(1000 + seconds_ahead / 1000000000);
    t->tv_nsec = (long)(seconds_ahead % 1000000000);
    return 0;
}

int fstatat(int dir, const char *restrict path, struct stat *restrict st, int flags)
{
    void (*now)(void) = in_the_look;
    n_looks++;
    in_the_look = NULL;
    if (now)
        now();
    return (int)syscall(SYS_newfstatat, dir, path, st, flags);
}

__attribute__((visibility("default"))) int fdatasync(int fd) /* LMDB's, too */
{
    void (*now)(void) = in_the_sync;
    in_the_sync = NULL;
    if (now)
        now();
    return (int)syscall(SYS_fdatasync, fd);
}

static void pass(uint64_t milliseconds)
{
    seconds_ahead += milliseconds * 1000000;
}

/* ---- what is done to the files ---- */

#define CATALOG "s/catalog.lmdb"
#define LOCK    "s/catalog.lmdb-lock"

static void rename_to(const char *from, const char *to)
{
    OK(rename(path_of(from), path_of(to)));
}

static void replace_catalog(void)
{
    file_copy(path_of(CATALOG), path_of("s/new"));
    rename_to("s/new", CATALOG);
}

static void remove_lock(void)
{
    OK(unlink(path_of(LOCK)));
}

static void remove_catalog(void)
{
    OK(unlink(path_of(CATALOG)));
}

static void replace_both(void)
{
    replace_catalog();
    remove_lock();
}

static void copy_store(const char *from, const char *to)
{
    char command[2500];
    snprintf(command, sizeof command, "cp -a '%s' '%s'", path_of(from), path_of(to));
    OK(system(command));
}

static void move_away(void)
{
    rename_to("s", "t");
}

static void move_away_and_copy_back(void)
{
    move_away();
    copy_store("t", "s");
}

/* An older copy, written over the file as it lies there. */
static void save_copy(void)
{
    file_copy(path_of(CATALOG), path_of("s/older"));
}

static void restore_in_place(void)
{
    size_t n;
    uint8_t *bytes = file_read(path_of("s/older"), &n);
    file_poke(path_of(CATALOG), 0, bytes, n);
    free(bytes);
}

static void overwrite_with_zeros(void)
{
    OK(truncate(path_of(CATALOG), 0));
}

/* ---- what must hold ---- */

static void must_say(int rc, const struct tamis_diag *diag, const char *want)
{
    if (rc != TAMIS_ERR_REPLACED || diag->code != rc || !strstr(diag->what, want))
        fail_msg("%d: %s: %s", rc, diag->file, diag->what);
}

static void must_refuse_edits(struct tamis_store *s)
{
    struct tamis_diag diag = {0};
    struct tamis_edit *e;
    must_say(tamis_edit_begin(s, &e, &diag), &diag, "while");
    assert_null(e);
    assert_int_equal(tamis_store_confirm_complete(s, NULL), TAMIS_ERR_REPLACED);
}

static void must_be_listed(struct tamis_store *s, char who, int i)
{
    assert_int_equal(reason_of(s, segment_name(who, i), first_key(who, i)), TAMIS_HIT);
}

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

/* ---- names ---- */

/* With a lock file of its own, so only one of the two names is used at a time. */
static void a_hard_link_of_the_catalog_is_no_second_store(void **state)
{
    (void)state;
    struct tamis_store *a = store_new("s"), *t;
    struct tamis_diag diag = {0};
    OK(mkdir(path_of("t"), 0777));
    OK(mkdir(path_of("t/filters"), 0777));
    OK(link(path_of(CATALOG), path_of("t/catalog.lmdb")));
    OK(try_put(a, 'a', 1, NULL));
    must_say(tamis_store_open(path_of("t"), &t, &diag), &diag, "every handle");
    assert_int_equal(tell('o', 0, path_of("t")), TAMIS_ERR_REPLACED);
    OK(try_put(a, 'a', 2, NULL));
    tamis_store_close(a);
    OK(tell('o', 0, path_of("t")));
    assert_int_equal(tamis_store_open(path_of("s"), &a, NULL), TAMIS_ERR_REPLACED);
}

/* Two names, one catalog: in one process one environment, and B sees what A writes. */
static void both_names_work(const char *one, const char *two)
{
    struct tamis_store *a = store_open(one), *b = store_open(two);
    assert_ptr_equal(a->catalog, b->catalog);
    OK(tell('o', 0, path_of(two)));
    for (int i = 0; i < 3; i++) {
        OK(try_put(a, 'a', i, NULL));
        OK(tell('p', i, NULL));
        assert_int_equal(count_segments(b), 2 * i + 2);
        assert_int_equal(tell('n', 0, NULL), 2 * i + 2);
    }
    tamis_store_close(a);
    OK(try_put(b, 'a', 3, NULL));
    tamis_store_close(b);
}

static void a_symbolic_link_is_the_same_store(void **state)
{
    (void)state;
    tamis_store_close(store_new("s"));
    OK(symlink("s", path_of("link")));
    both_names_work("link", "s");
    OK(unlink(path_of("link")));
}

/* The link leads elsewhere later on: who has opened its store keeps it. */
static void so_is_one_that_leads_elsewhere_later(void **state)
{
    (void)state;
    tamis_store_close(store_new("s"));
    tamis_store_close(store_new("t"));
    OK(symlink("s", path_of("link")));
    struct tamis_store *a = store_open("link");
    OK(unlink(path_of("link")));
    OK(symlink("t", path_of("link")));
    OK(try_put(a, 'a', 1, NULL));
    struct tamis_store *t = store_open("link");
    assert_int_equal(count_segments(t), 0);
    tamis_store_close(t);
    tamis_store_close(a);
    OK(unlink(path_of("link")));
}

static void enter_mount_namespace(void)
{
    int flags = CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0);
    if (unshare(flags) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        fail_msg("no mount namespace (%s): run as root, or allow user namespaces",
                 strerror(errno));
}

static int in_namespace(void *ctx)
{
    (void)ctx;
    enter_mount_namespace();
    OK(start_other(NULL)); /* in the same namespace */
    OK(mount(path_of("s"), path_of("t"), NULL, MS_BIND, NULL));
    both_names_work("t", "s");
    struct tamis_store *a = store_open("s");
    OK(mount(path_of("u"), path_of("s"), NULL, MS_BIND, NULL));
    must_refuse_edits(a); /* its name is another's now */
    tamis_store_close(a);
    return 0;
}

static void a_bind_mount_is_the_same_store(void **state)
{
    (void)state;
    tamis_store_close(store_new("s"));
    tamis_store_close(store_new("u"));
    OK(mkdir(path_of("t"), 0777));
    in_child(in_namespace, NULL);
    nftw(path_of("u"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void the_working_directory_may_change(void **state)
{
    (void)state;
    char before[1024];
    assert_non_null(getcwd(before, sizeof before));
    tamis_store_close(store_new("s"));
    OK(chdir(test_dir));
    struct tamis_store *a;
    OK(tamis_store_open("s", &a, NULL));
    OK(chdir("/"));
    OK(try_put(a, 'a', 1, NULL));
    must_be_listed(a, 'a', 1);
    tamis_store_close(a);
    OK(chdir(before));
}

/* ---- probes ---- */

static struct tamis_snapshot *asked;
static struct tamis_key absent_key;

static enum tamis_reason reason_now(void)
{
    enum tamis_reason why;
    struct tamis_target t = tamis_snapshot_target(asked, 0);
    bool absent = tamis_snapshot_probe(asked, &t, &absent_key, &why) == TAMIS_ABSENT;
    assert_int_equal(absent, why == TAMIS_NO_REASON);
    return why;
}

/* All ways to ask say it, and none says ABSENT unless `want` does. */
static void all_must_say(enum tamis_reason want)
{
    bool absent = want == TAMIS_NO_REASON;
    size_t n = tamis_snapshot_n_segments(asked), n_candidates;
    struct tamis_target targets[40];
    uint64_t bits[1], rows[2];
    uint8_t why[40];
    enum tamis_reason reason;
    struct tamis_key keys[2] = {absent_key, absent_key};
    assert_true(n <= 40);
    assert_int_equal(reason_now(), want);
    for (size_t i = 0; i < n; i++)
        targets[i] = tamis_snapshot_target(asked, i);
    assert_int_equal(tamis_snapshot_probe_batch(asked, targets, absent_key.tag,
                                                &absent_key.hash, 1, bits, &reason),
                     absent);
    assert_int_equal(reason, want);
    assert_int_equal(tamis_snapshot_probe_all(asked, &absent_key, bits, why), absent);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(why[i], want);
    assert_int_equal(bits[0] != 0, absent);
    assert_int_equal(
        tamis_snapshot_probe_list(asked, targets, n, &absent_key, bits, why), absent);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(why[i], want);
    assert_int_equal(
        tamis_snapshot_candidates(asked, &absent_key, NULL, 0, &n_candidates), absent);
    assert_int_equal(n_candidates, absent ? 0 : n);
    assert_int_equal(tamis_snapshot_probe_keys(asked, NULL, 0, keys, 2, rows),
                     absent ? 2 : 0);
    assert_int_equal(tamis_snapshot_probe_keys(asked, targets, n, keys, 2, rows),
                     absent ? 2 : 0);
    assert_int_equal(rows[0] != 0 || rows[1] != 0, absent);
}

static struct tamis_store *store_to_ask(size_t n_segments)
{
    struct tamis_store *s = store_new("s");
    struct tamis_edit *e = edit_new(s);
    for (size_t i = 0; i < n_segments; i++)
        OK(put_keys(e, segment_name('a', (int)i), 100 * i, 100, NULL));
    OK(tamis_edit_commit(e, NULL));
    asked = snapshot_of(s);
    absent_key = key_in(s, 99999999);
    absent_key.bytes = NULL;       /* so that no range says it */
    all_must_say(TAMIS_NO_REASON); /* and looks */
    return s;
}

static void readers_notice_within_a_second(void **state)
{
    (void)state;
    void (*const changes[])(void) = {replace_catalog, remove_lock, remove_catalog,
                                     move_away, move_away_and_copy_back};
    for (size_t k = 0; k < sizeof changes / sizeof changes[0]; k++)
        for (size_t n = 1; n <= 33; n += 32) {
            struct tamis_store *s = store_to_ask(n);
            struct tamis_snapshot *now;
            struct tamis_diag diag = {0};
            changes[k]();
            pass(1000);
            all_must_say(TAMIS_MISMATCH);
            must_say(tamis_snapshot_current(s, &now, &diag), &diag, "while");
            assert_null(now);
            pass(1000); /* for ever */
            all_must_say(TAMIS_MISMATCH);
            tamis_snapshot_release(asked);
            tamis_store_close(s);
            nftw(path_of("s"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
            nftw(path_of("t"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
        }
}

static void readers_notice_an_older_copy_in_place(void **state)
{
    (void)state;
    struct tamis_store *s = store_new("s");
    save_copy();
    OK(try_put(s, 'a', 1, NULL));
    asked = snapshot_of(s);
    absent_key = key_in(s, 99999999);
    all_must_say(TAMIS_NO_REASON);
    restore_in_place();
    pass(1000);
    all_must_say(TAMIS_MISMATCH);
    assert_int_equal(count_segments(s), -1);
    tamis_snapshot_release(asked);
    tamis_store_close(s);
}

static void a_catalog_that_is_cut_off_proves_nothing(void **state)
{
    (void)state;
    struct tamis_store *s = store_to_ask(5);
    save_copy();
    overwrite_with_zeros();
    pass(1000);
    all_must_say(TAMIS_UNREADABLE);
    restore_in_place();
    pass(500);
    all_must_say(TAMIS_NO_REASON);
    tamis_snapshot_release(asked);
    tamis_store_close(s);
}

/* Others may edit as they like. */
static void a_list_that_goes_on_is_no_other_store(void **state)
{
    (void)state;
    struct tamis_store *s = store_to_ask(1);
    OK(tell('o', 0, path_of("s")));
    for (int i = 0; i < 5; i++) {
        OK(tell('p', i, NULL));
        pass(1000);
        all_must_say(TAMIS_NO_REASON);
        assert_int_equal(count_segments(s), i + 2);
    }
    tamis_snapshot_release(asked);
    tamis_store_close(s);
}

static void between_looks_there_is_no_system_call(void **state)
{
    (void)state;
    struct tamis_store *s = store_to_ask(33);
    pass(500);
    all_must_say(TAMIS_NO_REASON);
    n_looks = 0;
    for (int i = 0; i < 1000; i++) {
        pass(i % 400 ? 0 : 1);
        all_must_say(TAMIS_NO_REASON);
    }
    assert_int_equal(n_looks, 0);
    pass(500);
    all_must_say(TAMIS_NO_REASON);
    assert_int_equal(n_looks, 2); /* the catalog and its lock file, once */
    tamis_snapshot_release(asked);
    tamis_store_close(s);
}

static void a_snapshot_that_outlives_its_store_looks_on(void **state)
{
    (void)state;
    struct tamis_store *s = store_to_ask(5);
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
    (void)ctx;
    pass(1000);
    all_must_say(TAMIS_NO_REASON);
    replace_catalog();
    pass(1000);
    all_must_say(TAMIS_MISMATCH);
    return 0;
}

static void so_does_one_in_a_child(void **state)
{
    (void)state;
    struct tamis_store *s = store_to_ask(5);
    in_child(ask_in_child, NULL);
    tamis_snapshot_release(asked);
    tamis_store_close(s);
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

static void a_look_that_never_ends_holds_nobody_up(void **state)
{
    (void)state;
    struct tamis_store *s = store_to_ask(1);
    pass(500);
    in_the_look = jump_out;
    if (sigsetjmp(out, 0) == 0)
        reason_now();
    assert_null(in_the_look);
    all_must_say(TAMIS_NO_REASON);
    replace_catalog();
    pass(500); /* what was known is not valid any more */
    all_must_say(TAMIS_MISMATCH);
    tamis_snapshot_release(asked);
    tamis_store_close(s);
}

static void others_go_on_while_one_looks(void **state)
{
    (void)state;
    struct tamis_store *s = store_to_ask(1);
    pass(500);
    nested = TAMIS_UNREADABLE;
    n_looks = 0;
    in_the_look = ask_meanwhile;
    assert_int_equal(reason_now(), TAMIS_NO_REASON);
    assert_int_equal(nested, TAMIS_NO_REASON);
    assert_int_equal(n_looks, 2); /* of one thread */
    /* Its look began before the file was replaced, and ends much later. */
    pass(500);
    in_the_look = ask_a_second_later;
    reason_now();
    assert_int_equal(nested, TAMIS_MISMATCH);
    all_must_say(TAMIS_MISMATCH);
    tamis_snapshot_release(asked);
    tamis_store_close(s);
}

static ssize_t fail_pread(int fd, void *buf, size_t n, off_t offset)
{
    (void)fd, (void)buf, (void)n, (void)offset;
    errno = EIO;
    return -1;
}

/* A thread that is to be cancelled has probed, looks included, before it ends. */
static void *probe_cancelled(void *reason)
{
    pthread_cancel(pthread_self());
    *(enum tamis_reason *)reason = reason_now();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return reason;
}

static void a_look_is_no_cancellation_point(void **state)
{
    (void)state;
    struct tamis_store *s = store_to_ask(1);
    enum tamis_reason reason = TAMIS_UNREADABLE;
    pthread_t thread;
    void *result;
    pass(500);
    n_looks = 0;
    OK(pthread_create(&thread, NULL, probe_cancelled, &reason));
    OK(pthread_join(thread, &result));
    assert_ptr_equal(result, &reason);
    assert_int_equal(reason, TAMIS_NO_REASON);
    assert_int_equal(n_looks, 2);
    tamis_snapshot_release(asked);
    tamis_store_close(s);
}

/* Not knowing is MAYBE, until somebody knows. */
static void a_look_that_fails_is_no_proof_of_either(void **state)
{
    (void)state;
    struct tamis_store *s = store_to_ask(1);
    pass(500);
    io_calls.pread = fail_pread;
    assert_int_equal(reason_now(), TAMIS_UNREADABLE);
    assert_int_equal(reason_now(), TAMIS_UNREADABLE);
    io_calls.pread = pread;
    all_must_say(TAMIS_NO_REASON);
    tamis_snapshot_release(asked);
    tamis_store_close(s);
}

#define EACH(f) cmocka_unit_test_setup_teardown(f, start_other, end_other)

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
        EACH(a_hard_link_of_the_catalog_is_no_second_store),
        EACH(a_symbolic_link_is_the_same_store),
        EACH(so_is_one_that_leads_elsewhere_later),
        EACH(a_bind_mount_is_the_same_store),
        EACH(the_working_directory_may_change),
        EACH(readers_notice_within_a_second),
        EACH(readers_notice_an_older_copy_in_place),
        EACH(a_catalog_that_is_cut_off_proves_nothing),
        EACH(a_list_that_goes_on_is_no_other_store),
        EACH(between_looks_there_is_no_system_call),
        EACH(a_snapshot_that_outlives_its_store_looks_on),
        EACH(so_does_one_in_a_child),
        EACH(a_look_that_never_ends_holds_nobody_up),
        EACH(others_go_on_while_one_looks),
        EACH(a_look_is_no_cancellation_point),
        EACH(a_look_that_fails_is_no_proof_of_either),
    };
    return cmocka_run_group_tests(tests, test_dir_create, test_dir_remove);
}
