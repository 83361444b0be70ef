/* Stores: creating them, opening them, following what others commit. */
#include "tests/faults/stores.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEALED  TAMIS_SEGMENT_SEALED
#define GROWING TAMIS_SEGMENT_GROWING
#define BARE    TAMIS_SEGMENT_BARE

static const struct segment nothing[] = {{0}};
static const struct segment some[] = {
    {"a", SEALED, 20}, {"b", BARE, 2}, {"g", GROWING, 10}, {0}};

/* ---- create ---- */

static bool created;

static void create_body(struct run *r)
{
    tally.no_map_full = true;
    created = TRY(r, tamis_store_create(store_path(r), NULL, &r->diag)) == 0;
}

static int put_one(struct run *r, struct tamis_edit *e)
{
    static const struct segment s[] = {{"new", SEALED, 5}, {0}};
    return put_listed(r, e, s);
}

static void create_check(struct run *r)
{
    static const struct segment s[] = {{"new", SEALED, 5}, {0}};
    if (!created && !(r->littered && is_there(in_dir(r, "store/catalog.lmdb"))))
        MUST(r, tamis_store_create(store_path(r), NULL, &r->diag));
    CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
    expect_list(r, nothing);
    CHECK(do_edit(r, put_one) == 0, "an edit: %s", r->diag.what);
    expect_list(r, s);
    if (!r->littered)
        expect_swept(r);
    close_store();
}

/* Remains of a creation that was killed are in the way. */
static void remains_prepare(struct run *r)
{
    FILE *f;
    CHECK(mkdir(store_path(r), 0700) == 0, "preparing");
    CHECK(mkdir(in_dir(r, "store/filters"), 0700) == 0, "preparing");
    f = fopen(in_dir(r, "store/catalog.lmdb.01234567.tmp"), "w");
    CHECK(f && fclose(f) == 0, "preparing");
}

/* A store is there already: none may take its place, or a part of it away. */
static void again_prepare(struct run *r)
{
    make_store(r, nothing);
}

static void again_body(struct run *r)
{
    TRY_FOR(r, TAMIS_ERR_EXISTS, tamis_store_create(store_path(r), NULL, &r->diag));
}

static void again_check(struct run *r)
{
    created = true;
    create_check(r);
}

/* ---- open and ask ---- */

static void open_prepare(struct run *r)
{
    make_store(r, some);
}

/* LMDB's file may end before the last page that it ever counted; then its trees are
 * walked. */
static void short_prepare(struct run *r)
{
    enum { LAST_PAGE_AT = 136, META_BYTES_APART = 4096 };
    uint64_t last;
    make_store(r, some);
    int fd = open(in_dir(r, "store/catalog.lmdb"), O_RDWR | O_CLOEXEC);
    for (off_t at = LAST_PAGE_AT; at < 2 * META_BYTES_APART; at += META_BYTES_APART) {
        CHECK(pread(fd, &last, sizeof last, at) == sizeof last && last < 100,
              "LMDB's meta page is another than it was");
        last += 3;
        CHECK(pwrite(fd, &last, sizeof last, at) == sizeof last, "preparing");
    }
    close(fd);
}

/* The report has a failure of one filter. */
static void prepare(struct run *r, struct tamis_snapshot *snapshot)
{
    enum { BUDGET = 1 << 16 };
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .warm = 1, .lock_bytes = BUDGET};
    struct tamis_prepare_report report;
    r->diag.code = NO_DIAG;
    int rc = IN_LIB(tamis_snapshot_prepare(snapshot, &opt, &report, &r->diag));
    CHECK(rc == 0 || (rc == ENOMEM && r->plan && tally.fired), "prepare: %d", rc);
    if (rc)
        return;
    CHECK(report.n_open + report.n_skipped + report.n_failed ==
              tamis_snapshot_n_segments(snapshot),
          "not all segments are accounted for");
    bool failed = report.n_failed || report.n_unread;
    CHECK((r->diag.code != 0) == failed, "diag and report differ");
    CHECK(tally.fired || (!failed && !report.lock_error), "it fails by itself");
    CHECK(failed || report.warm_bytes == report.open_bytes, "not all is warm");
    CHECK(report.locked_bytes <= BUDGET, "over the budget");
}

static void open_body(struct run *r)
{
    struct tamis_store_info info;
    struct tamis_snapshot *snapshot;
    struct tamis_filter *f;
    if (open_store(r) != 0)
        return;
    if (TRY(r, tamis_store_info(store, &info, &r->diag)) == 0)
        CHECK(info.n_segments >= 3, "%u segments", (unsigned)info.n_segments);
    TRY(r, tamis_store_count(store, 1, &r->diag)); /* which changes no answer */
    if (TRY(r, tamis_snapshot_current(store, &snapshot, &r->diag)) == 0) {
        CHECK(tamis_snapshot_n_segments(snapshot) >= 3, "not all segments are listed");
        expect_nothing_absent(r, snapshot, some);
        TRY(r, tamis_snapshot_filter(snapshot, 0, &f, &r->diag));
        prepare(r, snapshot);
        expect_nothing_absent(r, snapshot, some);
        IN_LIB_VOID(tamis_snapshot_release(snapshot));
    }
    close_store();
}

static void open_check(struct run *r)
{
    CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
    expect_list(r, some);
    expect_swept(r);
    close_store();
}

/* Others commit while this one looks: nothing may be overlooked, and what could not be
 * opened is opened the next time. */
