/* Backups of stores with a bit of everything. A call that returns 0 has made a store
 * with all that was acknowledged; one that fails has made nothing, and the store that
 * it copies is none the worse. */
#include "tests/faults/stores.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/store_internals.h"

#define SEALED  TAMIS_SEGMENT_SEALED
#define GROWING TAMIS_SEGMENT_GROWING
#define BARE    TAMIS_SEGMENT_BARE

static const struct segment some[] = {
    {"a", SEALED, 20}, {"b", BARE, 2}, {"g", GROWING, 90}, {"l", SEALED, 5}, {0}};

static struct {
    uint64_t keys;              /* of "g", acknowledged: also its watermark */
    uint64_t n_damaged, n_left; /* if nothing goes wrong */
    uint64_t tree;              /* of the store, or of what is in the way */
    struct tamis_backup_report report;
    uint64_t n_told;
    bool must_fail;
    int rc;
} the;

/* ---- preparing ---- */

static void plain_prepare(struct run *r)
{
    memset(&the, 0, sizeof the);
    the.keys = 90;
    make_store(r, some);
    CHECK(unlink(path_of_segment(r, "l")) == 0, "preparing");
    the.n_left = 1;
    the.tree = tree_of(store_path(r));
}

static void damage_prepare(struct run *r)
{
    static const uint8_t zeros[PAGE_BYTES];
    struct tamis_stage_info stage;
    struct tamis_filter *f;
    plain_prepare(r);
    poke(path_of_segment(r, "a"), PAGE_BYTES + 700, "damage", 6);
    const char *g = path_of_segment(r, "g");
    MUST(r, tamis_filter_open(g, NULL, &f, &r->diag));
    MUST(r, tamis_filter_stage(f, 0, &stage));
    IN_LIB_VOID(tamis_filter_close(f));
    poke(g, (off_t)stage.offset, zeros, sizeof zeros);
    the.n_damaged = 2;
    the.tree = tree_of(store_path(r));
}

static void fails_prepare(struct run *r)
{
    plain_prepare(r);
    the.must_fail = true;
}

static void exists_prepare(struct run *r)
{
    plain_prepare(r);
    CHECK(mkdir(in_dir(r, "copy"), 0700) == 0, "preparing");
    the.tree = tree_of(r->dir);
}

/* ---- the backup ---- */

static void told(void *ctx, const struct tamis_repair_finding *finding)
{
    (void)ctx;
    CHECK(finding->what && finding->what[0], "a finding without words");
    the.n_told++;
}

static int back_up(struct run *r)
{
    the.n_told = 0;
    tally.no_map_full = true; /* in a new catalog it cannot be */
    return TRY(r, tamis_store_backup(store, in_dir(r, "copy"), told, NULL, &the.report,
                                     &r->diag));
}

static void backup_body(struct run *r)
{
    the.rc = -1;
    if (open_store(r) == 0)
        the.rc = back_up(r);
}

/* Its writer, of the same process, has acknowledged keys, and others not yet. */
static void writer_body(struct run *r)
{
    struct tamis_writer *w;
    the.rc = -1;
    if (open_store(r) != 0 ||
        TRY(r, tamis_store_writer(store, "g", 1, &w, &r->diag)) != 0)
        return;
    if (add_to(r, w, "g", 90, 95) == 0 &&
        TRY(r, tamis_writer_commit(w, 95, &r->diag)) == 0)
        the.keys = 95;
    add_to(r, w, "g", 95, 100);
    the.rc = back_up(r);
    TRY(r, tamis_writer_close(w));
}

static void exists_body(struct run *r)
{
    the.rc = -1;
    if (open_store(r) == 0)
        TRY_FOR(r, TAMIS_ERR_EXISTS,
                tamis_store_backup(store, in_dir(r, "copy"), told, NULL, &the.report,
                                   &r->diag));
}

/* ---- what must hold ---- */

/* All keys, and every filter of `path` as good as it was; how many are damaged? */
static uint64_t look_at(struct run *r, const char *path, uint64_t *n_filters)
{
    struct segment list[] = {{"a", SEALED, 20},
                             {"b", BARE, 2},
                             {"g", GROWING, the.keys},
                             {"l", SEALED, 5},
                             {0}};
    struct tamis_snapshot *snapshot;
    struct tamis_segment_info info;
    struct tamis_verify report;
    struct tamis_filter *f;
    uint64_t n_damaged = 0;
    *n_filters = 0;
    MUST(r, tamis_store_open(path, &store, &r->diag));
    MUST(r, tamis_snapshot_current(store, &snapshot, &r->diag));
    CHECK(tamis_snapshot_n_segments(snapshot) == 4, "not all segments are listed");
    expect_nothing_absent(r, snapshot, list);
    for (size_t i = 0; i < 4; i++) {
        MUST(r, tamis_snapshot_segment(snapshot, i, &info));
        f = NULL;
        int rc = IN_LIB(tamis_snapshot_filter(snapshot, i, &f, NULL));
        if (rc || !f)
            continue;
        ++*n_filters;
        IN_LIB(tamis_filter_verify(f, &report, &r->diag)); /* slots may be stale */
        n_damaged += report.n_damaged > 0;
        struct tamis_filter_info about;
        MUST(r, tamis_filter_info(f, &about));
        CHECK(info.name[0] != 'g' || about.watermark >= the.keys,
              "watermark %llu, not %llu", (unsigned long long)about.watermark,
              (unsigned long long)the.keys);
    }
    IN_LIB_VOID(tamis_snapshot_release(snapshot));
    close_store();
    return n_damaged;
}

