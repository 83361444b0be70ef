/* Stores that are opened, asked, and followed while others commit. */
#include "tests/faults/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STORE                                                                          \
    "init; begin; put a 0 20; bare b; grow g; end; add g 10; commit g; shut g; "

/* ---- open and ask ---- */

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
    script_body(r); /* opens it */
    if (!the_player.store)
        return;
    if (MAY(r, tamis_store_info(the_player.store, &info, &r->diag)) == 0)
        CHECK(info.n_segments >= 3, "%u segments", (unsigned)info.n_segments);
    MAY(r,
        tamis_store_count(the_player.store, 1, &r->diag)); /* which changes no answer */
    if (MAY(r, tamis_snapshot_current(the_player.store, &snapshot, &r->diag)) == 0) {
        CHECK(tamis_snapshot_n_segments(snapshot) >= 3, "not all segments are listed");
        steps_ask(&the_player, snapshot, the_player.p);
        MAY(r, tamis_snapshot_filter(snapshot, 0, &f, &r->diag));
        prepare(r, snapshot);
        steps_ask(&the_player, snapshot, the_player.p);
        IN_LIB_VOID(tamis_snapshot_release(snapshot));
    }
    player_end(&the_player);
}

/* ---- others commit while this one looks ---- */

/* Nothing may be overlooked, and what could not be opened is opened the next time. Done
 * as by a process that no fault strikes. */
static void others_commit(struct run *r)
{
    struct tamis_store *ours = the_player.store;
    (void)r;
    the_player.store = NULL;
    faults_pause(true);
    play_text(&the_player, "put n 50 8; add g 80; commit g; shut g");
    player_end(&the_player);
    faults_pause(false);
    the_player.store = ours;
}

static void follow_body(struct run *r)
{
    struct tamis_snapshot *first = NULL, *second = NULL;
    struct tamis_store_info info;
    script_body(r);
    if (!the_player.store)
        return;
    if (MAY(r, tamis_snapshot_current(the_player.store, &first, &r->diag)) == 0)
        steps_ask(&the_player, first, the_player.p);
    tamis_store_info(the_player.store, &info, NULL);
    if (!info.read_only) /* as far as this process could tell */
        others_commit(r);
    if (MAY(r, tamis_snapshot_current(the_player.store, &second, &r->diag)) == 0)
        steps_ask(&the_player, second, the_player.p);
    IN_LIB_VOID(tamis_snapshot_release(first));
    IN_LIB_VOID(tamis_snapshot_release(second));
    /* Kept open: what failed must not stick to it. */
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
    (void)r;
    play_text(&the_player, "open");
    if (write(ready, "r", 1) != 1)
        _exit(4);
    pause();
}

static void die(struct run *r, int ready)
{
    (void)r, (void)ready;
    play_text(&the_player, "open");
    die_after_meta = true;
    play_text(&the_player, "put n 50 5");
}

static void killed_prepare(struct run *r)
{
    int status;
    holder = start_process(hold, r);
    pid_t dead = start_process(die, r);
    CHECK(waitpid(dead, &status, 0) == dead && status == 0,
          "preparing: the process that was to die ended with %d", status);
    *promised_object(the_player.p, "n") = (struct object){
        .name = "n", .standing = THERE, .keys = {.range = {{50, 5}}, .n_ranges = 1}};
}

static void killed_check(struct run *r)
{
    script_check(r);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
}

const struct scenario store_scenarios[] = {
    SCENARIO("store-open", STORE "close; now; open", .body = open_body),
    /* LMDB's file may end before the last page that it ever counted; then its trees are
     * walked. */
    SCENARIO("store-short", STORE "catalog short; now; open", .body = open_body),
    SCENARIO("store-follow", STORE "close; now; open", .body = follow_body),
    SCENARIO("killed", STORE "close; now; open", .prepare = killed_prepare,
             .body = open_body, .check = killed_check),
    {0},
};