static const struct segment more[] = {
    {"a", SEALED, 20}, {"b", BARE, 2}, {"g", GROWING, 90}, {"n", SEALED, 8}, {0}};

static int put_n(struct run *r, struct tamis_edit *e)
{
    (void)r;
    struct tamis_builder *b;
    char text[64];
    CHECK(tamis_edit_builder(e, "n", 1, 0, NULL, &b, NULL) == 0, "another's edit");
    for (uint64_t i = 0; i < 8; i++) {
        struct tamis_key key = key_of("n", i, text);
        tamis_builder_add_key(b, key.bytes, key.n_bytes);
    }
    int rc = tamis_edit_put(e, b, NULL);
    tamis_builder_free(b);
    return rc;
}

/* Done by a process of its own, which no fault strikes. */
static void others_commit(struct run *r)
{
    struct tamis_edit *e;
    struct tamis_writer *w;
    struct tamis_store *theirs;
    char text[64];
    CHECK(tamis_store_open(store_path(r), &theirs, &r->diag) == 0, "another's store");
    CHECK(tamis_edit_begin(theirs, &e, NULL) == 0 && put_n(r, e) == 0 &&
              tamis_edit_commit(e, NULL) == 0,
          "another's edit");
    CHECK(tamis_store_writer(theirs, "g", 1, &w, &r->diag) == 0, "another's writer: %s",
          r->diag.what);
    for (uint64_t i = 10; i < 90; i++) {
        struct tamis_key key = key_of("g", i, text);
        tamis_writer_add_hashes(w, key.tag, &key.hash, 1);
    }
    CHECK(tamis_writer_commit(w, 90, NULL) == 0 && tamis_writer_close(w) == 0,
          "another's commit");
    tamis_store_close(theirs);
}

static bool committed;

static void follow_body(struct run *r)
{
    committed = false;
    struct tamis_snapshot *first = NULL, *second = NULL;
    if (open_store(r) != 0)
        return;
    if (TRY(r, tamis_snapshot_current(store, &first, &r->diag)) == 0)
        expect_nothing_absent(r, first, some);
    struct tamis_store_info info;
    tamis_store_info(store, &info, NULL);
    committed = !info.read_only; /* as far as this process could tell */
    if (committed)
        others_commit(r);
    if (TRY(r, tamis_snapshot_current(store, &second, &r->diag)) == 0)
        expect_nothing_absent(r, second, committed ? more : some);
    IN_LIB_VOID(tamis_snapshot_release(first));
    IN_LIB_VOID(tamis_snapshot_release(second));
    /* Kept open: what failed must not stick to it. */
}

static void follow_check(struct run *r)
{
    const struct segment *list = committed ? more : some;
    struct tamis_snapshot *snapshot;
    if (store) {
        MUST(r, tamis_snapshot_current(store, &snapshot, &r->diag));
        expect_nothing_absent(r, snapshot, list);
        IN_LIB_VOID(tamis_snapshot_release(snapshot));
        close_store();
    }
    CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
    expect_list(r, list);
    close_store();
}

/* ---- a commit whose process died before it told the others ---- */

static pid_t holder; /* keeps the catalog open, or LMDB would settle it itself */

/* A failure here ends the process with an exit code. */
static pid_t start_process(void (*fn)(struct run *r, int ready), struct run *r)
{
    int ends[2];
    char byte;
    CHECK(pipe2(ends, O_CLOEXEC) == 0, "preparing");
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fn(r, ends[1]);
        _exit(3);
    }
    close(ends[1]);
    (void)!read(ends[0], &byte, 1); /* ready, or ended */
    close(ends[0]);
    return child;
}

static void hold(struct run *r, int ready)
{
    struct tamis_store *s;
    if (tamis_store_open(store_path(r), &s, NULL) != 0 || write(ready, "r", 1) != 1)
        _exit(4);
    pause();
}

static void die(struct run *r, int ready)
{
    (void)ready;
    die_after_meta = true;
    if (tamis_store_open(store_path(r), &store, NULL) != 0)
        _exit(4);
    do_edit(r, put_one);
}

static void killed_prepare(struct run *r)
{
    int status;
    make_store(r, some);
    holder = start_process(hold, r);
    pid_t dead = start_process(die, r);
    CHECK(waitpid(dead, &status, 0) == dead && status == 0,
          "preparing: the process that was to die ended with %d", status);
}

static void killed_check(struct run *r)
{
    static const struct segment list[] = {
        {"a", SEALED, 20}, {"b", BARE, 2}, {"g", GROWING, 10}, {"new", SEALED, 5}, {0}};
    CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
    expect_list(r, list);
    expect_swept(r);
    close_store();
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
}

const struct scenario store_scenarios[] = {
    {"store-create", NULL, create_body, create_check, false, false, NULL},
    {"store-old", NULL, create_body, create_check, true, false, NULL},
    {"store-remains", remains_prepare, create_body, create_check, false, false, NULL},
    {"store-again", again_prepare, again_body, again_check, false, false, NULL},
    {"store-open", open_prepare, open_body, open_check, false, false, NULL},
    {"store-short", short_prepare, open_body, open_check, false, false, NULL},
    {"store-follow", open_prepare, follow_body, follow_check, false, false, NULL},
    {"store-fails", NULL, create_body, create_check, false, false,
     "renameat2:1:EIO:once"},
    {"store-unnamed", NULL, create_body, create_check, false, false,
     "fsync:2:EIO:once"},
    {"killed", killed_prepare, open_body, killed_check, false, false, NULL},
    {0},
};