static void expect_copy(struct run *r, const char *path)
{
    uint64_t n_filters, n_damaged = look_at(r, path, &n_filters);
    struct tamis_repair_options opt = {.size = sizeof opt, .dry_run = 1};
    struct tamis_repair_report report;
    CHECK(n_filters == the.report.n_files && n_filters + the.report.n_left == 3 &&
              the.report.n_segments == 4,
          "%llu filters in the copy, %llu reported, %llu left out",
          (unsigned long long)n_filters, (unsigned long long)the.report.n_files,
          (unsigned long long)the.report.n_left);
    /* A copy that was said to end early when it was checked is told as damaged. */
    bool ended = r->plan && r->plan->fault->effect == NONE;
    CHECK(n_damaged == the.report.n_damaged ||
              (ended && n_damaged < the.report.n_damaged),
          "%llu are damaged, not %llu", (unsigned long long)n_damaged,
          (unsigned long long)the.report.n_damaged);
    CHECK(the.n_told >= the.report.n_left + the.report.n_damaged,
          "not all that is missing was told");
    if (!n_damaged) {
        MUST(r, tamis_store_repair(path, &opt, &report, &r->diag));
        if (r->littered)
            report.n_swept = 0; /* LMDB's lock file of the new catalog */
        CHECK(report.n_rebuilt + report.n_quarantined + report.n_swept == 0,
              "repair finds %llu things in a copy",
              (unsigned long long)(report.n_rebuilt + report.n_quarantined +
                                   report.n_swept));
    }
}

/* A call that failed leaves nothing, but for a temporary that could not be removed. */
static void expect_nothing_made(struct run *r)
{
    DIR *d = opendir(r->dir);
    CHECK(d, "no directory");
    for (const struct dirent *e; (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (e->d_name[0] == '.' || strcmp(e->d_name, "store") == 0)
            continue;
        CHECK(r->littered && n > 4 && strcmp(e->d_name + n - 4, ".tmp") == 0,
              "left behind: %s", e->d_name);
    }
    closedir(d);
}

static void expect_store(struct run *r)
{
    uint64_t n_filters;
    CHECK(look_at(r, store_path(r), &n_filters) == the.n_damaged || damage_expected,
          "the store that was copied is damaged");
    CHECK(n_filters == 2, "the store that was copied lacks filters");
}

/* A file that cannot be read is left out, or is damage. A failed write, or a lack of
 * memory, is an error. */
static bool reading_failed(const struct run *r)
{
    const struct plan *p = r->plan;
    return p &&
           (p->call == CALL_pread || p->call == CALL_fstat || p->call == CALL_fstatat ||
            p->call == CALL_syscall || p->call == CALL_openat);
}

static void backup_check(struct run *r)
{
    if (goes_on(r))
        close_store();
    CHECK(the.rc || !the.must_fail || r->plan, "it did not fail");
    expect_store(r);
    if (the.rc == 0) {
        expect_copy(r, in_dir(r, "copy"));
        CHECK(reading_failed(r) || (the.report.n_left == the.n_left &&
                                    the.report.n_damaged == the.n_damaged),
              "%llu damaged, %llu left out", (unsigned long long)the.report.n_damaged,
              (unsigned long long)the.report.n_left);
        return;
    }
    expect_nothing_made(r);
    CHECK(open_store(r) == 0, "opening: %s", r->diag.what);
    CHECK(back_up(r) == 0, "the next try: %s", r->diag.what);
    close_store();
    expect_copy(r, in_dir(r, "copy"));
    CHECK(the.report.n_left == the.n_left &&
              (the.report.n_damaged == the.n_damaged || damage_expected),
          "the next try leaves out %llu", (unsigned long long)the.report.n_left);
}

/* Nothing was written to: not a byte of the store is another. */
static void quiet_check(struct run *r)
{
    CHECK(tree_of(store_path(r)) == the.tree, "a backup has changed the store");
    backup_check(r);
}

static void exists_check(struct run *r)
{
    close_store();
    CHECK(tree_of(r->dir) == the.tree, "what was in the way has changed");
    CHECK(rmdir(in_dir(r, "copy")) == 0, "what was in the way has changed");
    backup_check(r);
}

const struct scenario backup_scenarios[] = {
    {"backup-old", plain_prepare, backup_body, quiet_check, false, false,
     ">renameat2:2:EINVAL:once"},
    {"backup-damage", damage_prepare, backup_body, quiet_check, false, false, NULL},
    {"backup-writer", plain_prepare, writer_body, backup_check, false, false, NULL},
    {"backup-exists", exists_prepare, exists_body, exists_check, false, false, NULL},
    {"backup-fails", fails_prepare, backup_body, quiet_check, false, false,
     ">renameat2:2:EIO:once"},
    {"backup-unnamed", fails_prepare, backup_body, quiet_check, false, false,
     ">fsync:5:EIO:once"},
    {0},
};
